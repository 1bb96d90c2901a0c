#!/usr/bin/env python3
"""Shows that `make new-kernel` begins a kernel that everything takes in.

    tests/tools/add_kernel.py

In a copy of the tree, step 01 gets a kernel, and then another on a ladder that it did not have. What cannot be begun is refused
with nothing written. Nothing is put right by hand: both pass, the rules, the formatter and the pictures have no complaint, and
the tools that read rows, files, faults, points or lessons have the kernel. Then its author forgets an edge of C: a run at
whole tiles passes, and the run's ragged case, the tests, the sanitizer, the row's costs and a grading find the fault. Put right, it passes them all.
nvcc compiles it where there is one. Needs build/simt and, to be quick, build/cpu and build/check.
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
STEP, NAME, AFTER, FURTHER = "01_naive_matmul", "square_tile", "coalesced", "square_tile_limit"
FILE = pathlib.Path(STEP, f"3_{NAME}.cu")
NEW = ("make", "new-kernel", "STEP=01")

REFUSED = (  # the words, and what make is told beside the step
    ("usage: make new-kernel", f"AFTER={AFTER}"), ("usage: make new-kernel", f"NAME={NAME}"),
    ("NAME is '3d'; it must be", "NAME=3d", f"AFTER={AFTER}"), ("NAME is 'a b'; it must be", "NAME=a b", f"AFTER={AFTER}"),
    ("NAME is 'split_kv'; 05_flash_v2 has", "NAME=split_kv", f"AFTER={AFTER}"), ("NAME is 'int';", "NAME=int", f"AFTER={AFTER}"),
    ("LADDER is 'side'; it must be", f"NAME={NAME}", f"AFTER={AFTER}", "LADDER=side"),
    ("AFTER is 'online'; it must be", f"NAME={NAME}", "AFTER=online"),
    ("STEP is '99'", "STEP=99", f"NAME={NAME}", f"AFTER={AFTER}"),
    ("STEP is 'all'; it must be", "STEP=all", f"NAME={NAME}", f"AFTER={AFTER}"))


def copy_tree(target):
    """The sources, and what is built of those that stay as they are; times are kept, so nothing is built again."""
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    built = ("obj/common", f"obj/{STEP}", "flags", "libcommon.a")
    parts = [f"build/{build}/{part}" for build in ("cpu", "check") for part in built]
    for name in (*listed.stdout.decode().split("\0")[:-1], "build/simt", "build/facts", *parts):
        source, copy = ROOT / name, target / name
        if source.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, copy)
    subprocess.run(["git", "init", "-q", str(target)], check=True)  # the rules ask git which files there are


def run(*command, cwd=None, **variables):
    """Status and output; make started by make must not take orders from the first."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
    done = subprocess.run(command, cwd=cwd, env=dict(environment, BACKEND="cpu", **variables), stdin=subprocess.DEVNULL,
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


def sources():
    """All but what is built, with the time of its last change."""
    return {path: path.stat().st_mtime_ns for path in pathlib.Path().rglob("*") if path.parts[0] not in ("build", ".git")
            and "__pycache__" not in path.parts and path.is_file()}


def refusals():
    before = sources()
    for words, *told in REFUSED:
        status, output = run(*NEW, *told)
        require(status == 2 and words in output and sources() == before, f"refused: {' '.join(told)}", output)


def taken_in():
    """Everything that reads rows, files, faults, points or the lesson has the kernel, and none has a complaint."""
    succeeds("the rules hold", "tests/rules.py")
    if shutil.which("clang-format-14"):
        succeeds("the formatter would change nothing", "clang-format-14", "--dry-run", "--Werror", str(FILE),
                 *map(str, pathlib.Path(STEP).glob("*_step.[ch]")), *map(str, pathlib.Path(STEP).glob("limit/*.cu")))
    succeeds("its picture is what its function draws", sys.executable, "docs/make/pictures.py", "check", f"01_{NAME}")
    rows = json.loads(pathlib.Path("build/facts.json").read_text())[0]["kernels"]
    places = [[row[key] for key in ("name", "ladder", "file", "after")] for row in rows[2:]]
    require(places == [[NAME, "core", FILE.name, AFTER], [FURTHER, "limit", f"limit/4_{FURTHER}.cu", NAME]],
            "the facts have both", f"{places}")
    succeeds("the ladder has a line of it", "make", "ladder", "STEP=01", says=rf"^  {NAME} +\d+ +0 +0$")
    succeeds("the diff knows what it follows", "make", "diff", f"KERNEL={NAME}", says=rf"{AFTER} -> .*{NAME}: 0 lines")
    succeeds("it is made a single file", "make", "one", f"KERNEL={NAME}", "OUT=one.cu")
    succeeds("which runs", "common/simt/simtcc", "one.cu", "-o", "build/one")
    succeeds("and passes", "build/one")
    pathlib.Path("one.cu").unlink()
    succeeds("its example of a fault is caught", "make", "test-broken", f"KERNEL={fault()}", says=rf"^caught +{fault()} ")
    succeeds("a handout can be made", "make", "handout", "STEP=01", "OUT=build/lab")
    stub = pathlib.Path("build/lab", FILE).read_text()
    require("Yours to write" in stub and "sum +=" not in stub, "the handout has its stub", stub)
    shutil.copytree(STEP, pathlib.Path("work", STEP), ignore=shutil.ignore_patterns("*.c", "*.h"))
    for rung in ("uncoalesced", AFTER, NAME):
        succeeds(f"make learn says RIGHT to {rung}", "make", "learn", f"KERNEL={rung}", says=rf"of \d: {rung}(?s:.*)^RIGHT")
    shutil.rmtree("work")


def fault():
    name = re.search(r"^=== ([\w-]+),", pathlib.Path(f"tests/faults/{NAME}.faults").read_text(), re.M)[1]
    return f"{NAME}-{name}"


def build():
    status, output = run("make", f"build/check/{STEP}", "build/cpu/tests/test_01", "build/check/tests/test_01")
    if status:
        sys.exit(f"add_kernel: does not build:\n{output[-3000:]}")


def tests():
    """(title, command) of what must find a fault and pass without one: small parts of make test and make sanitize."""
    yield "the tests' sizes", ("build/cpu/tests/test_01", "--filter", "cases/part_1")
    yield "the sanitizer", ("build/check/tests/test_01", "--filter", "cases/part_2")
    yield "the row's costs", ("build/check/tests/test_01", "--filter", "counters/costs")


def grading():
    """(exit status, output) of grading the step's folder."""
    os.makedirs("build/tmp", exist_ok=True)  # a grading keeps what it has compiled
    grade = (sys.executable, "common/tools/labs/grade.py", STEP[:2], STEP, "-", "exit", NAME)
    return run(*grade, TMPDIR=os.path.abspath("build/tmp"))


def found_and_repaired():
    """A fault of the kernel that whole tiles do not show, by all that must find it; and without it."""
    sound = FILE.read_text()
    FILE.write_text(sound.replace("row < M", "row <= M"))
    build()
    program = f"build/check/{STEP}"
    succeeds("a run at whole tiles passes a kernel that forgets an edge", program, "--m", "256", "--n", "256", says=rf"^{NAME} +pass")
    fails("without sizes the run has a ragged case", program, says=f"{NAME}        FAIL")
    fails("after which the next kernel is judged all the same", program, says=f"{FURTHER}  pass")
    for title, command in tests():
        fails(f"its fault is found by {title}", *command, says=NAME)
    status, output = grading()
    require(status == 1 and "ungraded" not in output, "its fault is found by the grading", output)
    FILE.write_text(sound)
    build()
    for title, command in tests():
        succeeds(f"without the fault it passes {title}", *command)
    status, output = grading()
    require(status == 0 and NAME in output, "without the fault it has full marks", output)


def main():
    with tempfile.TemporaryDirectory(prefix="add_kernel-") as name:
        os.chmod(name, 0o755)  # a grading compiles as another user
        copy_tree(pathlib.Path(name))
        os.chdir(name)
        refusals()
        succeeds("a kernel is begun, built and passes", *NEW, f"NAME={NAME}", f"AFTER={AFTER}", says=rf"^{NAME} +pass")
        succeeds("and one on a new ladder", *NEW, f"NAME={FURTHER}", f"AFTER={NAME}", "LADDER=limit", says=rf"^{FURTHER} +pass")
        taken_in()
        found_and_repaired()
        fails("the lesson's tables want it", "docs/make/lessons.py", "--check", STEP)
        run("docs/make/lessons.py", "--write", STEP)
        lesson = pathlib.Path(STEP, "README.md").read_text()
        require(lesson.count(f"\n| `{NAME}` |") == 2 and f"From [2_{AFTER}.cu]" in lesson,
                "the lesson has its tables and its diff", lesson)
        if shutil.which("nvcc") or pathlib.Path("/usr/local/cuda/bin/nvcc").exists():
            succeeds("nvcc compiles it", "make", "BACKEND=gpu", "ARCH=sm_80", f"build/gpu/obj/{FILE}.o", says=rf"3_{NAME}\.cu")
        else:
            print("add_kernel: skipped: there is no nvcc to compile it")


if __name__ == "__main__":
    main()
