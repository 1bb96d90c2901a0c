#!/usr/bin/env python3
"""Turns what the benchmarks measured into the lessons' tables and into plots. Python's standard library only.

    tests/bench/report.py STEP ...           e.g. 02_tiled_matmul: the table in its lesson, plots in docs/results
    tests/bench/report.py --check STEP ...   writes nothing; fails when a lesson's table is not what the CSV says

Reads docs/results/STEP.csv and STEP_torch.csv, whichever is there. A ratio is always taken within one file, which is
one run. Plots need gnuplot; without it a line says that there are none.
"""
import argparse
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import lessons  # noqa: E402

# Colours that can be told apart, for as many kernels as a plot may show.
COLOURS = ["#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#000075", "#008080", "#9a6324", "#808000", "#800000",
           "#f032e6", "#808080", "#000000"]

# Of each problem: what a shape's size is, along a plot's x axis; the program's options for a shape's numbers.
MATMUL, SOFTMAX = ("M = N = K", "m n k"), ("columns", "rows cols")
ATTENTION = ("N, queries and keys", "batch heads seq head-dim")
PROBLEMS = {"01": MATMUL, "02": MATMUL, "03": SOFTMAX, "04": ATTENTION, "05": ATTENTION, "06": ATTENTION}

CUBE = r"(\d+)x\1x\1$"
SIZE = re.compile(rf"{CUBE}|.*?\bN(\d+)|\d+x(\d+)$")
FP32_PEAK = ("132 SMs x 128 lanes x 2 x 1.98 GHz", 66.9)
# For each step: (title, which shapes, unit), the ratios worth a row, the roofline's shape and its ceiling in TFLOP/s.
STEPS = {
    "01_naive_matmul": ([("M = N = K", CUBE, "TFLOP/s")], [("coalesced", "uncoalesced"), ("coalesced", "cublas")],
                        "4096x4096x4096", FP32_PEAK),
    "02_tiled_matmul": ([("M = N = K", CUBE, "TFLOP/s"), ("M x N x K", rf"(?!{CUBE})", "TFLOP/s")],
                        [("sgemm_cluster", "cublas")], "4096x4096x4096", FP32_PEAK),
    "03_online_softmax": ([("rows x cols", "", "GB/s")],
                          [("online_cluster", "copy"), ("online_cluster", "cudnn"),
                           ("online_cluster", "torch_softmax")],
                          "16384x4096", FP32_PEAK),
    "04_flash_v1": ([("head_dim 64, full", "", "TFLOP/s")],
                    [("flash_v1_async", "torch_efficient"), ("flash_v1_async", "flash_v1")],
                    "B16 H32 N1024 d64", FP32_PEAK),
    "05_flash_v2": ([("head_dim 64, full", r".* N\d+", "TFLOP/s"), ("one query, 131072 keys", r".* 1x", "GB/s")],
                    [("flash_v2_registers", "torch_efficient"), ("split_kv", "flash_v2_registers"),
                     ("split_kv", "copy")], "B4 H32 N4096 d64", FP32_PEAK),
    "06_causal_half": ([(f"head_dim {dim}, {mask}{name}", f".* d{dim} {mask}{suffix}$", "TFLOP/s")
                        for name, suffix in (("", ""), (", bfloat16", " bf16")) for dim in (64, 128)
                        for mask in ("causal", "full")],
                       [("mma_ordered", "torch_flash2")] +
                       [(ours, peer) for ours in ("folded", "skipping") for peer in ("cudnn", "flash3", "flash4")],
                       "N16384 d128 full",
                       ("datasheet, dense fp16", 989.0)),
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


def group_table(runs, title, pattern, unit, ratios):
    labels = unique(shape for run in runs for shape, _, _ in run.rows if re.match(pattern, shape))
    if all(re.match(CUBE, label) or re.search(r"\bN\d", label) for label in labels):
        labels.sort(key=size_of)
    kernels = {}
    for run in runs:
        for (shape, _, name), row in run.rows.items():
            if shape in labels:
                kernels.setdefault(name, row["role"])
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
        if kernels.get(other) == "ceiling" and unit != "GB/s":
            continue
        for protocol in ("cold", "sustained"):
            values = [first(run.ratio(label, protocol, kernel, other) for run in reversed(runs)) for label in labels]
            if any(value is not None for value in values):
                name = f"`{kernel}` / {other}" + (", sustained" if protocol == "sustained" else "")
                lines.append([name, *(f"**{value:.2f}**" if value is not None else "–" for value in values)])
    return lessons.table([f"{title}: {unit}", *(short(label, labels) for label in labels)], lines)


def table(step, runs):
    groups, ratios, _, _ = STEPS[step]
    details = "; ".join(unique(part for run in runs for part in run.comments["versions"].split("; ")))
    files = " and ".join(f"[{run.name}](../docs/results/{run.name})" for run in runs)
    plots = [f"[{what}](../docs/results/{step}_{suffix}.svg)" for what, suffix in
             (("time", "time"), ("share of the best peer", "share"), ("roofline", "roofline"))]
    sustained = any(protocol == "sustained" for run in runs for _, protocol, _ in run.rows)
    rungs = {path.stem.partition("_")[2] for path in (ROOT / step).glob("[0-9]*_*.cu")}
    gone = unique(name for run in runs for (_, _, name), row in run.rows.items() if row["role"] == "rung" and name not in rungs)
    text = lessons.paragraph(
        f"Measured by `make bench-{step[:2]}` on one {runs[0].comments['device']} ({details}): medians after a rest and with "
        f"a cold L2 cache{'; *sustained*: back to back' if sustained else ''}. A ratio is of speeds in the same run, above "
        f"1 where ours is faster. Spread, clocks and power: {files}. Plots: {', '.join(plots)}." +
        (f" Measured on an earlier ladder, whose rungs {' and '.join(f'`{name}`' for name in gone)} are cut in several now."
         if gone else ""))
    return "\n\n".join([text, *(group_table(runs, *group, ratios) for group in groups)])


def size_of(label):
    """The number along a plot's x axis: n, the columns, or the sequence."""
    found = SIZE.match(label)
    return int(found[found.lastindex]) if found else None


def quoted(text):
    return '"' + text.replace("_", r"\\_") + '"'


def gnuplot(path, commands):
    size = "1300,960" if "multiplot" in commands else "900,560"
    script = f"set terminal svg size {size} background rgb 'white' font 'sans-serif,12'\nset output '{path}'\n{commands}\n"
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def look(number):
    return f"pt {number % 15 + 1} lc rgb '{COLOURS[number % len(COLOURS)]}'"


def series(drawn, prefix, style):
    """Data blocks of gnuplot for {name: points} and what draws them, in this style."""
    data = "\n".join(f"${prefix}{number} << EOD\n" + "\n".join(f"{x} {y}" for x, y in points) + "\nEOD"
                     for number, points in enumerate(drawn.values()))
    return data, ", ".join(f"${prefix}{number} using 1:2 with {style} lw 2 {look(number)} title {quoted(name)}"
                           for number, name in enumerate(drawn))


def curves(runs, pattern, value):
    """For each kernel the points (size, value(run, shape, kernel)) over the shapes that have a size."""
    found = {}
    for run in runs:
        for shape, protocol, kernel in run.rows:
            size = size_of(shape)
            if protocol == "cold" and size and size % 32 == 0 and re.match(pattern, shape):
                y = value(run, shape, kernel)
                if y is not None:
                    points = found.setdefault(kernel, {})
                    points[size] = min(y, points.get(size, y))
    return {kernel: sorted(points.items()) for kernel, points in found.items()}


def share_of_best_peer(run, shape, kernel):
    rows = {name: row["role"] for (label, protocol, name), row in run.rows.items()
            if (label, protocol) == (shape, "cold")}
    peers = [run.value(shape, "cold", name, "ms") for name, role in rows.items() if role == "peer"]
    if rows[kernel] != "rung" or not peers:
        return None
    return 100.0 * min(peers) / run.value(shape, "cold", kernel, "ms")


def plot_over_size(step, runs, suffix, ylabel, value, extra):
    groups = [(title, pattern) for title, pattern, _ in STEPS[step][0] if "bfloat16" not in title]
    groups = [(title, curves(runs, pattern, value)) for title, pattern in groups]
    groups = [(title, drawn) for title, drawn in groups if any(len(points) > 1 for points in drawn.values())]
    commands = ["set logscale x 2", "set grid", "set key outside right", f"set ylabel '{ylabel}'", extra]
    if len(groups) > 1:
        commands.append(f"set multiplot layout {math.ceil(len(groups) / 2)},2")
    for number, (title, drawn) in enumerate(groups):
        data, plot = series(drawn, f"curve{number}x", "linespoints")
        commands += [f"set title {quoted(step + ', ' + title)}", f"set xlabel '{PROBLEMS[step[:2]][0]}'", data,
                     f"plot {plot}"]
    gnuplot(lessons.RESULTS / f"{step}_{suffix}.svg", "\n".join(commands))


def options_of(step, shape):
    """The options of the step's program that ask for a shape of its benchmark."""
    names, numbers = PROBLEMS[step[:2]][1].split(), re.findall(r"\d+", shape)
    if step[:2] == "06":
        seq, dim = map(int, numbers)
        numbers = 16384 // seq, 2048 // dim, seq, dim
    causal = ["--causal"] if shape.endswith("causal") else []
    return [f"--{name}={number}" for name, number in zip(names, numbers)] + causal


def bytes_moved(step, shape):
    """What each kernel's row says that it loads from and stores to global memory, by the step's program."""
    program = next((path for build in ("gpu", "cpu", "check") if (path := ROOT / "build" / build / step).exists()), None)
    if program is None:
        sys.exit(f"the costs of {step} are in its program, which is not built: make build/cpu/{step}")
    listed = subprocess.run([program, "--list", "--json", *options_of(step, shape)], check=True, capture_output=True,
                            text=True).stdout
    return {kernel["name"]: kernel["bytes_read"] + kernel["bytes_written"] for kernel in json.loads(listed)["kernels"]}


def plot_roofline(step, runs):
    _, _, shape, (peak_name, peak) = STEPS[step]
    points, bandwidth, moved = {}, None, bytes_moved(step, shape)
    for run in runs:
        bandwidth = bandwidth or run.value(shape, "cold", "copy", "gbps")
        for name in moved:
            speed = run.value(shape, "cold", name, "tflops")
            if speed and name not in points:
                flops = run.value(shape, "cold", name, "flops")
                points[name] = [(flops / moved[name], speed)]
    if not points or not bandwidth:
        print(f"{step}: no roofline: {shape} was not measured")
        return
    intensities = [x for [(x, _)] in points.values()]
    low, high = min(intensities) / 4, max(*intensities, peak / bandwidth * 1e3) * 8
    blocks, drawn = series(points, "rung", "points ps 1.6")
    gnuplot(lessons.RESULTS / f"{step}_roofline.svg", f"""
set logscale xy
set samples 1000
set grid
set key outside right
set title {quoted(f'{step}, {shape}; the roof: a copy of {bandwidth:.0f} GB/s, {peak} TFLOP/s ({peak_name})')}
set xlabel 'FLOP per byte that the kernel loads from and stores to global memory (caches serve a part)'
set ylabel 'TFLOP/s'
set xrange [{low}:{high}]
{blocks}
roof(x) = x * {bandwidth / 1e3} < {peak} ? x * {bandwidth / 1e3} : {peak}
plot roof(x) with lines lw 2 lc rgb 'black' title 'roof', {drawn}""")


def plots(step, runs):
    if not shutil.which("gnuplot"):
        print(f"{step}: no plots: gnuplot is not installed")
        return
    plot_over_size(step, runs, "time", "ms", lambda run, shape, kernel: run.value(shape, "cold", kernel, "ms"),
                   "set logscale y")
    plot_over_size(step, runs, "share", "% of the best peer in the same run", share_of_best_peer, "set yrange [0:*]")
    plot_roofline(step, runs)


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
        complete = lessons.fill(ROOT / step / "README.md", {"bench": lambda _: table(step, runs)}, not arguments.check,
                                f"tests/bench/report.py {step} writes what docs/results says") and complete
        if not arguments.check:
            plots(step, runs)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
