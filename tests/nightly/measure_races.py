#!/usr/bin/env python3
"""Measures a race checker on a folder of labelled programs.

    tests/nightly/measure_races.py FOLDER --racy REGEX [--input ARGUMENTS]... [--tool racecheck]
    tests/nightly/measure_races.py FOLDER --units --macro NAME [--flag=-DX=1]... [--stdin FOLDER]
    tests/nightly/measure_races.py --own FOLDER [--only 06_] [--detector asynchronous]
                                                                   our own faults, written into FOLDER
    tests/nightly/measure_races.py --scor-inputs FOLDER            what ScoR's applications read, for --stdin

A program is a .cu file, or with --units a folder whose .cu files make one program. It is racy when its path below FOLDER has a
match of REGEX, and free of races otherwise; with --macro each is built twice, and racy where the macro is defined. It runs once
for each --input (arguments of its command line; none once when there are no inputs), under `simtcc --check` in four thread orders
or under compute-sanitizer's racecheck. A racy one counts as found when some input shows a race. Prints the missed and the false
ones, then a line for each input and one for all. A program that does not build, or runs longer than --seconds, is named and
counts as one that showed no race.

--own makes a program of each fault of tests/faults that is a race or a wrong use of asynchronous copies and products, as `make
one` does of a kernel, and of each kernel that has one.
"""
import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "common/tools"), str(ROOT / "common/tools/one"), str(ROOT / "common/tools/broken")]
import broken  # noqa: E402
import facts  # noqa: E402
import one  # noqa: E402

OWN = re.compile(r"racy/")  # where a faulty program of ours is
DETECTORS = ("race", "asynchronous")  # of our faults
ORDERS = ("inorder", "reversed", "random:1", "random:2")
# What a report of a race begins with, and any report.
RACE = {"simtcc": re.compile(r"^simt: report: race", re.MULTILINE),
        "racecheck": re.compile(r"^========= .*?(?:[Rr]ace reported|hazard detected)", re.MULTILINE)}
REPORT = {"simtcc": re.compile(r"^simt: report: ", re.MULTILINE),
          "racecheck": re.compile(r"^========= .*?(?:[Rr]ace reported|hazard detected|[Ii]nvalid|[Mm]isaligned)", re.MULTILINE)}


def plant_own(folder, only, detectors):
    """Writes our faulty kernels and the sound ones, each as one file that runs the sizes of its fault."""
    texts, kernels = {}, facts.kernels()
    for fault in broken.read_faults():
        kernel = kernels.get(fault.kernel)
        if fault.detector not in detectors or not kernel or not only.search(kernel["step"]):
            continue
        quick, kernel["quick"] = kernel["quick"], [f"{kernel['quick'][0]} {run}" for run in fault.runs]
        text = one.make(fault.kernel)
        kernel["quick"] = quick
        try:
            for file, old, new in fault.edits:
                begin, end = broken.search(fault, file, old, text)
                text = text[:begin] + new + text[end:]
        except broken.Broken:
            continue  # a single file has what the fault changes more than once
        texts[f"racy/{fault.name}.cu"] = text
        texts.setdefault(f"sound/{fault.kernel}.cu", one.make(fault.kernel))
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def write_scor_inputs(folder):
    """Writes an input for each of ScoR's applications that reads one. They come without."""
    draw = random.Random(3)
    def numbers(count, most):
        return [draw.randint(0, most) for _ in range(count)]
    edges = [vertex for _ in range(1200) for vertex in draw.sample(range(400), 2)]
    inputs = {"1dconv": [5, 2000, *numbers(2005, 9)], "graph-coloring": [400, 1200, *edges], "graph-connectivity": [400, 1200, *edges],
              "matrix-multiplication": [40, 40, 40, *numbers(3200, 9)], "reduction": [40000, *numbers(40000, 9)],
              "rule-110": [20000, 4, *numbers(20000, 1)]}
    folder.mkdir(parents=True, exist_ok=True)
    for name, words in inputs.items():
        (folder / name).write_text(" ".join(map(str, words)) + "\n")


def apart(sources):
    """Leaves out files that another one includes."""
    included = {name for source in sources for name in re.findall(r'#include "(\w+\.cu)"', source.read_text(errors="replace"))}
    return [source for source in sources if source.name not in included]


def built(options, name, sources, folder):
    """Returns the program's path; None where it does not build."""
    program = pathlib.Path(folder, re.sub(r"\W", "_", name))
    flags = [*options.flag, *([f"-D{options.macro}"] if options.macro and options.racy.search(name) else [])]
    include = [f"-I{path}" for path in (*options.include, *{source.parent for source in sources})]
    compiler = [str(ROOT / "common/simt/simtcc"), "--check"] if options.tool == "simtcc" else \
        ["nvcc", "-lineinfo", "-gencode", f"arch={options.arch.replace('sm', 'compute')},code={options.arch}"]
    done = subprocess.run([*compiler, *flags, *include, *map(str, apart(sources)), "-o", str(program)], capture_output=True, text=True, check=False)
    return program if done.returncode == 0 else None


def races(options, name, program, arguments):
    """Says whether a run shows a race; None where it takes too long."""
    command = [str(program), *shlex.split(arguments)]
    runs = [(command, {"SIMT_ORDER": order, "SIMT_IGNORE": "uninitialised"}) for order in ORDERS]
    if options.tool == "racecheck":
        runs = [(["compute-sanitizer", "--tool", "racecheck", *command], {})]
    read = options.stdin / pathlib.Path(name).name if options.stdin else None
    late = False
    for command, more in runs:
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=options.seconds,
                                  env=os.environ | more, cwd=program.parent if read else None,  # some write a file beside them
                                  input=read.read_text() if read and read.exists() else "")
        except subprocess.TimeoutExpired as stopped:
            late, said = True, (stopped.stderr or b"").decode(errors="replace") + (stopped.stdout or b"").decode(errors="replace")
        else:
            said = done.stderr + done.stdout
        if (REPORT if options.own else RACE)[options.tool].search(said):
            return True
    return None if late else False


def judged(options, name, sources):
    """Returns what each input showed; a string where nothing ran."""
    with tempfile.TemporaryDirectory() as folder:
        program = built(options, name, sources, folder)
        if program is None:
            return "does not build"
        return [races(options, name, program, arguments) for arguments in options.input]


def row(label, racy, found, clean, false):
    return f"{label:<44} {found:5} of {racy:<5} {racy - found:6} {false:5} of {clean}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--scor-inputs", action="store_true", help="write them into the folder")
    parser.add_argument("--macro", help="a program is racy when this is defined, and otherwise not")
    parser.add_argument("--flag", action="append", default=[], help="for the compiler (--flag=-DX=1)")
    parser.add_argument("--stdin", type=pathlib.Path, help="a folder of files that programs of these names read")
    parser.add_argument("--racy", type=re.compile, default=OWN)
    parser.add_argument("--own", action="store_true", help="write our own faults into the folder first")
    parser.add_argument("--detector", choices=DETECTORS, action="append", help="only those of our faults that it finds")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), help="programs whose path has a match")
    parser.add_argument("--input", action="append", help="a command line's arguments")
    parser.add_argument("--include", action="append", default=[], help="a folder of headers")
    parser.add_argument("--units", action="store_true", help="a folder is a program")
    parser.add_argument("--tool", choices=sorted(RACE), default="simtcc")
    parser.add_argument("--arch", default="sm_90a", help="for nvcc [%(default)s]")
    parser.add_argument("--seconds", type=float, default=60.0, help="that a run may take [%(default)s]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    options.input = options.input or [""]
    if options.scor_inputs:
        return write_scor_inputs(options.folder)
    if options.own:
        plant_own(options.folder, options.only, options.detector or DETECTORS)
        options.only = re.compile("")
    programs = {}
    for source in sorted(options.folder.rglob("*.cu")):
        name = str((source.parent if options.units else source).relative_to(options.folder))
        if options.only.search(name):
            programs.setdefault(name, []).append(source)
    if options.macro:
        options.racy = OWN
        programs = {f"{label}/{name}": sources for name, sources in programs.items() for label in ("sound", "racy")}
    if not programs:
        parser.error(f"{options.folder} has no such program")
    if options.tool == "simtcc":
        subprocess.run([ROOT / "common/simt/simtcc", "--runtime"], check=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        shown = dict(zip(programs, pool.map(lambda item: judged(options, *item), programs.items())))
    for name, results in shown.items():
        racy = bool(options.racy.search(name))
        trouble = results if isinstance(results, str) else "takes too long" if None in results else ""
        verdict = "" if any(results is not trouble and result for result in results) == racy else "missed" if racy else "false"
        if verdict or trouble:
            print(f"  {verdict or 'as labelled':<12} {name}{trouble and ': ' + trouble}")
    ran = {name: results for name, results in shown.items() if not isinstance(results, str)}
    print(f"\n{'input':<44} {'found':>14} {'missed':>6} false")
    labels = [*options.input, *(["all of them"] if len(options.input) > 1 else [])]
    for i, label in enumerate(labels):
        hit = {name for name, results in ran.items() if (any(results) if i == len(options.input) else results[i])}
        racy = {name for name in shown if options.racy.search(name)}
        print(row(pathlib.Path(label.split(" ")[0]).name + label[len(label.split(" ")[0]):] if label else "", len(racy), len(hit & racy),
                  len(shown) - len(racy), len(hit - racy)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
