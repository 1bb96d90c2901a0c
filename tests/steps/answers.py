#!/usr/bin/env python3
"""Proves the folded answers of the steps' lessons: their counts, their arithmetic, and what happens to a kernel that they change.

    tests/steps/answers.py STEP ...

Each answer, <details><summary>Answer</summary> ... </details>, ends in a comment <!-- answer ... -->, which no page
shows. Its lines say how the answer is proved:

    TEXT == EXPRESSION ...  TEXT stands in the answer; its last number (or word, up to twelve) is what each EXPRESSION
                            comes to, in all its digits, or within 5 % where TEXT says about, nearly or ≈. Expressions
                            are arithmetic; KERNEL.COUNTER is what the step's checked program prints as JSON, and there
                            is KERNEL.flops (async_ for async)
    at OPTIONS              the program's, for the lines below; with --list it runs nothing, the formulas say the counts
    edit FILE: OLD => NEW   in a copy, for the lines below. OLD's tokens are there once; FILE for KERNEL: a header
    passes KERNEL           with these options, in every order of threads
    fails DETECTOR: KERNEL  this detector of common/tools/broken catches it
    fault DETECTOR: NAME    this one of common/tools/broken is what the answer speaks of; this detector must see it
    test SUITE/NAME         a test of the step does
    explained               nothing in the answer can be run or computed
    unproved WHAT           this could be run, but is not here

Python's standard library suffices, and for an edit what the CPU backend needs.
"""
import ast
import collections
import json
import math
import pathlib
import re
import subprocess
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "common/tools"), str(ROOT / "common/tools/broken")]
import facts  # noqa: E402
import ladder  # noqa: E402
from source import of_steps  # noqa: E402
import broken  # noqa: E402  (its path is set above)

FOLD = re.compile(r"<details><summary>Answers?</summary>\n(?P<text>.*?)</details>", re.DOTALL)
COMMENT = re.compile(r"<!-- answer\n(?P<lines>.*?)-->\s*$", re.DOTALL)
WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
NUMBER = re.compile(r"[−-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.(?P<decimals>\d+))?(?:e(?P<exponent>-?\d+))?"
                    rf"|\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
ARITHMETIC = (ast.Expression, ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop, ast.Constant, ast.Name, ast.Attribute,
              ast.Call, ast.Load)
FUNCTIONS = {"__builtins__": {}, "ceil": math.ceil, "floor": math.floor, "log": math.log, "exp": math.exp}


class Wrong(Exception):
    """An answer disagrees with the kernels, or one of its lines proves nothing."""


class Kernels(dict):
    """Holds what the step's program says of its kernels. It runs each of them when it is first asked for."""

    def __init__(self, step, options=(), edited=None):
        super().__init__()
        self.step, self.options, self.edited = step, options, edited

    def program(self):
        return self.edited or ladder.ROOT / "build/check" / self.step

    def __missing__(self, name):
        if name in FUNCTIONS:
            raise KeyError(name)
        kernel = name.rstrip("_")
        choice = [] if "--list" in self.options else [f"--kernel={kernel}"]
        command = [self.program(), "--json", *self.options, *choice]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if result.returncode not in (0, 1):  # 1: a kernel is wrong
            raise Wrong(f"{' '.join(map(str, command))}: {result.stderr.strip()}")
        report = json.loads(result.stdout)
        row = next((row for row in report["kernels"] if row["name"] == kernel), None)
        if not row or "global_loads" not in row:
            raise Wrong(f"{kernel} is not counted: {row['reason'] if row else 'there is no such kernel'}")
        self[name] = types.SimpleNamespace(flops=report.get("flops"), **row)
        return self[name]


def value(expression, kernels):
    tree = ast.parse(expression, mode="eval")
    for node in ast.walk(tree):
        if not isinstance(node, ARITHMETIC):
            raise Wrong(f"{expression}: {type(node).__name__} is no arithmetic")
    return eval(compile(tree, expression, "eval"), FUNCTIONS, kernels)  # the walk above allows only arithmetic


def compare(text, expressions, answer, kernels):
    """Compares the number at the end of `text`, which must stand in the answer, with each expression."""
    if not re.search(rf"(?<![\d.,]){re.escape(text)}(?![.,]?\d)", answer):
        raise Wrong(f"'{text}' is not in the answer")
    found = list(NUMBER.finditer(text))
    if not found:
        raise Wrong(f"'{text}' has no number")
    number = found[-1]
    word = number[0].lower()
    said = WORDS.index(word) if word in WORDS else float(number[0].replace(",", "").replace("−", "-"))
    allowed = 0.5 * 10.0 ** (int(number["exponent"] or 0) - len(number["decimals"] or "")) * (1 + 1e-9)
    if re.search(r"\b(about|nearly)\b|≈", text):
        allowed = 0.05 * abs(said)
    for expression in expressions:
        computed = value(expression, kernels)
        if not abs(computed - said) <= allowed:  # a NaN is not allowed either
            raise Wrong(f"'{text}': {expression} is {computed:,}")


def edit(step, line, edits, number):
    """Builds a copy of the step's checked program with this change, on top of earlier changes to the same file."""
    match = re.fullmatch(r"(?P<file>[\w./]+)(?: for (?P<kernel>\w+))?: (?P<old>.+) => (?P<new>.*)", line)
    if not match:
        raise Wrong(f"edit {line}: not FILE: OLD => NEW")
    file = f"{step}/{match['file']}"
    edits.setdefault(file, []).append((file, match["old"], match["new"]))
    compiled = facts.source(match["kernel"]).relative_to(ladder.ROOT) if match["kernel"] else file
    fault = broken.Fault(f"answer-{step}-{number}", file, str(compiled), edits[file])
    broken.copy_sources(fault)
    return broken.build(fault, "check")


def prove(step, fold, number):
    """Has a method for each way of proving an answer."""
    comment = COMMENT.search(fold["text"])
    if not comment:
        raise Wrong("does not end in <!-- answer ... -->")
    answer, ways, edits = " ".join(fold["text"][:comment.start()].split()), set(), {}
    kernels = Kernels(step)
    for line in filter(None, map(str.strip, comment["lines"].split("\n"))):
        what, _, rest = line.partition(" ")
        if what == "at":
            kernels = Kernels(step, tuple(rest.split()), kernels.edited)
        elif what == "edit":
            kernels = Kernels(step, kernels.options, edit(step, rest, edits, number))
            ways.add("edit")
        elif what in ("passes", "fails"):
            detector, _, kernel = rest.rpartition(": ")
            found = broken.judge(kernels.program(), kernel, " ".join(kernels.options))
            if detector not in found if detector else found:
                raise Wrong(f"{line}: {found or 'it passes'}")
        elif what == "fault":
            detector, _, names = rest.partition(": ")
            for fault in broken.read_faults(names.split()):
                if (fault.detector, fault.step) != (detector, step):
                    raise Wrong(f"{fault.name} is caught by {fault.detector}, of step {fault.step}")
            ways.add("fault")
        elif what == "test":
            suite, _, name = rest.partition("/")
            if f"TEST({suite}, {name})" not in (ladder.ROOT / "tests/steps" / f"test_{step[:2]}.c").read_text("utf-8"):
                raise Wrong(f"there is no test {rest}")
            ways.add("test")
        elif what in ("explained", "unproved"):
            ways.add(what)
        else:
            text, *expressions = line.split(" == ")
            if not expressions:
                raise Wrong(f"what is '{line}'?")
            compare(text, expressions, answer, kernels)
            ways |= {"counted" if re.search(r"[a-z]\w*\.[a-z]", each) else "computed" for each in expressions}
    if not ways or "explained" in ways and len(ways) > 1:
        raise Wrong("either explained or proved")
    return ways


def main(steps):
    ways, wrong, answers = collections.Counter(), 0, 0
    for step, page in ((step, page) for step in steps for page in of_steps("README.md", step)):
        text = page.read_text("utf-8")
        for fold in FOLD.finditer(text):
            answers += 1
            try:
                ways.update(prove(step, fold, answers))
            except (Wrong, broken.Broken, SyntaxError, AttributeError, TypeError) as error:
                wrong += 1
                line = text.count("\n", 0, fold.start()) + 1
                print(f"{page.relative_to(ladder.ROOT)}:{line}: {error}", file=sys.stderr)
    print(f"answers: {answers}, " + ", ".join(f"{ways[way]} {way}" for way in sorted(ways)) + f"; {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    with broken.turns.of(broken.OUT / "answers"):
        sys.exit(main([pathlib.Path(step).name for step in sys.argv[1:]]))
