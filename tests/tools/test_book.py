#!/usr/bin/env python3
"""Reads the book that `make book` made, and opens it in a browser from disk.

    test_book.py [--all]      every link; one page of each kind (every page), at three widths, in light and dark

Every internal link leads somewhere, to headings, lines of a source and runs too; nothing is fetched from a network; every heading
of the Markdown has its place. In the browser no page complains, none is wider than the window, axe-core finds no fault, and what
the mouse does the keyboard does.
"""
import functools
import html.parser
import json
import pathlib
import re
import subprocess
import sys
import time
import urllib.parse

import browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/tools"))
import facts  # noqa: E402
import source  # noqa: E402
SITE, AXE = ROOT / "build/book/html", ROOT / "build/book/axe"
WIDTHS = (1280, 680, 390)
KINDS = {"the first page": "index", "a lesson": "02_tiled_matmul/index", "a kernel": "06_causal_half/mma", "after the kernels": "04_flash_v1/after",
         "a ladder": "06_causal_half/hopper/index", "formulas": "docs/mathematics", "the glossary": "docs/glossary", "a source": "06_causal_half/03_mma.cu",
         "measurements": "docs/results/worklog", "licences": "licences", "a run": "show/02_shared_tile", "a run of the copy engine": "show/06_ping_pong",
         "a run with shuffles": "show/03_online_warp", "search": "search"}
MOST_BYTES = 20 << 20

faults = []


def expect(right, sentence):
    if not right:
        faults.append(sentence)
        print(f"FAILED  {sentence}", flush=True)


class Links(html.parser.HTMLParser):
    """What a page names (ids), where it leads (links), and what it takes from elsewhere as it opens (parts)."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.parts = set(), [], []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        of = dict(attributes)
        self.ids |= {of[name] for name in ("id", "name") if of.get(name)}
        if tag == "a" and "href" in of:
            self.links.append(of["href"])
        elif of.get("src") or tag == "link" and of.get("rel") != "canonical":
            self.parts.append(of.get("src") or of.get("href") or "")


@functools.cache
def read(path):
    return Links(path)


@functools.cache
def run_of(path):
    """What a page of a run shows."""
    import base64
    import zlib
    return json.loads(zlib.decompress(base64.b64decode(path.with_suffix(".js").read_text().split('"')[1])))


def leads(page, link):
    """Says what is wrong with a link; '' for nothing."""
    address = urllib.parse.urlsplit(link)
    if address.scheme or address.netloc:
        return ""
    path = (page.parent / urllib.parse.unquote(address.path)).resolve() if address.path else page
    if not path.is_file() or not path.is_relative_to(SITE):
        return "it is not there"
    if path.parent == SITE / "show" and path.suffix == ".html":
        parts, run = urllib.parse.parse_qs(address.fragment), run_of(path)
        beside, text = parts.get("with", [""])[0], parts.get("at", [""])[0]
        if beside and not (path.parent / f"{beside}.js").is_file():
            return f"there is no run {beside}"
        did = {run["lines"][shape["line"]] for launch in run["launches"] for shape in launch["shapes"] if "line" in shape}
        files = {name: text.split("\n") for name, text in run["sources"].items()}
        at = [line for line in did if text in files[line.rpartition(":")[0]][int(line.rpartition(":")[2]) - 1]]
        return "" if at else f"no line with '{text}' did anything"
    if address.fragment and path.suffix == ".html" and urllib.parse.unquote(address.fragment) not in read(path).ids:
        return "no such place on that page"
    return ""


def text_of_the_book():
    pages = sorted(SITE.rglob("*.html"))
    expect(len(pages) > 100, "the book has few pages; make book makes it")
    for page in pages:
        name = page.relative_to(SITE)
        for link in read(page).links + read(page).parts:
            wrong = leads(page, link)
            expect(not wrong, f"{name} links to {link}: {wrong}")
        for part in read(page).parts:
            expect(not urllib.parse.urlsplit(part).netloc, f"{name} fetches {part}")
    for path in SITE.rglob("*.css"):
        expect(not re.search(r"url\(['\"]?(https?:)?//", path.read_text("utf-8")), f"{path.relative_to(SITE)} fetches something")
    ids = {}
    for page in pages:
        for each in read(page).ids:
            ids.setdefault(each, set()).add(page.relative_to(SITE).as_posix())
    for name in subprocess.check_output(["git", "ls-files", "*.md"], cwd=ROOT, text=True).split():
        for _, depth, title, anchor in source.headings((ROOT / name).read_text("utf-8").split("\n")):
            expect(depth == 1 or anchor in ids, f"{name} has '{title}', the book does not")
    for kernel in facts.kernels():
        expect(any(page.stem == kernel for page in pages), f"{kernel} has no page")
    total = sum(path.stat().st_size for path in SITE.rglob("*") if path.is_file())
    expect(total <= MOST_BYTES, f"the book has {total:,} bytes")
    said = (SITE / "licences.html").read_text()
    for name in ("furo", "Sphinx", "Pygments", "snowballstemmer", "MIT License"):
        expect(name in said, f"licences.html does not name {name}")


def axe():
    """The text of axe-core."""
    found = list(AXE.rglob("axe.min.js"))
    if not found:
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--disable-pip-version-check", "--target", AXE, "-r",
                        pathlib.Path(__file__).with_name("axe.txt")], check=True)
        found = list(AXE.rglob("axe.min.js"))
    return found[0].read_text()


FAULTS = """axe.run(document, {iframes: false, preload: false, resultTypes: ['violations']}).then(found => found.violations.map(each =>
    each.id + ': ' + each.nodes.slice(0, 3).map(node => node.target.join(' ') + ' ' + (node.any[0]?.message ?? '').slice(0, 120)).join(' | ')))"""
WIDE = """[...document.querySelectorAll('body *')].filter(each => each.getBoundingClientRect().right > innerWidth + 1
    && !each.closest('[tabindex], .table-wrapper, .highlight, .diff, .formula, .sidebar-drawer, .toc-drawer, pre, svg')).slice(0, 3).map(each => each.outerHTML.slice(0, 90))"""


def looked_at(chromium, checker, names):
    for name in names:
        path = SITE / f"{name}.html"
        for dark in (False, True):
            for width in WIDTHS:
                where = f"{name}, {width} pixels, {'dark' if dark else 'light'}"
                chromium.resize(width, 800)
                chromium.open(path, dark, ready="document.readyState === 'complete'" + (" && document.body.dataset.ready" if "show/" in name else ""))
                chromium.drawn()
                expect(not chromium.complaints, f"{where}: {chromium.complaints[:2]}")
                chromium.complaints.clear()
                if chromium.run("document.documentElement.scrollWidth > innerWidth"):
                    expect(False, f"{where}: wider than the window: {chromium.run(WIDE)}")
                if width != WIDTHS[1]:
                    chromium.run(f"{checker}; 1")
                    for fault in chromium.run(FAULTS):
                        expect(False, f"{where}: {fault}")


def searched(chromium):
    """The search must find what is asked for, from disk."""
    for word, page in (("swizzle", "06_causal_half/mma_swizzled"), ("wavefront", "docs/glossary"), ("ping_pong", "06_causal_half/hopper/ping_pong")):
        chromium.open(SITE / "search.html", ready="document.readyState === 'complete'", query=f"?q={word}")
        end, found = time.monotonic() + 20, []
        while time.monotonic() < end and not any(page in each for each in found):  # they come one by one
            found = chromium.run("[...document.querySelectorAll('#search-results li a')].map(a => a.href)")
        expect(any(page in each for each in found), f"a search for {word} does not find {page}: {len(found)} results")
        expect(not chromium.complaints, f"search: {chromium.complaints[:2]}")
        chromium.complaints.clear()


def followed(chromium):
    """Returns what is shown and the address, which follows a quarter of a second later, on a busy machine more."""
    for _ in range(50):
        shown, kept = chromium.run("address()"), chromium.run("location.hash")
        if shown == kept:
            break
        time.sleep(0.1)
    return shown, kept


def by_keys(chromium):
    """A run does for the keyboard what it does for the mouse, and its address leads back to what it shows."""
    chromium.resize(1280, 800)
    run = SITE / "show/02_shared_tile.html"
    chromium.open(run)
    for _ in range(3):
        chromium.press("ArrowDown")
    expect(chromium.run("state.line >= 0"), "the arrow keys choose no source line")
    chromium.press("Escape")
    chromium.run("$('canvas[data-array=A]').focus(), 1")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Enter"):
        chromium.press(key)
    expect(chromium.run("L.arrays[state.element?.array]?.name") == "A", "the keyboard chooses no element")
    said = chromium.run("$('#element').textContent")
    expect("A[1][1]" in said, f"after right, right, down the page says: {said}")
    chromium.press("Escape")
    chromium.press("b")
    expect(chromium.run("L.walls.includes(state.tick) && WALLS.has(shape(state.event).kind)"), "b does not go to a barrier")
    chromium.press("Home")
    chromium.press("ArrowRight")
    chromium.run("$('#request [tabindex][data-lane=\"7\"]').focus(), 1")
    chromium.press("Enter")
    expect(chromium.run("state.lane") == 7, "Enter does not choose a lane")
    followed(chromium)  # no earlier change carries the tab into the address
    chromium.run("$('#tab-matrices').focus(), 1")
    chromium.press("ArrowRight")
    expect(chromium.run("!$('#totals').hidden && document.activeElement.id === 'tab-totals'"), "arrows do not go through the tabs")
    before, kept = followed(chromium)
    expect("tab=" in before and before == kept, f"the address is {kept}, what is shown {before}")
    chromium.open(run, query=kept)
    expect(chromium.run("address()") == before, f"{before} leads to {chromium.run('address()')}")

    # From the kernel's own file at the beginning, and from there on where the moment is.
    chromium.open(SITE / "show/06_ping_pong.html")
    expect(chromium.run("$('#source tr.file').textContent").endswith("11_ping_pong.cu"), "a run does not begin with its kernel's file")
    chromium.press("End")
    inside = "(tr => tr && tr.offsetTop >= box.scrollTop && tr.offsetTop < box.scrollTop + box.clientHeight)($('#source tr.now'))"
    expect(chromium.run(f"(box => {inside})($('#source .scroll'))"), "the source does not follow the moment")
    expect(chromium.run("L.rings.some(ring => ring.parts.some(part => /^[KV] \\d+–\\d+$/.test(part.name)))"), "ring places do not name their tiles")
    expect(chromium.run("!L.arrays.some(a => a.name === 'dynamic')"), "dynamic shared memory has no names")


def two_runs(chromium):
    """Two kernels stand on one axis; what is saved can be opened; a moment opens in the run on the page."""
    chromium.open(SITE / "show/06_overlap.html", query="#with=06_producer_warp")
    expect(chromium.run("runs.map(run => run.name)") == ["06_producer_warp", "06_overlap"], "with= does not put the other kernel beside")
    expect(chromium.run("new Set(runs.map(run => run.axis.lanes.width)).size") == 1, "the axes are not equally long")
    chromium.press("o")
    expect(chromium.run("L.kernel").startswith("flash_producer_warp"), "o does not go to the other kernel")
    chromium.open(SITE / "show/02_shared_tile.html")
    names = chromium.run("add(active.packed).then(run => { activate(runs[0]); return runs.map(each => each.L.count); })")
    expect(names[0] == names[1] > 0, "a saved trace does not open as it was")
    chromium.run("beside(new Uint8Array([1, 2, 3])).then(() => 1)")
    expect("not a trace" in chromium.run("$('#failure').textContent"), "a file that is no trace is not refused")
    chromium.open(SITE / "02_tiled_matmul/shared_tile.html", ready="document.readyState === 'complete'")
    chromium.run("document.querySelector('a.moment').click(), 1")
    expect("at=" in chromium.run("document.querySelector('iframe.run').src"), "a moment does not open in the run on its page")
    expect(not chromium.complaints, f"two runs: {chromium.complaints[:2]}")


def main():
    begin, every = time.monotonic(), "--all" in sys.argv
    text_of_the_book()
    print(f"links and headings: {time.monotonic() - begin:.0f} s", flush=True)
    names = [path.relative_to(SITE).with_suffix("").as_posix() for path in sorted(SITE.rglob("*.html"))] if every else KINDS.values()
    try:
        with browser.Browser() as chromium:
            for part in (lambda tab: looked_at(tab, axe(), names), searched, by_keys, two_runs):
                part(chromium)
    except FileNotFoundError as error:
        sys.exit(f"check-book: {error}")
    print(f"{time.monotonic() - begin:.0f} s, {len(faults)} failed")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
