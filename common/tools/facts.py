"""What the rows say of every kernel, for all tools: build/facts.json, which make has within seconds of a clone.

    facts.steps()           [{"step": "02_tiled_matmul", "kernels": [...]}, ...]
    facts.kernels()         {NAME: {"name", "file", "ladder", "idea", "after", "step", "problem", "function", ...}, ...}
    facts.source(NAME)      the path of its file
    facts.successors()      {OLD: NAME}, what kernels were called, in the order of their rows
    facts.called(NAME)      the kernel that it means now
    facts.cases(NAME, LEVEL)  the cases of common/harness/cases.h that judge it, as a step's program names them

What the members mean, struct kernel in common/harness/problem.h says. A string that a row leaves out is ""; shown_sizes are
own_sizes then.
"""
import functools
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


@functools.cache
def steps():
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # the same, whichever make asks
    subprocess.run(["make", "-s", "build/facts.json"], cwd=ROOT, check=True, env=outside)
    return json.loads((ROOT / "build/facts.json").read_text())


@functools.cache
def kernels():
    """Returns the kernels by name, in reading order: names are unique."""
    return {kernel["name"]: kernel | {"step": step["step"]} for step in steps() for kernel in step["kernels"]}


@functools.cache
def cases(name, level):
    steps()  # makes the program, too
    done = subprocess.run([ROOT / "build/facts/facts", name, level], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()


def source(name):
    return ROOT / kernels()[name]["step"] / kernels()[name]["file"]


def successors():
    return {old: name for name, kernel in kernels().items() for old in kernel["was"].split()}


def called(name):
    """NAME itself, or the successor of a kernel that it was; a line on stderr says so, as make and a step's program do."""
    now = successors().get(name, name)
    if now != name:
        print(f"{name} is {now} now", file=sys.stderr)
    return now
