"""The README: the ladders on one chart. For docs/hardware.md: a screen of `make run-02`."""
import math
import subprocess

import facts
import report
import svg
import views


def ladder():
    """({step: {"shape", "rung": [(name, ms)], "peer": (name, times as fast as the first rung) or None}}, device): docs/results' runs
    with a cold cache, at the shape of the step's first rung."""
    comments, rows = report.lessons.results("ladder.csv")
    first = {step["step"]: step["kernels"][0]["name"] for step in facts.steps()}
    rows = [row for row in rows if row["protocol"] == "cold" and row["role"] == "rung"]
    shapes = {row["step"]: row["shape"] for row in rows if row["kernel"] == first[row["step"]]}
    steps = {}
    for step, shape in shapes.items():
        peers = report.peers(step, shape, first[step])
        steps[step] = {"rung": [(row["kernel"], float(row["ms"])) for row in rows if (row["step"], row["shape"]) == (step, shape)],
                       "peer": max(peers.items(), key=lambda peer: peer[1], default=None)}
    return steps, comments["device"].split(",")[0]


def picture_ladder():
    """The core ladder of each step in full colour, what goes further with many queries paler. Decode is for another shape."""
    steps, device = ladder()
    of = {name: kernel["ladder"] for name, kernel in facts.kernels().items()}
    for some in steps.values():
        some["rung"] = [(name, ms) for name, ms in some["rung"] if of[name] != "decode"]
    count = sum(len(some["rung"]) for some in steps.values())
    picture = svg.Picture("How fast is each kernel, compared with the first of its step?",
                          "Speed over that of the step's first kernel, on a logarithmic axis.")
    top, height, x = 60, 250, 60
    most = max([some["rung"][0][1] / ms for some in steps.values() for _, ms in some["rung"]] + [some["peer"][1] for some in steps.values()])
    scale = height / math.log10(most)
    for times in (1, 2, 5, 10, 20, 50, 100, 200):
        if times <= most:
            y = round(top + height - math.log10(times) * scale, 1)
            picture.lines("g", [(x - 4, y, 820, y)])
            picture.text(x - 8, y + 4, f"{times} ×", "m s", "end")
    width = (760 - 6 * 14) / count
    for number, (step, some) in enumerate(steps.items()):
        begin, first = x, some["rung"][0][1]
        cells = {True: [], False: []}
        for name, ms in some["rung"]:
            tall = max(math.log10(first / ms) * scale, 1.5)
            cells[of[name] == "core"].append((round(x, 1), round(top + height - tall, 1), round(width - 1.5, 1), round(tall, 1)))
            x += width
        picture.cells(f"c{number}", cells[True])
        picture.cells(f"c{number}", cells[False], 0.45)
        peer, times = some["peer"]
        y = round(top + height - math.log10(times) * scale, 1)
        picture.lines("w", [(begin, y, x - 1.5, y)])
        picture.text(begin, y - 5, peer, "t s")
        picture.text((begin + x) / 2, top + height + 18, step.split("_")[0], "t b", "middle")
        ends = [f"{first / min(ms for name, ms in some['rung'] if of[name] in which):.0f} ×"
                for which in (("core",), set(of.values()))]
        picture.text((begin + x) / 2, top + height + 34, ends[0] if ends[0] == ends[1] else f"{ends[0]}, {ends[1]}", "m", "middle")
        x += 14
    for line, words in enumerate((
            f"On one {device}, logarithmic (docs/results/ladder.csv, make bench-ladder). Full colour: the core ladder; pale: limit and",
            "hopper. Below, the best of the core and of all. A thick line: the fastest library kernel that was measured beside. Steps 01",
            "and 02: 4096³; 03: 16384 × 4096; 04 and 05: batch 4, 32 heads, N = 4096, d = 64; 06: N = 16384, d = 128, causal, half.")):
        picture.text(16, top + height + 58 + 16 * line, words, "m")
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
