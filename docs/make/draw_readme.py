"""The README: the whole ladder on one chart, and a screen of `make run-02`."""
import csv
import math
import subprocess

import svg
import views


def ladder():
    """({(step, shape): {"rung" or "peer": [(name, ms)]}}, device) of docs/results/ladder.csv, the cold measurements."""
    steps = {}
    with open(views.ROOT / "docs/results/ladder.csv", encoding="utf-8") as text:
        lines = list(text)
    device = lines[0].split("device: ")[1].split(",")[0]
    for row in csv.reader(line for line in lines if not line.startswith(("#", "step,"))):
        step, shape, protocol, kernel, role, _, _, ms = row[:8]
        if protocol == "cold" and role in ("rung", "peer"):
            steps.setdefault((step, shape), {"rung": [], "peer": []})[role].append((kernel, float(ms)))
    return steps, device


def picture_ladder():
    steps, device = ladder()
    count = sum(len(some["rung"]) for some in steps.values())
    picture = svg.Picture(f"The ladder: how fast is each of {count} kernels, compared with the first of its step?",
                          "Speed over that of the step's first rung, on a logarithmic axis.")
    top, height, x = 60, 250, 60
    most = max(some["rung"][0][1] / ms for some in steps.values() for _, ms in some["rung"] + some["peer"])
    scale = height / math.log10(most)
    for times in (1, 2, 5, 10, 20, 50, 100, 200):
        if times <= most:
            y = round(top + height - math.log10(times) * scale, 1)
            picture.lines("g", [(x - 4, y, 820, y)])
            picture.text(x - 8, y + 4, f"{times} ×", "m s", "end")
    width = (760 - 6 * 14) / count
    for number, ((step, shape), some) in enumerate(steps.items()):
        begin, first = x, some["rung"][0][1]
        cells = []
        for _, ms in some["rung"]:
            tall = max(math.log10(first / ms) * scale, 1.5)
            cells.append((round(x, 1), round(top + height - tall, 1), round(width - 1.5, 1), round(tall, 1)))
            x += width
        picture.cells(f"c{number}", cells)
        for kernel, ms in some["peer"]:
            y = round(top + height - math.log10(first / ms) * scale, 1)
            picture.lines("w", [(begin, y, x - 1.5, y)])
            picture.text(begin, y - 5, kernel, "t s")
        picture.text((begin + x) / 2, top + height + 18, step.split("_")[0], "t b", "middle")
        picture.text((begin + x) / 2, top + height + 34, f"{first / min(ms for _, ms in some['rung']):.0f} ×", "m",
                     "middle")
        x += 14
    picture.text(16, top + height + 58,
                 f"Speed over the first rung of the step, logarithmic, on one {device} (docs/results/ladder.csv).", "m")
    picture.text(16, top + height + 74,
                 "Thick lines: NVIDIA's libraries, measured beside them. Steps 01 and 02: 4096³; 03: 16384 x 4096;",
                 "m")
    picture.text(16, top + height + 90,
                 "04 and 05: batch 4, 32 heads, N = 4096, d = 64; 06: N = 16384, d = 128, causal, in half precision.",
                 "m")
    return picture


def picture_terminal():
    program = next(views.ROOT.glob("build/check/02_*[a-z]"))
    shown = subprocess.run([program], capture_output=True, text=True, check=True).stdout.rstrip("\n").split("\n")
    picture = svg.Picture("$ make run-02",
                          "The output of make run-02 on a CPU: for each kernel predicted and counted loads, bytes, sectors, wavefronts.")
    for i, line in enumerate(shown):
        picture.parts.append(f'<text x="16" y="{50 + i * 16}" class="{"m" if line.startswith("    ") else "t"} k" xml:space="preserve">{svg.escape(line)}</text>')
        picture.down_to(50 + i * 16)
    return picture
