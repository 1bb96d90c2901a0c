#!/usr/bin/env python3
"""Plots of what the benchmarks measured, drawn as the lessons' other pictures are. Python's standard library only.

    docs/make/plots.py make [STEP ...]     draws docs/results/STEP_share.svg and STEP_roofline.svg
    docs/make/plots.py check [STEP ...]    fails when one is not what the CSV files say

A plot names a few rungs, those that raised the best speed so far the most, and the last; the others are thin and grey.
A kernel's bytes are its cost formula's, from build/check/STEP.
"""
import json
import math
import re
import subprocess
import sys

import report
import outfile  # report's lessons has set its path

sys.path.insert(0, str(report.ROOT / "docs/make"))
import svg  # noqa: E402

COLOURS = (0, 1, 2, 3, 4, 6)  # svg.py's, of the rungs that a plot names
LABEL = 13  # pixels between two labels


def curves(runs, pattern):
    """For each rung the points (size, % of the best peer of its run) at the shapes of this pattern; and those peers."""
    found, peers = {}, {}
    for run in runs:
        for (shape, protocol, kernel), row in run.rows.items():
            size = report.size_of(shape)
            if protocol != "cold" or not size or size % 32 or not re.match(pattern, shape):
                continue
            times = {name: float(other["ms"]) for (label, kind, name), other in run.rows.items()
                     if (label, kind, other["role"]) == (shape, "cold", "peer")}
            peers |= dict.fromkeys(times)
            if row["role"] == "rung" and times:
                points = found.setdefault(kernel, {})
                y = 100 * min(times.values()) / float(row["ms"])
                points[size] = min(y, points.get(size, y))
    return {kernel: sorted(points.items()) for kernel, points in found.items()}, list(peers)


def named(speeds, most=len(COLOURS)):
    """Of {rung: speed}, in reading order, the rungs to name: the first, those with the
    largest gains over the best so far, and the last.

    >>> named({"a": 1, "b": 5, "c": 5.1, "d": 6, "e": 5.9}, 3)
    ['a', 'b', 'e']
    """
    gains, best = {}, next(iter(speeds.values())) / 1e9
    for rung, speed in speeds.items():
        gains[rung], best = speed / best, max(best, speed)
    chosen = {list(speeds)[-1], *sorted(gains, key=gains.get, reverse=True)[:most - 1]}
    return [rung for rung in speeds if rung in chosen]


def apart(heights, least, most):
    """Heights as near to these as they can be between two limits with LABEL between neighbours.

    >>> apart([50, 52, 0], 0, 100)
    [50, 63, 0]
    """
    order = sorted(range(len(heights)), key=lambda place: heights[place])
    moved, last = list(heights), least - LABEL
    for place in order:
        moved[place] = last = max(heights[place], last + LABEL)
    limit = most + LABEL
    for place in reversed(order):
        moved[place] = limit = min(moved[place], limit - LABEL)
    return moved


def picture_of_shares(step, runs):
    groups = [(title, *curves(runs, pattern)) for title, pattern, _ in report.STEPS[step][0] if "bfloat16" not in title]
    groups = [group for group in groups if any(len(points) > 1 for points in group[1].values())]
    wide = len(groups) == 1
    picture = svg.Picture(f"Step {step[:2]}: how fast is each kernel, compared with the best peer?",
                          "For each rung its speed in % of the fastest library kernel in the same run, by size.")
    width, height = (600, 300) if wide else (235, 190)
    for number, (title, drawn, peers) in enumerate(groups):
        left, top = 60 + number % 2 * 415, 70 + number // 2 * (height + 75)
        bottom = top + height
        sizes = sorted({size for points in drawn.values() for size, _ in points})
        most = max(100, *(y for points in drawn.values() for _, y in points)) * 1.02
        lowest, span = math.log2(sizes[0]), math.log2(sizes[-1] / sizes[0])

        def at(point):
            return round(left + (math.log2(point[0]) - lowest) / span * width, 1), round(bottom - point[1] / most * height, 1)
        if not wide:
            picture.text(left, top - 14, title, "t b")
        step_of_y = 20 if wide else 25
        for y in range(0, int(most) + 1, step_of_y):
            picture.lines("w" if y == 100 else "g", [(left, at((sizes[0], y))[1], left + width, at((sizes[0], y))[1])])
            picture.text(left - 6, at((sizes[0], y))[1] + 4, f"{y} %", "m s", "end")
        for size in sizes:
            x = at((size, 0))[0]
            if wide or sizes.index(size) % 2 == 0 or len(sizes) < 5:
                picture.text(x, bottom + 16, size, "m s", "middle")
        chosen = named({rung: points[-1][1] for rung, points in drawn.items()})
        for rung, points in drawn.items():
            kind = f"l{COLOURS[chosen.index(rung)]}" if rung in chosen else "g"
            ends = [at(point) for point in points]
            picture.lines(kind, [(*one, *other) for one, other in zip(ends, ends[1:])])
        labels = [(rung, drawn[rung][-1]) for rung in chosen]
        labels.append((peers[0] if len(peers) == 1 else "best peer", (sizes[-1], 100)))
        heights = apart([at(point)[1] for _, point in labels], top, bottom)
        for (name, point), y in zip(labels, heights):
            x = left + width
            if name in chosen:
                kind = COLOURS[chosen.index(name)]
                picture.lines(f"l{kind}", [(*at(point), x + 9, y)])
                picture.cells(f"c{kind}", [(x + 10, y - 4, 8, 8)])
            else:
                picture.lines("w", [(*at(point), x + 18, y)])
            picture.text(x + 22, y + 4, name.removeprefix("backward_") if title.startswith("gradients") else name, "t s")
    below, peers = picture.height + 22, list(dict.fromkeys(name for group in groups for name in group[2]))
    whole = peers[0] if len(peers) == 1 else f"the fastest of {', '.join(peers)}"
    picture.text(16, below, f"Speed in % of {whole} in the same run,", "m")
    picture.text(16, below + 17, f"by {report.AXES[step[:2]]}. Thin and grey: the other rungs.", "m")
    picture.text(16, below + 34, device(runs), "m")
    return picture


def device(runs):
    return f"One {runs[0].comments['device'].split(',')[0]}, each after a rest and with a cold L2 cache."


def bytes_moved(step, shape):
    """What each kernel's row says that it loads from and stores to global memory, by the step's program."""
    program = report.ROOT / "build/check" / step
    if not program.exists():
        raise outfile.Refused(f"the costs of {step} are in its program, which is not built: make BACKEND=cpu build/check/{step}")
    listed = subprocess.run([program, "--list", "--json", *report.lessons.options_of(step, shape)], check=True, capture_output=True,
                            text=True).stdout
    return {kernel["name"]: kernel["bytes_read"] + kernel["bytes_written"] for kernel in json.loads(listed)["kernels"]}


def picture_of_roofline(step, runs):
    _, shape, (peak_name, peak) = report.STEPS[step]
    points, bandwidth, moved = {}, None, bytes_moved(step, shape)
    for run in runs:
        bandwidth = bandwidth or run.value(shape, "cold", "copy", "gbps")
        for name in moved:
            speed = run.value(shape, "cold", name, "tflops")
            if speed and name not in points:
                points[name] = run.value(shape, "cold", name, "flops") / moved[name], speed
    bandwidth /= 1e3  # TB/s
    left, top, width, height = 60, 70, 600, 300
    low, high = min(x for x, _ in points.values()) / 3, max(*(x for x, _ in points.values()), peak / bandwidth) * 6
    floor, roof = min(y for _, y in points.values()) / 2, peak * 1.5

    def at(x, y):
        return (round(left + math.log(x / low) / math.log(high / low) * width, 1),
                round(top + height - math.log(max(y, floor) / floor) / math.log(roof / floor) * height, 1))
    picture = svg.Picture(f"Step {step[:2]}, {shape}: what could the arithmetic, what could memory allow?",
                          "A roofline: speed of each rung by the FLOP for each byte that it loads or stores; both logarithmic.")
    for power in range(math.ceil(math.log10(floor)), math.floor(math.log10(roof)) + 1):
        y = at(low, 10 ** power)[1]
        picture.lines("g", [(left, y, left + width, y)])
        picture.text(left - 6, y + 4, f"{10.0 ** power:g}", "m s", "end")
    for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1):
        x = at(10 ** power, floor)[0]
        picture.lines("g", [(x, top, x, top + height)])
        picture.text(x, top + height + 16, f"{10.0 ** power:g}", "m s", "middle")
    ridge = peak / bandwidth
    picture.lines("w", [(*at(max(low, floor / bandwidth), max(low, floor / bandwidth) * bandwidth), *at(ridge, peak)),
                        (*at(ridge, peak), *at(high, peak))])
    picture.text(at(high, peak)[0] + 8, at(high, peak)[1] + 4, f"{peak:g} TFLOP/s", "t s")
    chosen = named({rung: y for rung, (_, y) in points.items()})
    heights = apart([at(*points[rung])[1] for rung in chosen], at(high, peak)[1] + LABEL, top + height)
    for rung, point in points.items():
        if rung not in chosen:
            x, y = at(*point)
            picture.cells("c7", [(x - 2.5, y - 2.5, 5, 5)])
    for number, rung, label in zip(COLOURS, chosen, heights):
        x, y = at(*points[rung])
        picture.lines("g", [(x, y, left + width + 4, label)])
        picture.cells(f"c{number}", [(x - 4, y - 4, 8, 8)])
        picture.cells(f"c{number}", [(left + width + 10, label - 4, 8, 8)])
        picture.text(left + width + 22, label + 4, rung, "t s")
    picture.text(16, top + height + 42, "TFLOP/s by FLOP per byte that the kernel loads from and stores to global memory (caches serve a part).", "m")
    picture.text(16, top + height + 59, f"The roof: a copy's {bandwidth * 1e3:.0f} GB/s, and {peak:g} TFLOP/s ({peak_name}). Grey: the other rungs.", "m")
    picture.text(16, top + height + 76, device(runs), "m")
    return picture


def picture_of_rung(name):
    """A kernel's time among those of its ladder, a bar each, the vendor's as lines, for its page of the book; None where it was
    not timed."""
    kernel, kernels = report.facts.kernels()[name], report.facts.kernels()
    of = {other for other, row in kernels.items() if (row["step"], row["ladder"]) == (kernel["step"], kernel["ladder"])}
    rows = [row for row in report.lessons.results("ladder.csv")[1] if row["step"] == kernel["step"] and row["protocol"] == "cold"]
    shapes = [row["shape"] for row in rows if row["kernel"] == name]
    if not shapes:
        return None
    many = {shape: sum(row["shape"] == shape and row["kernel"] in of for row in rows) for shape in shapes}
    shape = kernel["timed_at"] if kernel["timed_at"] in shapes else max(shapes, key=many.get)
    times = {row["kernel"]: float(row["ms"]) for row in rows if row["shape"] == shape and row["kernel"] in of | {kernel["after"]}}
    peers = {other: times[name] / ratio for other, ratio in report.peers(kernel["step"], shape, name).items()}
    peers = dict(sorted(peers.items(), key=lambda peer: peer[1])[:2])
    picture = svg.Picture(f"{name} beside its neighbours, at {shape}", f"{name} takes {times[name]:.3g} ms; each bar is a kernel of its ladder.")
    most = max([*times.values(), *peers.values()])
    left, width, y = 200, 500, 52 + 16 * len(peers)
    top = y
    for other, ms in times.items():
        picture.text(left - 8, y + 13, other, "t k" if other == name else "m k", "end")
        picture.cells("c0" if other == name else "c7", [(left, y, round(max(ms / most * width, 1), 1), 17)])
        picture.text(left + round(ms / most * width) + 6, y + 13, f"{ms:.3g} ms", "t s" if other == name else "m s")
        y += 22
    for number, (other, ms) in enumerate(peers.items()):
        x = round(left + ms / most * width, 1)
        picture.lines("w", [(x, top - 16 * number - 6, x, y)])
        picture.text(x + 5, top - 16 * number - 8, f"{other}, {ms:.3g} ms", "t s")
    picture.text(16, y + 20, f"One {report.lessons.device()}, each after a rest and with a cold L2 cache. "
                 f"{'A line is a library. ' if peers else ''}Blue: this kernel.", "m")
    return picture


def main(arguments):
    command, steps = arguments[0] if arguments else "", arguments[1:] or list(report.STEPS)
    if command not in ("make", "check") or set(steps) - set(report.STEPS):
        raise outfile.Refused(__doc__)
    wrong = []
    for step in steps:
        runs = report.runs_of(step)
        for name, draw in {"share": picture_of_shares, "roofline": picture_of_roofline}.items() if runs else ():
            path, text = report.lessons.RESULTS / f"{step}_{name}.svg", draw(step, runs).svg()
            if command == "make":
                outfile.write(path, text)
            elif not path.exists() or path.read_text("utf-8") != text:
                wrong.append(f"docs/results/{path.name} is not what the CSV files say: make pictures")
    print("\n".join(wrong) or "plots: all " + ("drawn now" if command == "make" else "as docs/results says"))
    return 1 if wrong else 0


if __name__ == "__main__":
    outfile.told(main)
