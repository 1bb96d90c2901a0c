#!/usr/bin/env python3
"""Keeps the counted tables of the lessons in step with the kernels.

    tests/lessons.py --write STEP ...    writes them
    tests/lessons.py --check STEP ...    fails when one is not what the kernels do

Between its markers, STEP/README.md holds what build/check/STEP counts at its default sizes. The counts are the
same on every machine.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import lesson_table

ROOT = pathlib.Path(__file__).resolve().parent.parent


def ratio(amount, whole, digits=2):
    return f"{amount / whole:.{digits}f}" if whole else "–"


def table_row(kernel, flops):
    moved = kernel["global_load_bytes"] + kernel["global_store_bytes"]
    return [
        f"`{kernel['name']}`",
        f"{kernel['global_loads']:,}",
        f"{kernel['global_stores']:,}",
        f"{moved:,}",
        ratio(kernel["global_load_sectors"], kernel["global_load_requests"]),
        f"{kernel['shared_wavefronts']:,}",
        ratio(kernel["shared_wavefronts"], kernel["shared_wavefronts_ideal"]),
        f"{kernel['barriers']:,}",
        ratio(flops, moved),
    ]


def counted_table(step):
    program = ROOT / "build" / "check" / step
    report = json.loads(subprocess.run([program, "--json"], check=True, capture_output=True, text=True).stdout)
    sizes = ", ".join(f"{name} = {value}" for name, value in report["sizes"].items())
    header = ["kernel", "global loads", "global stores", "bytes", "sectors per load request", "shared wavefronts",
              "× ideal", "barriers", "FLOP per byte"]
    rows = [table_row(kernel, report["flops"]) for kernel in report["kernels"]]
    lines = [
        f"Counted by `make run-{step[:2]}` on a CPU at {sizes}"
        f" ({report['flops']:,.0f} FLOP, {report['compulsory_bytes']:,.0f} compulsory bytes):",
        "",
        "| " + " | ".join(header) + " |",
        "| --- |" + " ---: |" * (len(header) - 1),
    ]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true")
    mode.add_argument("--check", action="store_true")
    parser.add_argument("step", nargs="+")
    arguments = parser.parse_args()
    results = [lesson_table.update(step, "counts", lambda: counted_table(step), arguments.write,
                                   "the counted table is not what the kernels do; `make lessons` writes it")
               for step in arguments.step]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
