"""What the rows say of every kernel, for all tools: build/facts.json, which make has within seconds of a clone.

    facts.steps()           [{"step": "02_tiled_matmul", "problem": "matmul", "kernels": [...]}, ...]
    facts.kernels()         {"shared_tile": {"name", "file", "ladder", "idea", "after", "step", "problem", ...}, ...}
    facts.source("sgemm")   the path of its file
"""
import functools
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


@functools.cache
def steps():
    subprocess.run(["make", "-s", "--no-print-directory", "build/facts.json"], cwd=ROOT, check=True)
    return json.loads((ROOT / "build/facts.json").read_text())


@functools.cache
def kernels():
    """By name, in reading order: names are unique."""
    return {kernel["name"]: kernel | {"step": step["step"], "problem": step["problem"]} for step in steps() for kernel in step["kernels"]}


def source(name):
    return ROOT / kernels()[name]["step"] / kernels()[name]["file"]
