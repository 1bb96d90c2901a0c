#!/usr/bin/env python3
"""Compares the CPU backend with other ways to run kernels on a CPU: CPU time of the programs in cpu_peers.cu.

    common/tools/bench/cpu_peers.py                        the CPU backend alone, or beside PoCL where that is installed
    common/tools/bench/cpu_peers.py --hip-cpu FOLDER       beside HIP-CPU (a clone of github.com/ROCm/HIP-CPU; needs libtbb-dev)
    common/tools/bench/cpu_peers.py --check                the checked build too

One table: milliseconds of CPU time per run, all threads together, median of --rounds processes that take turns. All
compile the same source: HIP-CPU with CUDA's names replaced by HIP's, OpenCL with the kernels' keywords replaced. PoCL
needs the Debian package pocl-opencl-icd and the Python package pyopencl.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
SOURCE = ROOT / "common/tools/bench/cpu_peers.cu"
BUILD = ROOT / "build/cpu_peers"
# name: grid and block as OpenCL wants them (threads in all, threads of a block), the kernel's arguments
PROGRAMS = {
    "naive_matmul": ((512, 512), (16, 16), "abc", 512),
    "tiled_matmul": ((512, 512), (16, 16), "abc", 512),
    "block_sums": ((65536 * 256,), (256,), "ac", None),
    "transpose": ((4096, 1024), (32, 8), "ac", 4096),
    "softmax": ((4096 * 256,), (256,), "ac", 1024),
}
COUNT = 4096 * 4096


def compile_simt(check):
    program = BUILD / ("checked" if check else "simt")
    subprocess.run([ROOT / "common/simt/simtcc", *(["--check"] if check else []), SOURCE, "-o", program], check=True)
    return [program]


def compile_hip(folder):
    """Returns the same file with HIP's names, as hipify would write it."""
    text = SOURCE.read_text()
    text = re.sub(r"(\w+)<<<(.*)>>>\((.*)\);", r"hipLaunchKernelGGL(\1, \2, 0, nullptr, \3);", text)
    text = text.replace("cuda_runtime.h", "hip/hip_runtime.h").replace("cuda", "hip")
    hip = BUILD / "cpu_peers_hip.cpp"
    hip.write_text(text)
    program = BUILD / "hip_cpu"
    subprocess.run(["g++", "-std=c++17", "-O3", "-w", "-I", folder / "include", hip, "-o", program, "-pthread",
                    "-ltbb"], check=True)
    return [program]


def opencl_kernels():
    """Returns the kernels of SOURCE in OpenCL C."""
    text = "\n".join(re.findall(r"^__global__ .*?^}$", SOURCE.read_text(), re.M | re.S))
    text = re.sub(r"\b(const )?float \*", lambda found: "__global " + found[0], text)
    for cuda, opencl in {"__global__ void": "__kernel void", "__shared__": "__local",
                         "__syncthreads()": "barrier(CLK_LOCAL_MEM_FENCE)", "expf": "exp", "fmaxf": "fmax"}.items():
        text = text.replace(cuda, opencl)
    for cuda, opencl in {"threadIdx": "get_local_id", "blockIdx": "get_group_id"}.items():
        for number, axis in enumerate("xyz"):
            text = text.replace(f"{cuda}.{axis}", f"(int){opencl}({number})")
    return text


def run_opencl(name, runs):
    """Runs in a process of its own, and prints the CPU time of one run."""
    import pyopencl  # not in the standard library: only this needs it
    context = pyopencl.Context([device for platform in pyopencl.get_platforms() for device in platform.get_devices()
                                if "ortable" in platform.name][:1])
    queue = pyopencl.CommandQueue(context)
    flags = pyopencl.mem_flags.READ_WRITE
    buffers = {letter: pyopencl.Buffer(context, flags, 4 * COUNT) for letter in "abc"}
    for buffer in buffers.values():
        pyopencl.enqueue_fill_buffer(queue, buffer, b"\0\0\0\x3f", 0, 4 * COUNT)
    grid, block, letters, size = PROGRAMS[name]
    kernel = getattr(pyopencl.Program(context, opencl_kernels()).build(), name)
    arguments = [buffers[letter] for letter in letters]
    if size is not None:
        import numpy  # comes with pyopencl
        arguments.append(numpy.int32(size))

    def run():
        kernel(queue, grid, block, *arguments)
        queue.finish()

    run()
    begin = time.process_time()
    for _ in range(runs):
        run()
    print(f"{1e3 * (time.process_time() - begin) / runs:.2f}")


def has_pocl():
    asked = "import pyopencl; print([p.name for p in pyopencl.get_platforms()])"
    answer = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    return "Portable" in answer.stdout


def measure(command, name, runs):
    answer = subprocess.run([*command, name, str(runs)], check=True, capture_output=True, text=True)
    return float(answer.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hip-cpu", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--opencl", nargs=2, metavar=("PROGRAM", "RUNS"), help=argparse.SUPPRESS)
    parser.add_argument("program", nargs="*", choices=[*PROGRAMS, []], help="default: all five")
    options = parser.parse_args()
    if options.opencl:
        return run_opencl(options.opencl[0], int(options.opencl[1]))

    BUILD.mkdir(parents=True, exist_ok=True)
    commands = {"simtcc": compile_simt(check=False)}
    if options.hip_cpu:
        commands["HIP-CPU"] = compile_hip(options.hip_cpu)
    if has_pocl():
        commands["PoCL"] = [sys.executable, __file__, "--opencl"]
    if options.check:
        commands["simtcc --check"] = compile_simt(check=True)
    print(f"CPU time of one run in ms; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print(f"| {'program':12} | " + " | ".join(f"{name:>14}" for name in commands) + " |")
    print("| --- |" + " ---: |" * len(commands))
    for program in options.program or PROGRAMS:
        times = {name: [] for name in commands}
        for _ in range(options.rounds):
            for name, command in commands.items():
                times[name].append(measure(command, program, options.runs if "--check" not in name else 1))
        print(f"| {program:12} | " + " | ".join(f"{statistics.median(each):14.1f}" for each in times.values()) + " |",
              flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
