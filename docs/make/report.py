#!/usr/bin/env python3
"""Turns what the benchmarks measured into the lessons' tables. Python's standard library only.

    docs/make/report.py STEP ...           e.g. 02_tiled_matmul: the tables in its lesson; plots.py draws the plots
    docs/make/report.py --check STEP ...   writes nothing; fails when a lesson's table is not what the CSV says

Reads docs/results/STEP.csv and STEP_torch.csv, whichever is there. A ratio is always taken within one file, which is
one run.
"""
import argparse
import os
import pathlib
import re
import sys

import lessons
import facts  # lessons has set its path
from source import ROOT, of_steps

# What a shape's size is, along a plot's x axis, of each step.
MATMUL, SOFTMAX, ATTENTION = "M = N = K", "columns", "N, queries and keys"
AXES = {"01": MATMUL, "02": MATMUL, "03": SOFTMAX, "04": ATTENTION, "05": ATTENTION, "06": ATTENTION}

CUBE = r"(\d+)x\1x\1$"
SIZE = re.compile(rf"{CUBE}|.*?\bN(\d+)|\d+x(\d+)$")
FP32_PEAK = ("132 SMs x 128 lanes x 2 x 1.98 GHz", 66.9)
# For each step: (title, which shapes, unit), the roofline's shape and its ceiling in TFLOP/s; draw_NN.py has the RATIOS.
STEPS = {
    "01_naive_matmul": ([("M = N = K", CUBE, "TFLOP/s")], "4096x4096x4096", FP32_PEAK),
    "02_tiled_matmul": ([("M = N = K", CUBE, "TFLOP/s"), ("M x N x K", rf"(?!{CUBE})", "TFLOP/s")], "4096x4096x4096", FP32_PEAK),
    "03_online_softmax": ([("rows x cols", "", "GB/s")], "16384x4096", FP32_PEAK),
    "04_flash_v1": ([("head_dim 64, full", "", "TFLOP/s")], "B16 H32 N1024 d64", FP32_PEAK),
    "05_flash_v2": ([("head_dim 64, full", r".* N\d+ d\d+$", "TFLOP/s"), ("one query, 131072 keys", r".* 1x", "GB/s"),
                     ("gradients, head_dim 64, full", r".* backward$", "TFLOP/s")],
                    "B4 H32 N4096 d64", FP32_PEAK),
    "06_causal_half": ([(f"{of}head_dim {dim}, {mask}{name}", rf"N\d+ d{dim} {mask}{passed}{suffix}$", "TFLOP/s")
                        for of, passed in (("", ""), ("gradients, ", " backward"))
                        for name, suffix in (("", ""), (", bfloat16", " bf16")) for dim in (64, 128)
                        for mask in ("causal", "full")]
                       + [(f"64 heads, 8 of keys, head_dim 128, {mask}, bfloat16", f"B2 H64/8 N.* {mask} bf16$", "TFLOP/s")
                          for mask in ("causal", "full")]
                       + [("few queries, head_dim 128, bfloat16", r".* decode bf16$", "GB/s")],
                       "N16384 d128 full", ("datasheet, dense fp16", 989.0)),
}


class Run:
    """One CSV file: its comments and its rows by (shape, protocol, kernel), both in the order of the file."""

    def __init__(self, name):
        self.name = name
        self.comments, rows = lessons.results(name)
        self.rows = {(row["shape"], row["protocol"], row["kernel"]): row for row in rows}

    def value(self, shape, protocol, kernel, column):
        row = self.rows.get((shape, protocol, kernel))
        return float(row[column]) if row else None

    def ratio(self, shape, protocol, kernel, other):
        """How much faster kernel is than other; None where one was not timed."""
        mine, theirs = (self.value(shape, protocol, name, "ms") for name in (kernel, other))
        return theirs / mine if mine and theirs else None


def runs_of(step):
    """What there is, of one device: a file from another machine is left out, and a line says so."""
    runs = [Run(name) for name in (f"{step}.csv", f"{step}_torch.csv") if (lessons.RESULTS / name).exists()]
    for run in runs[1:]:
        if run.comments["device"] != runs[0].comments["device"]:
            print(f"{step}: {run.name} is left out: it is of another device, {run.comments['device']}")
    return [run for run in runs if run.comments["device"] == runs[0].comments["device"]]


def peers(step, shape, than):
    """{peer: how many times as fast as the rung `than`} at a shape, with a cold L2 cache; a ratio is within one file."""
    found = {}
    for name in ("ladder.csv", f"{step}.csv", f"{step}_torch.csv"):
        rows = [row for row in lessons.results(name)[1] if (row["step"], row["shape"], row["protocol"]) == (step, shape, "cold")]
        own = next((float(row["ms"]) for row in rows if row["kernel"] == than), None)
        for row in rows:
            if own and row["role"] == "peer":
                found.setdefault(row["kernel"], own / float(row["ms"]))
    return found


def unique(items):
    return list(dict.fromkeys(items))


def first(values):
    return next((value for value in values if value is not None), None)


def short(label, labels):
    """The part of a shape's label that tells it from the table's others."""
    words = label.split()
    common = [all(position < len(other.split()) and other.split()[position] == word for other in labels)
              for position, word in enumerate(words)]
    kept = [word for word, same in zip(words, common) if not same] or words
    text = " ".join(kept)
    cube = re.match(CUBE, text)
    return cube.group(1) if cube else text


def group_table(runs, shown, own, title, pattern, unit, ratios):
    """The table of some shapes; `shown` says whether a page has a rung. Nothing where none of its `own` was timed."""
    labels = unique(shape for run in runs for shape, _, _ in run.rows if re.match(pattern, shape))
    if all(re.match(CUBE, label) or re.search(r"\bN\d", label) for label in labels):
        labels.sort(key=size_of)
    kernels = {}
    for run in runs:
        for (shape, _, name), row in run.rows.items():
            if shape in labels and (row["role"] != "rung" or shown(name)):
                kernels.setdefault(name, row["role"])
    if not own & kernels.keys():
        return None
    column = "gbps" if unit == "GB/s" else "tflops"
    lines = []
    for role in ("rung", "peer", "ceiling"):
        for name in (name for name, own in kernels.items() if own == role):
            if role == "ceiling" and unit != "GB/s":
                continue
            values = [first(run.value(label, "cold", name, column) for run in reversed(runs)) for label in labels]
            digits = 0 if unit == "GB/s" or max((v for v in values if v), default=0) >= 100 else 1
            lines.append([f"`{name}`" if role == "rung" else name,
                          *(f"{value:.{digits}f}" if value is not None else "–" for value in values)])
    for kernel, other in ratios:
        if kernel not in kernels or kernels.get(other) == "ceiling" and unit != "GB/s":
            continue
        for protocol in ("cold", "sustained"):
            values = [first(run.ratio(label, protocol, kernel, other) for run in reversed(runs)) for label in labels]
            if any(value is not None for value in values):
                name = f"`{kernel}` / {other}" + (", sustained" if protocol == "sustained" else "")
                lines.append([name, *(f"**{value:.2f}**" if value is not None else "–" for value in values)])
    return lessons.table([f"{title}: {unit}", *(short(label, labels) for label in labels)], lines)


def table(page, step, runs):
    """What a page shows: the table with the shape at which most of its rungs are timed; the others are folded."""
    groups, _, _ = STEPS[step]
    names, own = lessons.shown_on(page), [rung.name for rung in lessons.rungs_of(page)]
    core = page == ROOT / step / "README.md"

    def shown(name):
        """Of a rung that is no more, what it is now counts."""
        now = facts.successors().get(name, name)
        return now in names or core and now not in facts.kernels()

    results = os.path.relpath(lessons.RESULTS, page.parent)
    ratios = [pair for pair in __import__(f"draw_{step[:2]}").RATIOS if pair[0] in own]
    details = "; ".join(unique(part for run in runs for part in run.comments["versions"].split("; ")))
    files = " and ".join(f"[{run.name}]({results}/{run.name})" for run in runs)
    plots = (f"[share of the best peer]({results}/{step}_share.svg), [speed against FLOP per byte]({results}/{step}_roofline.svg), "
             f"a [roofline]({os.path.relpath(ROOT / 'docs/glossary.md', page.parent)}#roofline)")
    sustained = any(protocol == "sustained" for run in runs for _, protocol, _ in run.rows)
    rungs = {path.stem.partition("_")[2] for path in of_steps("[0-9]*_*.cu", step)}
    gone = unique(name for run in runs for (_, _, name), row in run.rows.items()
                  if row["role"] == "rung" and name not in rungs and shown(name))
    text = lessons.paragraph(
        f"Measured by `make bench-{step[:2]}` on one {runs[0].comments['device']} ({details}): medians after a rest and with "
        f"a cold L2 cache{'; *sustained*: back to back' if sustained else ''}. A ratio is of speeds in the same run, above "
        f"1 where ours is faster. Spread, clocks and power: {files}. Plots: {plots}." +
        (f" Measured on an earlier ladder, whose rungs {' and '.join(f'`{name}`' for name in gone)} are cut in several now."
         if gone else ""))
    tables = {title: group_table(runs, shown, {*own, *gone}, title, pattern, unit, ratios) for title, pattern, unit in groups}
    tables = {title: lines for title, lines in tables.items() if lines}
    shapes = [shape for shape, name in lessons.measurements(step) if name in own]
    lesson = lessons.common_to(lessons.rungs_of(page), "timed_at") or max(shapes, key=shapes.count, default="")
    chief = next((title for title, pattern, _ in groups if title in tables and re.match(pattern, lesson)), next(iter(tables), None))
    others = [title for title in tables if title != chief]
    fold = [f"<details><summary>The same for {'; '.join(others)}</summary>", *(tables[title] for title in others), "</details>"]
    return "\n\n".join([text, *([tables[chief]] if chief else []), *(fold if others else [])])


def size_of(label):
    """The number along a plot's x axis: n, the columns, or the sequence."""
    found = SIZE.match(label)
    return int(found[found.lastindex]) if found else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("step", nargs="+", choices=sorted(STEPS))
    arguments = parser.parse_args()
    complete = True
    for step in arguments.step:
        runs = runs_of(step)
        if not runs:
            print(f"{step}: nothing was measured yet; make bench-{step[:2]} does, on a GPU", file=sys.stderr)
            complete = False
            continue
        tables = {"bench": lambda page, step=step, runs=runs: table(page, step, runs)}
        for page in of_steps("README.md", step):
            complete = lessons.fill(page, tables, not arguments.check,
                                    f"docs/make/report.py {step} writes what docs/results says") and complete
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
