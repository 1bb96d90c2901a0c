#!/usr/bin/env python3
"""Makes the book, build/book/html: every lesson and doc as a web page, a page for each kernel, with its run inside it.

    docs/make/book.py          writes what Sphinx reads, the pages of show.py and the licences, and runs Sphinx

The Markdown is the one source. Here lessons are cut at their rungs; links are turned to where things are then; and a rung's page
gets what Markdown cannot hold: the map of its ladder, its diff side by side, what was measured as a plot, its run. Pages of
show.py share one copy of scripts and styles. What has not changed is not made again.
"""
import concurrent.futures
import hashlib
import html
import importlib.metadata
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

import plots
import lessons
import facts  # lessons has set its path
import ladder
import outfile
import source

sys.path.insert(0, str(lessons.ROOT / "common/tools/show"))
import show  # noqa: E402

ROOT = lessons.ROOT
HERE = pathlib.Path(__file__).parent / "book"
OUT = ROOT / "build/book"
PAGES, SITE = OUT / "source", OUT / "html"
LONGEST = 20 << 20  # bytes of the whole book

# The pages beside the lessons, in reading order; what is linked and not here comes after them.
READ_ON = ("docs/tour.md", "docs/hardware.md", "docs/mathematics.md", "docs/loops.md", "docs/glossary.md", "docs/errata.md",
           "docs/student.md", "docs/instructor.md", "docs/seeds.md")
LANGUAGE = {".cu": "cuda", ".cuh": "cuda", ".c": "c", ".h": "c", ".cpp": "cpp", ".py": "python", ".json": "json", ".mk": "make"}
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)")
COMMENT = re.compile(r"<!--.*?-->\n?", re.S)


# ----------------------------------------------------------------------------------------------------------------------
# Which page has what


class Page:
    """A page of the book: `name` is its path without a suffix, `lines` the part of the Markdown file `path` that it holds."""

    def __init__(self, name, path, lines, kernel=""):
        self.name, self.path, self.lines, self.kernel, self.below = name, path, lines, kernel, []

    def title(self):
        return self.lines[0].lstrip("# ")


def name_of(path):
    """What a Markdown file is called in the book."""
    path = path.relative_to(ROOT)
    return (path.with_name("index") if path.name == "README.md" else pathlib.Path(path.with_suffix("").as_posix().lstrip("."))).as_posix()


def cut(path):
    """The pages of a Markdown file: for a lesson what comes before its kernels, a page for each kernel, and what comes after."""
    lines = path.read_text("utf-8").split("\n")
    if not lines[0].startswith("# "):
        lines[:0] = [f"# {path.relative_to(ROOT).parent.as_posix()}", ""]
    whole = Page(name_of(path), path, lines)
    heads = [at for at, depth, _, _ in source.headings(lines) if depth == 2]
    kernels = {at: found[1] for at in heads if (found := re.fullmatch(r"## \d+ · (\w+)", lines[at])) and found[1] in facts.kernels()}
    if not kernels:
        return [whole]
    pages, last = [whole], max(kernels)
    after = next((at for at in heads if at > last), len(lines))
    cuts = [*kernels, *([after] if after < len(lines) else [])]
    whole.lines = lines[:cuts[0]]
    for begin, end in zip(cuts, [*cuts[1:], len(lines)]):
        folder = os.path.dirname(whole.name)
        some = lines[begin:end]
        for at, depth, *_ in source.headings(some):
            if at and depth == 2:
                break
            some[at] = some[at][1:]  # a kernel's section is a page now; what stands between it and the next is a section there
        if begin in kernels:
            page = Page(f"{folder}/{kernels[begin]}", path, some, kernels[begin])
        else:
            titles = [title for at, depth, title, _ in source.headings(lines) if depth == 2 and at >= begin]
            page = Page(f"{folder}/after", path, [f"# After the kernels: {', '.join(titles[:2]).lower()}, …", "", *lines[begin:end]])
        pages.append(page)
        whole.below.append(page)
    return pages


class Book:
    def __init__(self):
        tracked = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
        self.pages = [page for path in tracked for page in cut(ROOT / path)]
        self.by_name = {page.name: page for page in self.pages}
        self.where = {}  # (Markdown file, heading's name in links): the page that has it
        for page in self.pages:
            for _, _, _, name in source.headings(page.lines):
                self.where.setdefault((page.path, name), page)
            self.where.setdefault((page.path, ""), page)
        self.sources, self.pictures = set(), set()  # files that pages link to, and show

    def page_of(self, kernel):
        return next(page for page in self.pages if page.kernel == kernel)

    def link(self, page, target, anchor):
        """Where a link of a page leads in the book."""
        path = (page.path.parent / target).resolve() if target else page.path
        if path.is_dir():
            path = path / "README.md" if (path / "README.md").exists() else path
        here = (PAGES / page.name).parent
        if path.suffix == ".md":
            other = self.where.get((path, anchor[1:])) or self.where[path, ""]
            return f"{os.path.relpath(PAGES / other.name, here)}.md{anchor}" if other is not page or not anchor else anchor
        self.sources |= {path} - {p for p in [path] if path.suffix == ".svg"}
        self.pictures |= {path} if path.suffix == ".svg" else set()
        suffix = "" if path.suffix == ".svg" else "/index.md" if path.is_dir() else ".md"
        return os.path.relpath(PAGES / path.relative_to(ROOT), here) + suffix

    def text(self, page):
        """A page's Markdown with its links turned, and with a link behind each command that opens a moment."""
        up = os.path.relpath(PAGES, (PAGES / page.name).parent)

        def moment(found):
            *others, kernel = [f"{found[1]}_{name}" for name in found[2].strip('"').split()]
            parts = [f"at={urllib.parse.quote(found[3])}"] if found[3] else []
            address = f"{kernel}.html#{'&'.join(parts + [f'with={other}' for other in others])}".rstrip("#")
            return f'{found[0]} <a class="moment" data-run="{kernel}" href="{up}/show/{address}">open this moment</a>'

        parts = source.FENCE.split(COMMENT.sub("", "\n".join(page.lines)))
        fences = source.FENCE.findall(COMMENT.sub("", "\n".join(page.lines)))
        parts = [LINK.sub(lambda found: f"]({self.link(page, found[1], found[2] or '')})", source.MOMENT.sub(moment, part)) for part in parts]
        return "".join(itertools.chain.from_iterable(itertools.zip_longest(parts, fences, fillvalue="")))

    # ------------------------------------------------------------------------------------------------------------------
    # What a rung's page has besides

    def map_of(self, page):
        """The ladder of a rung, with the rung marked."""
        kernel = facts.kernels()[page.kernel]
        names = [name for name, each in facts.kernels().items() if (each["step"], each["ladder"]) == (kernel["step"], kernel["ladder"])]
        here = {page.kernel: ' aria-current="page"'}
        links = [f'<a href="{name}.html"{here.get(name, "")}>{name}</a>' for name in names]
        label = f"Step {kernel['step'][:2]}, {kernel['ladder']} ladder"
        return f'<nav class="ladder" aria-label="{label}"><span>{label}:</span> {" ".join(links)}</nav>\n'

    def more(self, page):
        kernel, rung = facts.kernels()[page.kernel], ladder.find(page.kernel)
        up, name = os.path.relpath(PAGES, (PAGES / page.name).parent), f"{kernel['step'][:2]}_{page.kernel}"
        beside = f" · [beside `{rung.before}`]({up}/show/{name}.html#with={facts.kernels()[rung.before]['step'][:2]}_{rung.before})" \
            if rung.before else ""
        parts = ["", "## Its run", "", f"One block of one run, every access watched. <a href=\"{up}/show/{name}.html\">Open it alone</a>"
                 + re.sub(r"\[(.*)\]\((.*)\)", r'<a href="\2">\1</a>', beside).replace("`", ""), "",
                 f'<iframe class="run" id="run-{name}" loading="lazy" title="The run of {page.kernel}" src="{up}/show/{name}.html"></iframe>', ""]
        plot = plots.picture_of_rung(page.kernel)
        if plot:
            write(PAGES / f"docs/pictures/measured/{name}.svg", plot.svg())
            parts += ["## Where it stands", "", f"![{plot.says}]({up}/docs/pictures/measured/{name}.svg)", ""]
        if rung.before:
            parts += ["## What it changes, side by side", "", side_by_side(rung), ""]
        return "\n".join(parts)

    # ------------------------------------------------------------------------------------------------------------------

    def contents(self, caption, names, depth=2):
        return "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", f":maxdepth: {depth}", "", *names, "```", ""])

    def write(self):
        steps = [each["step"] for each in facts.steps()]
        for page in self.pages:
            text = self.text(page)
            folder = os.path.dirname(page.name)
            if page.kernel:
                head, _, rest = text.partition("\n")
                text = f"{head}\n\n{self.map_of(page)}\n{rest}\n{self.more(page)}"
            if page.below:
                text += "\n" + self.contents("Kernels", [os.path.basename(other.name) for other in page.below])
            if folder in steps and page.name.endswith("/index"):
                ladders = [other.name for other in self.pages if re.fullmatch(rf"{folder}/\w+/index", other.name)]
                text += self.contents("Ladders", [os.path.relpath(name, folder) for name in ladders])
            if page.name == "index":
                read_on = [name_of(ROOT / path) for path in READ_ON]
                placed = {*read_on, "index", *(each.name for each in self.pages if each.name.split("/")[0] in steps)}
                rest = [each.name for each in self.pages if each.name not in placed]
                text += self.contents("The six steps", [f"{step}/index" for step in steps]) + \
                    self.contents("Read on", read_on) + self.contents("Behind it", [*rest, "licences"])
            write(PAGES / f"{page.name}.md", text)
        for path in sorted(self.sources):
            self.write_source(path)
        for path in self.pictures:
            write(PAGES / path.relative_to(ROOT), path.read_text("utf-8"))

    def write_source(self, path):
        name = path.relative_to(ROOT).as_posix()
        if path.is_dir():
            listed = sorted(each.name for each in path.iterdir() if not each.name.startswith((".", "_")))
            write(PAGES / name / "index.md", f"---\norphan: true\n---\n# {name}\n\n" + "\n".join(f"- `{each}`" for each in listed) + "\n")
            return
        text = path.read_text("utf-8")
        fence = "`" * max(3, *(len(found) + 1 for found in re.findall("`+", text)), 3)
        # Colours and numbers take three times the text's bytes. What learners read and run has them; tests and data do not.
        language = LANGUAGE.get(path.suffix) if not name.startswith("tests/") else None
        write(PAGES / f"{name}.md", f"---\norphan: true\n---\n# {path.name}\n\n`{name}`\n\n{fence}{{code-block}} "
              + (f"{language}\n:linenos:\n" if language else "text\n") + f"\n{text}\n{fence}\n")


def write(path, text):
    """Writes a file where it changes, so that Sphinx does not read it again where it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    if not path.exists() or path.read_bytes() != data:
        outfile.write(path, data)
    WRITTEN.add(path)


WRITTEN = set()


def side_by_side(rung):
    """The diff as a table: the rung before at the left, this one at the right."""
    rows, old, new = [], [], []

    def flush():
        for left, right in itertools.zip_longest(old, new):
            rows.append((left, right))
        old.clear()
        new.clear()

    change = ladder.Change(rung)
    for line in ladder.diff_lines(change):
        if line.startswith("-"):
            old.append(("del", line[1:]))
        elif line.startswith("+"):
            new.append(("add", line[1:]))
        else:
            flush()
            if line.startswith("@@"):
                rows.append(line.strip("@ "))
            else:
                rows.append((("was", line[1:]), ("is", line[1:])))
    flush()

    def cell(side):
        if side is None:
            return '<td class="none"></td>'
        kind, text = side
        return f'<td class="{kind}"><pre>{html.escape(text).replace(chr(10), "") or "&#8203;"}</pre></td>'
    body = "".join(f'<tr><th colspan="2" scope="colgroup">{html.escape(row)}</th></tr>' if isinstance(row, str) else
                   f"<tr>{cell(row[0])}{cell(row[1])}</tr>" for row in rows)
    return (f'<div class="diff" tabindex="0" role="region" aria-label="diff"><table><thead><tr><th scope="col">{change.before.name}</th>'
            f'<th scope="col">{rung.name}: {change.count("+")} lines added, {change.count("-")} removed</th></tr></thead>'
            f"<tbody>{body}</tbody></table></div>")


# ----------------------------------------------------------------------------------------------------------------------
# Runs, licences


def fingerprint(step):
    """What a step's runs depend on: its program, and what packs a trace."""
    found = hashlib.sha256()
    for path in (ROOT / "build/check" / step, pathlib.Path(show.__file__), pathlib.Path(show.traces.__file__)):
        found.update(path.read_bytes())
    return found.hexdigest()


def run_of(kernel):
    """Writes the data of a kernel's page, unless that is there."""
    row = facts.kernels()[kernel]
    name = f"{row['step'][:2]}_{kernel}"
    data, made_of = OUT / f"runs/{name}.js", OUT / f"runs/{name}.of"
    mark = fingerprint(row["step"]) + row["shown_sizes"]
    if not data.exists() or not made_of.exists() or made_of.read_text() != mark:
        title, payload = show.of_kernel(row["step"], kernel)
        outfile.write(data, show.data_script(payload))
        outfile.write(made_of, mark)
        outfile.write(data.with_suffix(".title"), title)
    return name


def runs():
    (OUT / "runs").mkdir(parents=True, exist_ok=True)
    folder = SITE / "show"
    with concurrent.futures.ProcessPoolExecutor(len(os.sched_getaffinity(0))) as workers:
        names = list(workers.map(run_of, facts.kernels()))
    for name, text in show.shared_parts().items():
        write(folder / name, text)
    for name in names:
        write(folder / f"{name}.js", (OUT / f"runs/{name}.js").read_bytes())
        write(folder / f"{name}.html", show.page_of_parts((OUT / f"runs/{name}.title").read_text(), f"{name}.js"))


# Whose the files are that Sphinx puts beside the pages.
ASSETS = {"_static/(styles|scripts)/furo.*|_static/(debug.css|skeleton.css)": "furo",
          "_static/pygments.css|_static/(a11y|.*pygments).*": "Pygments",
          "_static/(basic.css|doctools.js|searchtools.js|sphinx_highlight.js|documentation_options.js|file.png|minus.png|plus.png)|searchindex.js|objects.inv":
              "Sphinx",
          "_static/(language_data.js|.*stemmer.*)": "snowballstemmer",
          "_static/book.*|show/.*|_images/.*|_downloads/.*|.*\\.html": ""}


def licences():
    """The page that names each asset's licence, of the distributions that are installed."""
    rows = ["| files | from | licence |", "| --- | --- | --- |"]
    for pattern, name in ASSETS.items():
        files = "pages, pictures, runs and their scripts" if not name else f"`{pattern}`".replace("|", "\\|")
        if name:
            about = importlib.metadata.metadata(name)
            said = about.get("License-Expression") or about.get("License") or \
                next(each.split(" :: ")[-1] for each in about.get_all("Classifier") if each.startswith("License"))
            rows.append(f"| {files} | {name} {about['Version']} | {said.splitlines()[0]} |")
        else:
            rows.append(f"| {files} | this project | MIT |")
    rows.append("| formulas (MathML in the pages) | latex2mathml writes them, nothing of it is in the book | – |")
    project = (ROOT / "LICENSE").read_text()
    write(PAGES / "licences.md", "# Licences\n\nNothing here is fetched from elsewhere when a page is opened. Fonts are the reader's own.\n\n"
          + "\n".join(rows) + f"\n\n## This project\n\n```text\n{project}\n```\n")


def checked():
    """The book must be small, and each of its files must be somebody's."""
    files = [path for path in SITE.rglob("*") if path.is_file() and not path.name.startswith(".buildinfo")]
    total = sum(path.stat().st_size for path in files)
    if total > LONGEST:
        raise outfile.Refused(f"the book has {total:,} bytes, more than {LONGEST:,}")
    nobodys = [name for name in (path.relative_to(SITE).as_posix() for path in files) if not any(re.fullmatch(each, name) for each in ASSETS)]
    if nobodys:
        raise outfile.Refused(f"licences.html does not say whose these are: {' '.join(nobodys)}")
    return len(files), total


def main(arguments):
    if arguments:
        raise outfile.Refused(__doc__)
    mark, made_by = HERE.joinpath("conf.py").read_text(), OUT / "conf.py"
    if not made_by.exists() or made_by.read_text() != mark:  # Sphinx does not see what its functions would write otherwise
        for folder in (SITE, OUT / "doctrees"):
            shutil.rmtree(folder, ignore_errors=True)
        write(made_by, mark)
    book = Book()
    book.write()
    licences()
    for old in set(PAGES.rglob("*.md")) - WRITTEN:
        old.unlink()
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "auto", "-c", HERE, "-d", OUT / "doctrees", PAGES, SITE]
    done = subprocess.run(command, check=False, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    if done.returncode:
        raise outfile.Refused("Sphinx complains")
    runs()
    count, total = checked()
    print(f"build/book/html/index.html: {count} files, {total / (1 << 20):.1f} MB")
    return 0


if __name__ == "__main__":
    outfile.told(main)
