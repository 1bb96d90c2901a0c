#!/usr/bin/env python3
"""Opens pages of show.py in a browser: each must open without a complaint, add up to the counters, and its views must follow each
other.

    test_show.py [--all] [STEP ...]     a few kernels of each step (all of them), broken ones, a learner's, another program
"""
import contextlib
import io
import itertools
import json
import math
import pathlib
import shlex
import subprocess
import sys
import time
import types

import browser

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "common/tools/show"))
import show  # noqa: E402

SAMPLE = ("uncoalesced", "shared_tile", "async", "sgemm_cluster", "online_warp", "standard", "key_parallel_ordered", "flash_v1",
          "flash_v2", "mma_tma", "ping_pong", "persistent_blocks")
CELLS = """Object.fromEntries([...document.querySelectorAll('#totals td[data-of]')].map(cell =>
    [cell.dataset.of + ' ' + cell.dataset.counter, cell.textContent.replace(/,/g, '')]))"""
# The table does not show these: a page has one launch at a time.
HIDDEN = {"launches"}
OPEN_SECONDS = 15  # a page opens in less than one; the first also waits for the browser, and machines are busy

faults = []


def expect(right, sentence):
    if not right:
        faults.append(sentence)
        print(f"FAILED  {sentence}", flush=True)


def made(function, **arguments):
    """Returns the path that a function of show.py prints for these arguments."""
    said = io.StringIO()
    defaults = {"block": None, "options": "", "mine": False, "at": ""}
    with contextlib.redirect_stdout(said):
        function(types.SimpleNamespace(**{**defaults, **arguments}))
    return said.getvalue().strip()


def opened(chromium, path):
    seconds = chromium.open(path)
    expect(not chromium.complaints, f"{path}: {chromium.complaints[:2]}")
    chromium.complaints.clear()
    expect(seconds < OPEN_SECONDS, f"{path} takes {seconds:.1f} s to open")
    expect(pathlib.Path(path).stat().st_size < 3 << 20, f"{path} is larger than 3 MB")
    return seconds


def totals(chromium, path, counters):
    """In every launch the page must draw what the block counted, and the launches must add up to the run."""
    run = dict.fromkeys(counters, 0)
    for launch in range(chromium.run("page.launches.length")):
        chromium.run(f"use({launch}), 1")
        cells = chromium.run(CELLS)
        for counter in counters:
            if chromium.run("L.block.traced"):
                drawn, block = cells[f"page {counter}"], cells[f"block {counter}"]
                expect(drawn == block, f"{path}: launch {launch + 1} draws {drawn} {counter}, its block counted {block}")
            run[counter] += int(cells[f"launch {counter}"])
    for counter, value in counters.items():
        expect(run[counter] == value, f"{path}: its launches make {run[counter]} {counter}, the program counts {value}")


def kernels(chromium, steps, every):
    for kernel in show.facts.kernels() if every else SAMPLE:
        row = show.facts.kernels()[kernel]
        step, options = row["step"], row["shown_sizes"]
        program = str(show.ROOT / "build/check" / step)
        if not steps or step[:2] in steps:
            begin = time.monotonic()
            path = made(show.show_step, step=step, kernel=[kernel])
            row = json.loads(subprocess.check_output([program, "--kernel", kernel, "--json", *shlex.split(options)]))["kernels"][0]
            seconds = opened(chromium, path)
            totals(chromium, path, {name: row[name] for name in chromium.run("ROWS.map(row => row[0])") if name not in HIDDEN})
            print(f"{path:<46} opens in {seconds:.2f} s, {pathlib.Path(path).stat().st_size >> 10} KB  ({time.monotonic() - begin:.1f} s)", flush=True)


def middle(chromium, selector):
    return chromium.run(f"(r => [r.x + r.width / 2, r.y + Math.min(r.height / 2, 8)])(document.querySelector({json.dumps(selector)}).getBoundingClientRect())")


def views(chromium):
    """A choice in one view must show in the others, by mouse and by keys."""
    opened(chromium, made(show.show_step, step="02_tiled_matmul", kernel=["shared_tile"]))
    line = chromium.run("page.lines.findIndex(line => line.endsWith('01_shared_tile.cu:39'))")
    chromium.mouse(*middle(chromium, f"#source tr[data-line='{line}']"))
    expect(chromium.run("document.querySelector('#source tr.chosen')?.dataset.at") == "01_shared_tile.cu:39", "a click does not choose a source line")
    expect("line 39" in chromium.run("$('#request h2').textContent"), "the request is not that of the chosen line")
    expect(chromium.run("L.match.reduce((a, b) => a + b)") == 1024, "the chosen line has other than 1,024 requests in the time view")
    expect("wavefront" in chromium.run("$('#request .scroll').textContent"), "a request to shared memory does not show its wavefronts")
    expect(chromium.run("$('#whatif').textContent").count("words") >= 4, "there is no table of other row lengths")
    before = chromium.run("state.event")
    chromium.press("ArrowRight")
    expect(chromium.run("state.event") > before, "the right arrow does not go to the next request")
    chromium.press("Escape")
    expect(chromium.run("state.line") == -1, "Escape does not let go")

    # A[3][5] is read once, and 16 times from shared memory.
    spot = chromium.run("(v => { const r = v.canvas.getBoundingClientRect(); return [r.x + 1 + 5.5 * v.cell, r.y + 1 + 3.5 * v.cell]; })(L.views.find(v => v.a.name === 'A'))")
    chromium.mouse(*spot)
    said = chromium.run("$('#element').textContent")
    expect("A[3][5] read 1 time by warp 1, lane 21 (line 34)" in said, f"of A[3][5] the page says: {said}")
    expect("From As[3][5]: read 16 times by warp 1, lanes 16–31 (line 39)" in said, f"of the copy of A[3][5] the page says: {said}")
    expect(sorted(chromium.run("[...document.querySelectorAll('#source tr.touch')].map(tr => tr.dataset.at)")) ==
           ["01_shared_tile.cu:34", "01_shared_tile.cu:39"], "the lines that touch A[3][5] are not marked")
    chromium.press("Escape")

    chromium.mouse(*middle(chromium, "#request [data-lane='7']"))
    expect(chromium.run("state.lane") == 7, "a click does not choose a lane")
    tick = chromium.run("(b => [b.x + xOf(60, b.width), b.y + AXIS + 2.5 * L.high])($('.over').getBoundingClientRect())")
    chromium.mouse(*tick)
    expect(chromium.run("L.warp[state.event]") == 2 and abs(chromium.run("state.tick") - 60) < 3, "a click in the time view does not choose warp 2 at tick 60")
    wall = chromium.run("(b => [b.x + xOf(L.walls[1], b.width), b.y + AXIS + 5])($('.over').getBoundingClientRect())")
    chromium.mouse(*wall)
    kept = chromium.run("$('#request .pairs').textContent")
    expect("As" in kept and "line 39 reads→line 34 writes" in kept, f"the second barrier keeps apart: {kept}")
    chromium.press("End")
    expect(chromium.run("state.tick === L.end && +$('#tick').value === L.end"), "End does not go to the end")
    expect(chromium.run("L.arrays.every(a => a.now.reads.every((n, i) => n === a.total.reads[i]))"), "at the end not all is counted")
    dark = chromium.run("document.documentElement.dataset.theme")
    chromium.press("t")
    expect(chromium.run("document.documentElement.dataset.theme") != dark, "t does not change the theme")
    chromium.mouse(*middle(chromium, "[data-tab=totals]"))
    expect(chromium.run("!$('#totals').hidden && $('#grids').hidden"), "the totals do not open")
    opened_dark = chromium.open(made(show.show_step, step="02_tiled_matmul", kernel=["shared_tile"], block=255), dark=True)
    expect(chromium.run("document.documentElement.dataset.theme") == "dark" and opened_dark, "a dark desktop does not get a dark page")
    expect("block 255 of 256" in chromium.run("$('#about').textContent"), "the page does not say which block it shows")
    expect(not chromium.complaints, f"{chromium.complaints[:2]}")


# What a lesson's link to a moment must answer: step, kernels, the link, where the page says it, and what.
ABOUT, REQUEST, WHAT_IF = "$('#about').textContent", "$('#request').textContent", "$('#whatif').textContent"
RINGS = "L.rings.map(ring => ring.title + ': ' + ring.parts.map(part => part.name).join(', ')).join('; ')"
OVERLAPS = "String(L.products.some(one => L.products.some(other => one !== other && one.parts[0].from < other.parts[0].from)))"
MOMENTS = [
    ("01_naive_matmul", ["coalesced"], "at=B[(size_t)k", REQUEST, "4 sectors"),
    ("02_tiled_matmul", ["shared_tile"], "at=sum %2B= As", REQUEST, "loads As"),
    ("04_flash_v1", ["flash_v1"], "at=__syncthreads", REQUEST, "keeps apart"),
    ("03_online_softmax", ["online_warp"], "at=__shfl_xor_sync", REQUEST, "lane 16 away"),
    ("05_flash_v2", ["flash_v2"], "at=K_transposed[e %25 d]", WHAT_IF, "17 words, as it is256"),
    ("05_flash_v2", ["split_kv_naive"], "at=O_runs[", ABOUT, "merge_runs"),
    ("05_flash_v2", ["split_kv_naive"], "at=O_runs[", "$('#launch').selectedOptions[0].text", "merge_runs"),
    ("06_causal_half", ["mma"], "at=mma_m16n8k16", REQUEST, "8 elements of A, 4 of B, 4 of C"),
    ("06_causal_half", ["producer_warp"], "", RINGS, "V place 0: V 384–511, V 0–127"),
    ("06_causal_half", ["overlap", "ping_pong"], "at=named_barrier_sync(", OVERLAPS, "true"),
]


def moments(chromium):
    """A link to a moment must lead to what a lesson asks there."""
    for step, names, link, where, what in MOMENTS:
        path = made(show.show_step, step=step, kernel=names)
        chromium.open(path, query=f"#{link}")
        said = chromium.run(where)
        expect(what in said, f"{path}#{link}: not '{what}' but '{said[:300]}'")


def failures(chromium):
    """A race, wrong values, and values that were never written each have a page."""
    opened(chromium, made(show.show_broken, fault="column_tile-overwritten-too-early"))
    text = chromium.run("$('#failure').textContent + $('#errors').textContent")
    expect("race on shared memory" in text, "the race is not told")
    expect(chromium.run("L.sides.length") == 2 and chromium.run("L.sides.some(side => side.event >= 0)"), "the race has not two sides, one at least in the trace")
    expect(chromium.run("document.querySelectorAll('#source tr.report').length") >= 2, "the lines of the race are not marked")
    chromium.mouse(*middle(chromium, "[data-side]:not([disabled])"))
    expect(chromium.run("state.lane >= 0 && document.querySelectorAll('#source tr.now.report').length") == 1, "a side of the race does not lead to its line")

    opened(chromium, made(show.show_broken, fault="coalesced-last-k-dropped"))
    text = chromium.run("$('#errors').textContent")
    wrong = chromium.run("page.run.where.match(/^([0-9,]+|all)/)[0]")
    expect("wrong" in text and (wrong == "all" or f"{int(wrong.replace(',', '')):,} wrong" in text), f"{wrong} are wrong, the page says: {text[:400]}")
    opened(chromium, made(show.show_broken, fault="flash_v2-wrong-kv-head"))
    expect(chromium.run("L.block.number") == 1, "the page does not show the block that stores the first wrong element")
    expect(chromium.run("$('#wrong').textContent").count("144 wrong") == 1, "of 288 elements not 144 are shown as wrong")
    opened(chromium, made(show.show_broken, fault="coalesced-grid-truncated"))
    text = chromium.run("$('#wrong').textContent")
    expect("never written" in text, f"what was never written is not shown: {text[:400]}")


# How eyes that lack a kind of cone see linear red, green and blue (Machado and others, 2009, severity 1).
SEEN = {"red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
        "green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
        "blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900))}
APART = 11  # in CIE Lab, where 2 is a difference that a careful look finds


def lab(colour, seen):
    """Returns a colour, "#3f8fd2", in CIE Lab as such eyes see it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5))]
    red, green, blue = (min(1, max(0, sum(a * b for a, b in zip(row, linear)))) for row in seen)
    xyz = ((0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047, 0.2126 * red + 0.7152 * green + 0.0722 * blue,
           (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883)
    x, y, z = (c ** (1 / 3) if c > 0.008856 else 7.787 * c + 16 / 116 for c in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def palette(chromium):
    """Eyes that see no red, no green or no blue must tell the kinds of events apart, in light and dark."""
    path = made(show.show_step, step="02_tiled_matmul", kernel=["shared_tile"])
    for dark in (False, True):
        chromium.open(path, dark)
        colours = chromium.run("Object.fromEntries(Object.keys(KINDS).map(kind => [kind, css(kind)]))")
        for (one, first), (other, second) in itertools.combinations(colours.items(), 2):
            for missing, seen in SEEN.items():
                away = math.dist(lab(first, seen), lab(second, seen))
                expect(away >= APART, f"without {missing}, {one} and {other} look alike ({away:.0f}){', in the dark' if dark else ''}")


PROGRAM = """
#include <cuda_runtime.h>
#include <stdio.h>
__global__ void reverse(float *data) {
    __shared__ float tile[8][32];
    tile[threadIdx.y][threadIdx.x] = data[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    data[threadIdx.y * 32 + threadIdx.x] = tile[7 - threadIdx.y][31 - threadIdx.x];
}
int main() {
    float *data;
    cudaMalloc(&data, 1024);
    cudaMemset(data, 0, 1024);
    reverse<<<1, dim3(32, 8)>>>(data);
    return cudaDeviceSynchronize();
}
"""


def others(chromium):
    """Any program can be shown, and so can a learner's kernel."""
    folder = show.ROOT / "build/show/test"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reverse.cu").write_text(PROGRAM)
    subprocess.run([show.ROOT / "common/simt/simtcc", "--check", folder / "reverse.cu", "-o", folder / "reverse"], check=True)
    opened(chromium, made(show.show_program, command=[str(folder / "reverse")]))
    expect(chromium.run("L.kernel") == "reverse" and chromium.run("L.sums.shared_loads") == 256, "a program of one's own is not shown")
    expect(chromium.run("L.views.some(v => v.a.name === 'tile' && v.cols === 32)"), "its shared array has not the shape that it was declared with")

    sys.path.insert(0, str(show.ROOT / "common/tools/learn"))
    import learn
    learn.WORK = folder / "work"
    mine = learn.WORK / "01_naive_matmul/2_coalesced.cu"
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text((show.ROOT / "01_naive_matmul/2_coalesced.cu").read_text())
    opened(chromium, made(show.show_step, step="01_naive_matmul", kernel=["coalesced"], mine=True))
    expect("yours" in chromium.run("document.title") and chromium.run("L.kernel") == "coalesced", "a learner's kernel is not shown")


def main():
    every, steps = "--all" in sys.argv, [word for word in sys.argv[1:] if word.isdigit()]
    begin = time.monotonic()
    try:
        with browser.Browser() as chromium:
            kernels(chromium, steps, every)
            if not steps:
                for part in (views, moments, failures, others, palette):
                    since = time.monotonic()
                    part(chromium)
                    print(f"{part.__doc__.splitlines()[0]:<46} {time.monotonic() - since:.1f} s", flush=True)
    except (FileNotFoundError, show.Unable) as error:
        sys.exit(f"check-show: {error}")
    print(f"{time.monotonic() - begin:.0f} s, {len(faults)} failed")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
