#!/usr/bin/env python3
"""Keeps what lessons quote in step with the kernels: tables, diffs and excerpts.

    docs/make/lessons.py --write PAGE ...    writes them
    docs/make/lessons.py --check PAGE ...    fails when one is not what the kernels are or do

PAGE is a step's folder, for its README.md, or another page. They stand between <!-- NAME:begin --> and <!-- NAME:end -->,
where NAME is

    counts              the step's kernels: predicted by the table's formulas, counted by the checked run, measured
    rung:KERNEL         one kernel beside the one before it
    diff:KERNEL         what it changes in the one before it, comments included; the command that shows it when long
    code:FILE:NAME      the function NAME of a source of the step, or of one named from common/ or from the top
    code:FILE:FIRST ... LAST    from the one line that holds the text FIRST to the next that holds LAST
    code:FILE:FIRST ...         the statement that begins in that line, to its closing brace if it opens one

The end of any may be written <!-- code:end --> and so on. What kernels count is the same on every machine. Python's standard
library suffices.
"""
import argparse
import csv
import functools
import os
import pathlib
import re
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "common/tools"))
import facts  # noqa: E402
import ladder  # noqa: E402
from source import of_steps, without_comments

ROOT = ladder.ROOT
RESULTS = ROOT / "docs" / "results"
WHOLE_STEP = ("counts", "bench", "ncu")  # a lesson has one of each; common/tools/bench fills the last two
LONGEST = 25  # lines of a diff that a page holds; of a longer one it has the command


class Stale(Exception):
    """A marker that cannot be filled."""


# ---------------------------------------------------------------------------------------------------------------------
# Diffs and excerpts


def plural(number, noun):
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def diff(page, name):
    rung = ladder.find(name)
    change = ladder.Change(rung)
    if not change.before:
        raise Stale(f"{name} is the first rung; there is nothing to compare it with")
    before = change.before
    link = os.path.relpath(before.path, page.parent)
    counted = f"{plural(change.count('+'), 'line')} of code added, {change.count('-')} removed"
    lines, text = ladder.diff_lines(change), f"From [{before.path.name}]({link}): {counted}"
    if len(lines) > LONGEST:
        return f"{text}: `make diff KERNEL={rung.name}`."
    return f"{text}.\n\n```diff\n" + "\n".join(lines) + "\n```"


def statement_end(source, begin):
    """Where the statement ends that begins here: after its closing brace if it opens one, else after its semicolon."""
    depth = 0
    for at in range(begin, len(source)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(source[at], 0)
        if depth == 0 and source[at] in ";}":
            return at
    raise Stale("the statement does not end")


def excerpt(page, name):
    file, colon, what = name.partition(":")
    path = next((p for p in (*of_steps(file, page.parent.name), ROOT / "common" / file, ROOT / file) if colon and p.is_file()), None)
    if not path:
        raise Stale(f"there is no {file} in the step of this page, in common/, or from the top")
    source = path.read_text("utf-8")
    lines, blanked = source.split("\n"), without_comments(source)
    first, dots, last = (part.strip() for part in what.partition("..."))
    if dots:
        found = [at for at, line in enumerate(lines) if first in line]
        if len(found) != 1:
            raise Stale(f"'{first}' is in {len(found)} lines of {file}, not in one")
        begin = found[0]
    else:
        definition = re.compile(rf"^(?:template[^\n]*\n)?\w[^;{{}}#]*\b{re.escape(first)}\([^;{{}}]*\)\s*{{", re.MULTILINE)
        found = list(definition.finditer(blanked))
        if len(found) != 1:
            raise Stale(f"{file} defines {len(found)} functions {first}, not one")
        begin = blanked.count("\n", 0, found[0].start())
    if last:
        end = next((at for at in range(begin, len(lines)) if last in lines[at]), None)
        if end is None:
            raise Stale(f"no line of {file} after '{first}' holds '{last}'")
    else:
        start = sum(len(line) + 1 for line in lines[:begin])
        end = source.count("\n", 0, statement_end(blanked, start))
    return "```cuda\n" + textwrap.dedent("\n".join(lines[begin:end + 1])) + "\n```"


# ---------------------------------------------------------------------------------------------------------------------
# Tables


def ratio(amount, whole):
    """How often `whole` goes into `amount`; None where there is no saying."""
    return amount / whole if whole and amount is not None else None


def cell(value):
    """As the terminal has it: a count with separators of thousands, a ratio with three digits, a dash for the unknown."""
    if value is None:
        return "–"
    if isinstance(value, int) or value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.{1 if value >= 9.995 else 2 if value >= 0.9995 else 3 if value >= 0.09995 else 4}f}"


def marked(predicted, counted):
    """What was counted, marked where the formula says another number."""
    return ("≠ " if None not in (predicted, counted) and predicted != counted else "") + cell(counted)


def counts_of(row, polls):
    """What is counted of a kernel, by its names in the terminal too (common/harness/report.c); {} for one that was not run."""
    if "global_loads" not in row:
        return {}
    return {
        "loads": row["global_loads"],
        "stores": row["global_stores"],
        "bytes": row["global_load_bytes"] + row["global_store_bytes"],
        "sectors per load request": ratio(row["global_load_sectors"], row["global_load_requests"]),
        "shared wavefronts": row["shared_wavefronts"],
        "× ideal": ratio(row["shared_wavefronts"], row["shared_wavefronts_ideal"]),
        "barriers": row["barriers"],
        "atomics": None if polls else row["atomics"],
    }


def size_arguments(step):
    """The command line that gives another step the sizes which this one has unless told otherwise."""
    return [f"--{size['name']}" if size["flag"] else f"--{size['name']}={size['value']}"
            for size in ladder.program(step, "--list")["sizes"] if not size["flag"] or size["value"]]


class Numbers:
    """What is known of a rung at the default sizes of a step."""

    def __init__(self, rung, step):
        sizes = [] if rung.step == step else size_arguments(step)
        self.name = rung.name
        formulas = self._row(rung, "--list", *sizes)
        self.predicted = {"loads": formulas["global_loads"], "stores": formulas["global_stores"],
                          "bytes": formulas["bytes_read"] + formulas["bytes_written"]}
        self.counted = counts_of(self._row(rung, *sizes, *([f"--kernel={rung.name}"] if sizes else [])), formulas["polls"])
        self.milliseconds = {shape: (float(row["ms"]), float(row["flops"]), float(row["bytes"]))
                             for (shape, kernel), row in measurements(rung.step).items() if kernel == rung.name}

    @staticmethod
    def _row(rung, *arguments):
        return next(row for row in ladder.program(rung.step, *arguments)["kernels"] if row["name"] == rung.name)

    def measured(self, shape):
        """Milliseconds; None where it was not measured."""
        return self.milliseconds[shape][0] if shape in self.milliseconds else None

    def rate(self, shape):
        """GB/s where the problem is little arithmetic for its bytes, else TFLOP/s; and which of the two."""
        if shape not in self.milliseconds:
            return None, ""
        ms, flops, moved = self.milliseconds[shape]
        return (flops / ms / 1e9, "TFLOP/s") if flops > 10 * moved else (moved / ms / 1e6, "GB/s")


@functools.lru_cache(maxsize=None)
def results(name):
    """The comments, by what they begin with, and the rows of a file of docs/results; none where there is none."""
    path = RESULTS / name
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    comments = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    return comments, list(csv.DictReader(line for line in lines if not line.startswith("#")))


def measurements(step):
    """The rows of ladder.csv, in which `make bench-ladder` puts one table behind the other, of the step's rungs by
    (shape, kernel), each with a cold L2 cache."""
    return {(row["shape"], row["kernel"]): row for row in results("ladder.csv")[1]
            if row["step"] == step and row["role"] == "rung" and row["protocol"] == "cold"}


def device():
    """The name of the device that all were measured on."""
    return results("ladder.csv")[0]["device"].split(",")[0]


def shape_of(numbers):
    """The shape at which most of these were measured, of several the one with the most arithmetic; None for none."""
    shapes = {shape: row[1] for rung in numbers for shape, row in rung.milliseconds.items()}
    return max(shapes, key=lambda shape: (sum(shape in rung.milliseconds for rung in numbers), shapes[shape]), default=None)


def measured_at(page, shape):
    link = os.path.relpath(RESULTS / "ladder.csv", page.parent)
    return f"measured on an {device()} at {shape} ([ladder.csv]({link}))"


def paragraph(text):
    return textwrap.fill(text, 110, break_long_words=False, break_on_hyphens=False)


def table(header, rows):
    """Markdown: a column of names, then numbers."""
    return "\n".join("| " + " | ".join(line) + " |"
                     for line in [header, ["---"] + ["---:"] * (len(header) - 1), *rows])


def counts(page):
    step = page.parent.name
    rungs = ladder.rungs(step)
    numbers = [Numbers(rung, step) for rung in rungs]
    named = {rung.name: rung for rung in numbers}
    before = [named.get(rung.before) for rung in rungs]
    report, shape = ladder.program(step), shape_of(numbers)
    columns = []  # (title, a cell for each rung)

    def times(value):
        return [cell(ratio(value(last), value(rung)) if last else None) for last, rung in zip(before, numbers)]

    for name in ("loads", "stores", "bytes"):
        counted = (f"counted {name}", [marked(rung.predicted[name], rung.counted.get(name)) for rung in numbers])
        columns += [counted] if name == "stores" else [
            (f"predicted {name}", [cell(rung.predicted[name]) for rung in numbers]), counted,
            ("× fewer", times(lambda rung, name=name: rung.counted.get(name)))]
    columns += [(name, [cell(rung.counted.get(name)) for rung in numbers]) for name in
                ("sectors per load request", "shared wavefronts", "× ideal", "barriers", "atomics")]
    columns.append(("FLOP per byte", [cell(ratio(report["flops"], rung.counted.get("bytes"))) for rung in numbers]))
    if shape:
        unit = next(rung.rate(shape)[1] for rung in numbers if shape in rung.milliseconds)
        columns += [("measured ms", [cell(rung.measured(shape)) for rung in numbers]),
                    (unit, [cell(rung.rate(shape)[0]) for rung in numbers]),
                    ("× faster", times(lambda rung: rung.measured(shape)))]
    # What no kernel of this step has says nothing.
    columns = [column for column in columns if any(text not in ("–", "0", "1.00") for text in column[1])]
    sizes = ", ".join(f"{name} = {value}" for name, value in report["sizes"].items())
    text = (f"Loads, stores and bytes of global memory: predicted by the table's formulas, counted by `make run-{step[:2]}` on a CPU at"
            f" {sizes} ({report['flops']:,.0f} FLOP, {report['compulsory_bytes']:,.0f} compulsory bytes)")
    text += f"; {measured_at(page, shape)}." if shape else "."
    return (paragraph(text) + "\n\n"
            + table(["kernel", *(title for title, _ in columns)],
                    [[f"`{rung.name}`", *(texts[at] for _, texts in columns)] for at, rung in enumerate(numbers)]))


def rung_table(page, name):
    rung = ladder.find(name)
    before = ladder.predecessor(rung)
    now, last = Numbers(rung, rung.step), Numbers(before, rung.step) if before else None
    pays_at = facts.kernels()[name]["timed_at"]
    shape = pays_at if now.measured(pays_at) else shape_of([now, *([last] if last else [])])
    rows = [[name, cell(now.predicted.get(name)), marked(now.predicted.get(name), now.counted[name])]
            + ([cell(last.counted[name]), cell(ratio(last.counted[name], now.counted[name]))] if last else [])
            for name in now.counted if now.counted[name] or last and last.counted[name]]
    if now.measured(shape):
        ms = last.measured(shape) if last else None
        rows.append([f"measured ms, on an {device()} at {shape}", "–", cell(now.measured(shape))]
                    + ([cell(ms), f"{cell(ratio(ms, now.measured(shape)))} × faster" if ms else "–"] if last else []))
    header = [f"`{rung.name}`", "predicted", "counted", *([f"`{before.name}`", "× fewer"] if before else [])]
    return table(header, rows)


# ---------------------------------------------------------------------------------------------------------------------
# Markers

MARKER = re.compile(r"<!-- (?P<name>(?P<kind>\w+)(?::(?P<argument>[^\n]*?))?):begin -->\n"
                    r"(?P<body>.*?)(?P<end><!-- (?:(?P=name)|(?P=kind)):end -->)", re.DOTALL)


def fill(page, generators, write, remedy="`make lessons` writes what the kernels say"):
    """Puts what generators[KIND](page, argument) returns between the markers of a page, or, unless `write`, only compares.

    True when the page holds it all, or now does. In a step's lesson a table of the whole step, KIND alone, must be there.
    """
    text = page.read_text("utf-8")
    complaints, stale = [], []

    def body(marker):
        if marker["kind"] not in generators:
            return marker[0]
        try:
            new = generators[marker["kind"]](page, *([marker["argument"]] if marker["argument"] else []))
        except (Stale, LookupError) as error:
            complaints.append(f"<!-- {marker['name']}:begin -->: {error}")
            return marker[0]
        if marker["body"] != new + "\n":
            stale.append(marker["name"])
        return f"<!-- {marker['name']}:begin -->\n{new}\n{marker['end']}"

    updated = MARKER.sub(body, text)
    found = list(MARKER.finditer(text))
    kinds = {marker["kind"] for marker in found}
    if not len(found) == text.count(":begin -->") == text.count(":end -->"):
        complaints.append("a begin without its end, or an end without its begin")
    needed = {kind for kind in generators if kind in WHOLE_STEP} if page.name == "README.md" else set()
    complaints += [f"needs <!-- {kind}:begin --> and its end" for kind in sorted(needed - kinds)]
    complaints += [f"what is <!-- {kind}:begin -->?" for kind in sorted(kinds - {*WHOLE_STEP, *GENERATORS})]
    if stale and write:
        page.write_text(updated, "utf-8")
    elif stale:
        complaints.append(f"stale: {', '.join(stale)}; {remedy}")
    for complaint in complaints:
        print(f"{page.relative_to(ROOT)}: {complaint}", file=sys.stderr)
    return not complaints


GENERATORS = {"counts": counts, "rung": rung_table, "diff": diff, "code": excerpt}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true")
    mode.add_argument("--check", action="store_true")
    parser.add_argument("page", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    pages = [page.resolve() for page in arguments.page]
    whole = [fill(page / "README.md" if page.is_dir() else page, GENERATORS, arguments.write) for page in pages]
    return 0 if all(whole) else 1


if __name__ == "__main__":
    sys.exit(main())
