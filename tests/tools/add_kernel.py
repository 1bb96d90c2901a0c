#!/usr/bin/env python3
"""Shows that adding a kernel is adding one file and one row, and its name to the step's header.

    tests/tools/add_kernel.py

In a copy of step 01, a kernel is added: a file, and a row in 01_step.c. It forgets the edge of C at first: the run at
whole tiles passes, and the tests, the sanitizer, the row's costs and a grading find the fault. Put right, it passes
them all. The program's list, which benchmarks, lessons and grading read, has it, and so has the lesson's table of
counts. nvcc compiles it where there is one. Needs build/cpu and build/check of step 01.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEP, NAME = "01_naive_matmul", "square_tile"

KERNEL = '''/* Idea: as coalesced, with a block of 16 x 16 elements. */
#include "01_step.h"
#include "device/tiles.cuh"

__global__ void square_tile(const float *A, const float *B, float *C, int M, int N, int K)
{
    const int across = ceil_div(N, 16);
    const int row = blockIdx.x / across * 16 + threadIdx.x / 16;
    const int col = blockIdx.x % across * 16 + threadIdx.x % 16;
    if (INSIDE) {
        float sum = 0.0f;
        for (int k = 0; k < K; k++)
            sum += A[(size_t)row * K + k] * B[(size_t)k * N + col];
        C[(size_t)row * N + col] = sum;
    }
}

extern "C" cudaError_t matmul_square_tile(const float *A, const float *B, float *C, int M, int N, int K,
                                          cudaStream_t stream)
{
    square_tile<<<ceil_div(M, 16) * ceil_div(N, 16), 256, 0, stream>>>(A, B, C, M, N, K);
    return cudaGetLastError();
}
'''
ROW = '''    MATMUL_ROW(square_tile, "3_square_tile.cu", "the same; a block computes 16 x 16 elements",
               .about.after = "coalesced", .cost = naive_cost),
'''


def copy_tree(target):
    """The sources, and what is built of those that stay as they are; times are kept, so nothing is built again."""
    parts = ("obj/common", f"obj/{STEP}", "flags", "libcommon.a")
    for name in ("Makefile", "common", STEP, "tests", "docs/make", "build/simt",
                 *(f"build/{build}/{part}" for build in ("cpu", "check") for part in parts)):
        source, copy = ROOT / name, target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, copy)


def run(*command, cwd=None, **variables):
    """Status and output; make started by make must not take orders from the first."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
    done = subprocess.run(command, cwd=cwd, env=dict(environment, **variables), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=900)
    return done.returncode, done.stdout


def require(condition, what, output):
    if not condition:
        sys.exit(f"add_kernel: {what}:\n{output[-3000:]}")
    print(f"add_kernel: {what}", flush=True)


def succeeds(what, *command, says=""):
    status, output = run(*command)
    require(status == 0 and re.search(says, output, re.M), what, output)


def fails(what, *command, says=""):
    status, output = run(*command)
    require(status != 0 and says in output, what, output)


def write(inside):
    pathlib.Path(STEP, "3_square_tile.cu").write_text(KERNEL.replace("INSIDE", inside))


def insert(file, text, before):
    path = pathlib.Path(STEP, file)
    whole = path.read_text()
    require(whole.count(before) == 1, f"there is a place for it in {file}", whole)
    path.write_text(whole.replace(before, text + before))


def build():
    status, output = run("make", "BACKEND=cpu", f"build/check/{STEP}", "build/cpu/tests/test_01", "build/check/tests/test_01")
    if status:
        sys.exit(f"add_kernel: does not build:\n{output[-3000:]}")


def tests():
    """(title, command) of what must find a fault and pass without one: small parts of make test and make sanitize."""
    yield "the tests' sizes", ("build/cpu/tests/test_01", "--filter", "shapes/rectangles")
    yield "the sanitizer", ("build/check/tests/test_01", "--filter", "inputs/misaligned")
    yield "the row's costs", ("build/check/tests/test_01", "--filter", "counters/costs")


def grading():
    """(exit status, output) of grading the step's folder, with the points of a kernel that lab.json does not mention."""
    os.makedirs("build/tmp", exist_ok=True)  # a grading keeps what it has compiled
    return run(sys.executable, "common/tools/labs/grade.py", STEP[:2], STEP, "-", "exit", NAME, TMPDIR=os.path.abspath("build/tmp"))


def program(*options):
    """{name: facts} of the kernels, as the step's program tells them."""
    status, output = run(f"build/check/{STEP}", "--json", *options)
    if status:
        sys.exit(f"add_kernel: the program fails:\n{output[-3000:]}")
    return {kernel["name"]: kernel for kernel in json.loads(output)["kernels"]}


def main():
    with tempfile.TemporaryDirectory(prefix="add_kernel-") as name:
        os.chmod(name, 0o755)  # a grading compiles as another user
        copy_tree(pathlib.Path(name))
        os.chdir(name)
        insert("01_step.c", ROW, "    {.about.name = NULL},\n")
        insert("01_step.h", f", matmul_{NAME}", ";\n\nstruct step;")

        write("row <= M && col < N")
        build()
        succeeds("the run shows and checks it", f"build/check/{STEP}", says=rf"^{NAME} +pass")
        for title, command in tests():
            fails(f"its fault is found by {title}", *command, says=NAME)
        status, output = grading()
        require(status == 1 and "ungraded" not in output, "its fault is found by the grading", output)

        write("row < M && col < N")
        build()
        for title, command in tests():
            succeeds(f"without the fault it passes {title}", *command)
        status, output = grading()
        require(status == 0 and NAME in output, "without the fault it has full marks", output)

        row, counted = program("--list")[NAME], program()[NAME]
        require(row["file"] == f"3_{NAME}.cu" and row["global_loads"] == counted["global_loads"] > 0 and
                row["bytes_written"] == counted["global_store_bytes"] > 0,
                "the program's list has it, with the costs that a run counts", f"{row}\n{counted}")
        fails("the lesson's table of counts wants it", "docs/make/lessons.py", "--check", STEP)
        run("docs/make/lessons.py", "--write", STEP)
        lesson = pathlib.Path(STEP, "README.md").read_text()
        require(f"| `{NAME}` |" in lesson, "the lesson's table of counts has it", lesson)

        if shutil.which("nvcc") or pathlib.Path("/usr/local/cuda/bin/nvcc").exists():
            succeeds("nvcc compiles it", "make", "BACKEND=gpu", "ARCH=sm_80", f"build/gpu/{STEP}",
                     says=rf"3_{NAME}\.cu")
        else:
            print("add_kernel: skipped: there is no nvcc to compile it")


if __name__ == "__main__":
    main()
