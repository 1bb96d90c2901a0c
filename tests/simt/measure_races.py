#!/usr/bin/env python3
"""Tries the race checker on a folder of labelled CUDA programs, one a .cu file, and counts what it finds.

    measure_races.py FOLDER [--racy REGEX] [--arguments "..."] [--seconds 60] [--flags "-I ..."] [--list]

A program is racy when its path below FOLDER matches --racy. Each is built by simtcc --check and run in four orders; it is
found when any run reports a race; reads of new memory are let pass. Prints found and missed of the racy ones, false and silent of the others, and how many
did not build, or did not end. Exit status 1 if any was missed or false.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

SIMTCC = pathlib.Path(__file__).resolve().parents[2] / "common/simt/simtcc"
ORDERS = ["inorder", "reversed", "random:1", "random:2"]


def outcome(source, options, folder):
    """What became of one program: "race", "silent", "no build" or "no end"; and a line about it."""
    program = pathlib.Path(folder) / re.sub(r"\W", "_", str(source))
    command = [SIMTCC, "--check", "-w", *shlex.split(options.flags), source, "-o", program]
    built = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if built.returncode != 0:
        errors = [line for line in built.stderr.splitlines() if "error" in line]
        return "no build", errors[0] if errors else ""
    ended = False
    for order in ORDERS:
        try:
            run = subprocess.run([program, *shlex.split(options.arguments)], capture_output=True, text=True,
                                 errors="replace", timeout=options.seconds, cwd=source.parent,
                                 stdin=subprocess.DEVNULL, env={**os.environ, "SIMT_ORDER": order, "SIMT_IGNORE": "uninitialised"})
        except subprocess.TimeoutExpired:
            continue
        ended = True
        race = re.search(r"^simt: report: (race on .*)", run.stderr, re.MULTILINE)
        if race:
            return "race", f"{order}: {race[1]}"
    program.unlink()
    return ("silent" if ended else "no end"), ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--racy", default=r"(^|/)rac[ey](_|/)|Race|Bug", help="what the path of a racy program matches")
    parser.add_argument("--arguments", default="", help="for each program")
    parser.add_argument("--flags", default="", help="for simtcc")
    parser.add_argument("--seconds", type=float, default=60, help="for each run")
    parser.add_argument("--list", action="store_true", help="say of each program what became of it")
    options = parser.parse_args()
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is no folder")
    sources = sorted(path.resolve() for path in options.folder.rglob("*.cu"))
    if not sources:
        parser.error(f"there are no .cu files in {options.folder}")
    count = {}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        subprocess.run([SIMTCC, "--runtime"], check=True)
        for source, (what, line) in zip(sources, pool.map(lambda each: outcome(each, options, folder), sources)):
            name = str(source.relative_to(options.folder.resolve()))
            racy = bool(re.search(options.racy, name))
            what = {("race", True): "found", ("race", False): "false", ("silent", True): "missed"}.get((what, racy), what)
            count[what] = count.get(what, 0) + 1
            if options.list or what in ("missed", "false", "no build", "no end"):
                print(f"{what:9} {name}  {line[:200]}")
    print(", ".join(f"{count.get(what, 0)} {what}" for what in ("found", "missed", "false", "silent", "no build", "no end")))
    return 1 if count.get("missed") or count.get("false") else 0


if __name__ == "__main__":
    sys.exit(main())
