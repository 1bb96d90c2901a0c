#!/usr/bin/env python3
"""Keeps what lessons quote in step with the kernels: tables, diffs and excerpts.

    docs/make/lessons.py --write PAGE ...    writes them
    docs/make/lessons.py --check PAGE ...    fails when one is not what the kernels are or do

PAGE is a step's folder, for its lesson: README.md in it and in the folders of its ladders; or another page. They stand between
<!-- NAME:begin --> and <!-- NAME:end -->, where NAME is

    counts              the page's kernels: predicted by the table's formulas, counted by the checked run, measured. A ladder's
                        page has the ladder's, a step's README.md those that have no other page
    rung:KERNEL         what a kernel claims, and what it changes beside the one before it
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
import outfile  # noqa: E402
from source import lesson_of, of_steps, without_comments

ROOT = ladder.ROOT
RESULTS = ROOT / "docs" / "results"
WHOLE_PAGE = ("counts", "bench", "ncu")  # of a step's README.md each has one (ncu: it or a ladder's); common/tools/bench fills two
LONGEST = 25  # lines of a diff that a page holds; of a longer one it has the command


class Stale(Exception):
    """A marker that cannot be filled."""


def step_of(page):
    """The name of the folder of the step whose lesson a page is part of."""
    return page.relative_to(ROOT).parts[0]


def rungs_of(page):
    """The rungs that a page tells of, in reading order."""
    return [rung for rung in ladder.rungs(step_of(page)) if lesson_of(rung.path) == page]


def shown_on(page):
    """The names of the rungs in a page's measured tables. A core ladder's have the last one of each other ladder, too: they say
    where it leads."""
    ends = {rung.ladder: rung.name for rung in ladder.rungs(step_of(page))}
    names = [rung.name for rung in rungs_of(page)]
    return names + [name for name in ends.values() if name not in names] if page.parent.parent == ROOT else names


def pages_with(page, kind):
    """The pages of the same lesson, the step's README.md first, that have a table of this kind."""
    return [other for other in of_steps("README.md", step_of(page)) if f"<!-- {kind}:begin -->" in other.read_text("utf-8")]


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
    path = next((p for p in (*of_steps(file, step_of(page)), ROOT / "common" / file, ROOT / file) if colon and p.is_file()), None)
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


def compared(last, now, less="fewer", more="more"):
    """How `now` compares with what it was, in words; a dash where there is no saying.

    >>> [compared(3, 2), compared(1, 3.2, "faster", "slower"), compared(2, 2), compared(8, 0), compared(0, 1), compared(None, 1)]
    ['1.50 × fewer', '3.20 × slower', 'the same', 'none left', 'new', '–']
    """
    if last is None or now is None:
        return "–"
    if not last or not now:
        return "none left" if last else "new" if now else "the same"
    times, word = (last / now, less) if last >= now else (now / last, more)
    return "the same" if cell(times) == "1.00" else f"{cell(times)} × {word}"


COUNTERS = {"global_loads": "loads", "global_stores": "stores", "global_load_sectors": "sectors loaded",
            "global_store_sectors": "sectors stored", "wave_accesses": "accesses of each wave's busiest block",
            "copies_ahead": "copies with work before their wait", "loads_ahead": "loads with work before their use",
            "copies_in_flight": "copies that outlast a wait", "products_in_flight": "products that outlast a wait",
            "matrix_multiplies": "multiply-adds on tensor cores"}


RATIOS = ("sectors per load request", "× ideal")  # of what counts_of() tells these are no amounts


def title_of(counter):
    return COUNTERS.get(counter, counter.replace("_", " "))


# What depends on how long a kernel waits, where it polls.
POLLED = ("shared wavefronts", "× ideal", "atomics")


def counts_of(row, polls):
    """What is counted of a kernel, by its names in the terminal too (common/harness/report.c); {} for one that was not run."""
    if "global_loads" not in row:
        return {}
    counted = {
        "loads": row["global_loads"],
        "stores": row["global_stores"],
        "bytes": row["global_load_bytes"] + row["global_store_bytes"],
        "sectors per load request": ratio(row["global_load_sectors"], row["global_load_requests"]),
        "shared wavefronts": row["shared_wavefronts"],
        "× ideal": ratio(row["shared_wavefronts"], row["shared_wavefronts_ideal"]),
        "barriers": row["barriers"],
        "atomics": row["atomics"],
    }
    return {name: count for name, count in counted.items() if not (polls and name in POLLED)}


def size_arguments(step, other):
    """The command line that gives another step the sizes which this one has unless told otherwise, where they differ."""
    theirs = {size["name"]: size["value"] for size in ladder.program(other, "--list")["sizes"]}
    return [f"--{size['name']}" if size["flag"] else f"--{size['name']}={size['value']}"
            for size in ladder.program(step, "--list")["sizes"] if size["value"] != theirs.get(size["name"], 0)]


# The program's options for the numbers in the name of a benchmark's shape, from the first on.
OPTIONS = {"matmul": ("m n k",), "softmax": ("rows cols",),
           "attention": ("batch heads seq head-dim", "batch heads seq-q seq-kv head-dim", "seq head-dim")}


def options_of(step, shape):
    """The options of the step's program that ask for a shape of its benchmark."""
    problem = next(kernel["problem"] for kernel in facts.kernels().values() if kernel["step"] == step)
    numbers = re.findall(r"\d+", shape.removesuffix(" bf16"))
    names = next(names.split() for names in OPTIONS[problem] if len(names.split()) == len(numbers))
    if names == ["seq", "head-dim"]:  # the others are such that there are 16384 tokens and 2048 features in all
        names, numbers = [*names, "batch", "heads"], [*numbers, 16384 // int(numbers[0]), 2048 // int(numbers[1])]
    return [f"--{name}={number}" for name, number in zip(names, numbers)] + (["--causal"] if "causal" in shape else [])


def on_ladder(kernel, *arguments):
    """What the step's program says of the kernel's ladder."""
    row = facts.kernels()[kernel]
    return ladder.program(row["step"], f"--ladder={row['ladder']}", *arguments)


class Numbers:
    """What is known of a rung at the default sizes of a step, or at those that options ask for."""

    def __init__(self, rung, step, options=()):
        sizes = [*([] if rung.step == step else size_arguments(step, rung.step)), *options]
        self.name, self.step = rung.name, rung.step
        formulas = self._row("--list", *sizes)
        self.row = self._row(*sizes, *([f"--kernel={rung.name}"] if sizes else []))
        self.predicted = {"loads": formulas["global_loads"], "stores": formulas["global_stores"],
                          "bytes": formulas["bytes_read"] + formulas["bytes_written"]}
        self.counted = counts_of(self.row, formulas["polls"])
        self.row["workspace_bytes"] = formulas["workspace"]
        self.milliseconds = {shape: (float(row["ms"]), float(row["flops"]), float(row["bytes"]))
                             for (shape, kernel), row in measurements(rung.step).items() if kernel == rung.name}

    def _row(self, *arguments):
        return dict(next(row for row in on_ladder(self.name, *arguments)["kernels"] if row["name"] == self.name))

    def workspace(self, shape):
        """Bytes of workspace at the shape of a benchmark."""
        return self._row("--list", *options_of(self.step, shape))["workspace"]

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


def common_to(rungs, member):
    """What the rows of all these say of a member; "" where they disagree."""
    said = {facts.kernels()[rung.name][member] for rung in rungs}
    return said.pop() if len(said) == 1 else ""


def counts(page):
    step, rungs = step_of(page), rungs_of(page)
    if not rungs:
        raise Stale("no rung has this page")
    sizes = common_to(rungs, "shown_sizes").split()
    numbers = [Numbers(rung, step, sizes) for rung in rungs]
    before = [Numbers(ladder.find(rung.before), step, sizes) if rung.before else None for rung in rungs]
    report, shape = on_ladder(rungs[0].name, *sizes), common_to(rungs, "timed_at") or shape_of(numbers)
    columns = []  # (title, a cell for each rung)

    def change(value, *words):
        return [compared(value(last), value(rung), *words) if last else "–" for last, rung in zip(before, numbers)]

    for name in ("loads", "stores", "bytes"):
        counted = (f"counted {name}", [marked(rung.predicted[name], rung.counted.get(name)) for rung in numbers])
        columns += [counted] if name == "stores" else [
            (f"predicted {name}", [cell(rung.predicted[name]) for rung in numbers]), counted,
            ("change", change(lambda rung, name=name: rung.counted.get(name)))]
    columns += [(name, [cell(rung.counted.get(name)) for rung in numbers]) for name in
                ("sectors per load request", "shared wavefronts", "× ideal", "barriers", "atomics")]
    columns.append(("FLOP per byte", [cell(ratio(report["flops"], rung.counted.get("bytes"))) for rung in numbers]))
    if shape:
        unit = next(rung.rate(shape)[1] for rung in numbers if shape in rung.milliseconds)
        columns += [("measured ms", [cell(rung.measured(shape)) for rung in numbers]),
                    (unit, [cell(rung.rate(shape)[0]) for rung in numbers]),
                    ("speed", change(lambda rung: rung.measured(shape), "faster", "slower"))]
        if any(rung.workspace(shape) for rung in [*filter(None, before), *numbers]):
            columns.append(("workspace bytes", [cell(rung.workspace(shape)) for rung in numbers]))
    # What no kernel of this page has says nothing, but that none needs a workspace any more.
    columns = [column for column in columns if "workspace" in column[0] or
               any(text not in ("–", "0", "1.00", "the same") for text in column[1])]
    said = ", ".join(f"{name} = {value}" for name, value in report["sizes"].items())
    text = (f"Loads, stores and bytes of global memory: predicted by the table's formulas, counted by "
            f"`{' '.join([f'build/check/{step}', *sizes]) if sizes else f'make run-{step[:2]}'}` on a CPU at"
            f" {said} ({report['flops']:,.0f} FLOP, {report['compulsory_bytes']:,.0f} compulsory bytes)")
    text += f"; {measured_at(page, shape)}" if shape else ""
    text += ", of which the last column gives the workspace" if columns[-1][0] == "workspace bytes" else ""
    text += ". Changes are against the rung that a kernel follows." if any(before) else "."
    return (paragraph(text) + "\n\n"
            + table(["kernel", *(title for title, _ in columns)],
                    [[f"`{rung.name}`", *(texts[at] for _, texts in columns)] for at, rung in enumerate(numbers)]))


def claims_of(name):
    """[(options, {counter: "≤ 8", ...}), ...]: what a row claims, as common/harness/claims.h says it.

    >>> all(claims_of(name) for name, kernel in facts.kernels().items() if kernel["claims"])
    True
    """
    groups = []
    for group in filter(str.strip, facts.kernels()[name]["claims"].split(";")):
        options, _, bounds = group.partition(":")
        claims = {}
        for bound in bounds.split(","):
            counter, sign, number = re.fullmatch(r"\s*(\w+) ([<>])= (\d+)\s*", bound).groups()
            claims.setdefault(counter, []).append(f"{dict(zip('<>', '≤≥'))[sign]} {int(number):,}")
        groups.append((options.split(), {counter: ", ".join(said) for counter, said in claims.items()}))
    return groups


def taken_by(rung, options):
    """The options without those of attention's variants where the rung does not take them."""
    if facts.kernels()[rung.name].get("variants", True):
        return options
    text = re.sub(r"--(?:window|soft-cap) \d+|--(?:alibi|lengths)\b", "", " ".join(options))
    return text.split()


def rung_table(page, name):
    """What a rung changes, at the sizes of its claim: bounded, predicted by a formula, counted, measured. What it changes by little
    is not shown, even where it claims that."""
    rung = ladder.find(name)
    before = ladder.predecessor(rung)
    groups = claims_of(name) or [(facts.kernels()[name]["shown_sizes"].split(), {})]
    rows, predicted = [], False

    def changed(title, now, last):
        little = 1.5 if title in RATIOS else 1.05
        return None not in (now, last) and (not 1 / little < last / now < little if now and last else now != last)

    def row(title, claim, formula, now, last):
        words = ("lower", "higher") if title in RATIOS else ()
        beside = [cell(last), compared(last, now, *words)] if before else []
        rows.append([title, claim, cell(formula), marked(formula, now), *beside])
        return formula is not None

    for options, claims in groups:
        at = f", at `{' '.join(options)}`" if options is not groups[0][0] else ""
        now, last = Numbers(rung, rung.step, options), Numbers(before, rung.step, taken_by(before, options)) if before else None
        for counter, claim in claims.items():
            title, value, was = title_of(counter), now.row.get(counter), last.row.get(counter) if last else None
            if not before or changed(title, value, was):
                predicted |= row(title + at, claim, now.predicted.get(title), value, was)
        told = {title_of(counter) for _, each in groups for counter in each}
        for title, value in now.counted.items() if not at else ():
            was = last.counted.get(title) if last else None
            if title not in told and (changed(title, value, was) or title in now.predicted and not before):
                predicted |= row(title, "–", now.predicted.get(title), value, was)
    now, last = Numbers(rung, rung.step), Numbers(before, rung.step) if before else None
    pays_at = facts.kernels()[name]["timed_at"]
    shape = pays_at if now.measured(pays_at) else shape_of([now, *([last] if last else [])])
    if now.measured(shape):
        ms = last.measured(shape) if last else None
        rows.append([f"measured ms, {device()}, {shape}", "–", "–", cell(now.measured(shape))]
                    + ([cell(ms), compared(ms, now.measured(shape), "faster", "slower")] if last else []))
        bytes_now, bytes_before = now.workspace(shape), last.workspace(shape) if last else 0
        if (bytes_now or bytes_before) and bytes_now != bytes_before:
            rows.append([f"bytes of workspace, {shape}", "–", "–", cell(bytes_now)]
                        + ([cell(bytes_before), compared(bytes_before, bytes_now)] if last else []))
    sizes = " ".join(groups[0][0])
    header = [f"`{rung.name}`" + (f" at `{sizes}`" if sizes else ""), "claimed", "predicted", "counted",
              *([f"`{before.name}`", "change"] if before else [])]
    shown = [at for at in range(len(header)) if at not in (1, 2) or at == 1 and claims_of(name) or at == 2 and predicted]
    return table([header[at] for at in shown], [[each[at] for at in shown] for each in rows])


# ---------------------------------------------------------------------------------------------------------------------
# Markers

MARKER = re.compile(r"<!-- (?P<name>(?P<kind>\w+)(?::(?P<argument>[^\n]*?))?):begin -->\n"
                    r"(?P<body>.*?)(?P<end><!-- (?:(?P=name)|(?P=kind)):end -->)", re.DOTALL)


def fill(page, generators, write, remedy="`make lessons` writes what the kernels say"):
    """Puts what generators[KIND](page, argument) returns between the markers of a page, or, unless `write`, only compares.

    True when the page holds it all, or now does. In a step's README.md each table of a whole page, KIND alone, must be there.
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
    core = page.name == "README.md" and page.parent.parent == ROOT
    needed = {kind for kind in generators if core and kind in WHOLE_PAGE and not (kind == "ncu" and pages_with(page, kind))}
    complaints += [f"needs <!-- {kind}:begin --> and its end" for kind in sorted(needed - kinds)]
    complaints += [f"what is <!-- {kind}:begin -->?" for kind in sorted(kinds - {*WHOLE_PAGE, *GENERATORS})]
    if stale and write:
        outfile.write(page, updated)
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
    pages = [part for page in pages for part in (of_steps("README.md", page.name) if page.is_dir() else [page])]
    whole = [fill(page, GENERATORS, arguments.write) for page in pages]
    return 0 if all(whole) else 1


if __name__ == "__main__":
    sys.exit(main())
