#!/usr/bin/env python3
"""Counts how many lines of code each rung of the ladder adds to the one before it.

    common/tools/ladder.py STEP ...         the table
    common/tools/ladder.py --diff KERNEL    what KERNEL adds (+) and removes (-); with --code no comments

The rungs and what each follows are the rows of their steps (facts.py). A rung's code is its .cu file and those of its step's
.cuh files, in whichever folder, that the rung before it does not include.

A line of code is a statement: comments, blank lines and line breaks do not count, whatever a formatter makes of them.
`for (...) {`, `}`, `} else {`, `if (...)` without a brace, `template <...>` and a preprocessor line are a statement each,
but #include and a header's guard count for none; one that does not fit into 100 columns counts for as many lines as it
fills. A function is compared with the one of the same name, wherever that stands; where names differ only by the kernel's
own, it is the same function. Python's standard library suffices.
"""
import argparse
import functools
import json
import re
import signal
import subprocess
import sys

import facts
from source import COMMENT_OR_STRING, DIRECTIVE, ROOT, STRING, closure, comments, without_comments

MOST_ADDED = 40  # where a rung adds more, its reviewer asks whether it has one idea

COLUMNS, INDENT = 100, 4
CONTEXT = 2  # a diff shows this many statements around a change

# ---------------------------------------------------------------------------------------------------------------------
# Source text

# Each character of an operator is a token, because `>>` may close two templates.
TOKEN = re.compile(rf"{STRING}|{DIRECTIVE}|\w+|[^\w\s]")
HEADS = ("if", "for", "while", "switch", "else")
ATTRIBUTE, NAME = re.compile(r"__\w+__ ?\([^()]*\)"), re.compile(r"(\w+) ?[({]")
GUARD = re.compile(r"#(ifndef|define) \w+_CUH$|#endif")
NOT_COUNTED = re.compile(rf"#include |{GUARD.pattern}")


class Statement:
    """A statement, or a comment on lines of its own, which counts for none."""

    def __init__(self, source, tokens, begin, end, columns):
        # A header is the same wherever it is included from.
        self.key = tuple(re.sub(r'^"[\w./]*/', '"', token) for token in tokens) if tokens[:1] == ["#include"] else tuple(tokens)
        self.begin, self.columns = begin, columns
        self.leads = not without_comments(source[:begin]).strip()  # only comments come before it
        self.text = " ".join(without_comments(source[begin:end]).split())
        # `lines` are those that it fills when formatted, one blank lost at each break; `counted` are those of code.
        self.lines = -(-len(re.sub(r"(?<=[(\[]) | (?=[)\]])", "", self.text)) // columns) if columns else 0
        self.counted = 0 if NOT_COUNTED.match(self.text) else self.lines
        # Its place in the file includes the comment at its end: the number of its first line, counted from 1, and its lines.
        comment = COMMENT_OR_STRING.search(source, end)
        if comment and "\n" not in source[end:comment.start()] and comment[0].startswith("/"):
            end = comment.end()
        self.number = source.count("\n", 0, begin) + 1
        self.shown = source.split("\n")[self.number - 1:source.count("\n", 0, end) + 1]


def closes_head(tokens):
    """Returns whether these tokens are `if (...)`, `else` and so on, and control nothing yet."""
    words = tokens[1:] if tokens[0] == "}" else tokens
    if not words or words[0] not in HEADS:
        return False
    return words == ["else"] or words[-1] == ")"


def statements(source):
    """Returns the statements of a source in order, with the comments between them that have lines of their own.

    >>> def show(source):
    ...     for statement in statements(source):
    ...         print(statement.lines, statement.text)
    >>> show("template <int N> void f(int x) { /* one\\nidea */ if (x) { g(x); } else for (;;) { h(\\n{1, 2}); } }")
    1 template <int N>
    1 void f(int x) {
    1 if (x) {
    1 g(x);
    1 } else
    1 for (;;) {
    1 h( {1, 2});
    1 }
    1 }
    >>> show("#define X \\\\\\n  1\\n/* idea */\\nenum { A, B };")
    1 #define X \\ 1
    0 
    1 enum {
    1 A, B
    1 };
    >>> show("int x = " + " + ".join(["variable"] * 10) + ";")  # 115 characters
    2 int x = variable + variable + variable + variable + variable + variable + variable + variable + variable + variable;
    """
    blanked = without_comments(source)
    found = [Statement(source, re.findall(r"\w+|[^\w\s*/]", match[0]), *match.span(), 0)
             for match in comments(source)
             if not source[source.rfind("\n", 0, match.start()) + 1:match.start()].strip()]
    matches = list(TOKEN.finditer(blanked))
    tokens, begin, depth = [], 0, 0
    nesting = []  # for each open bracket, whether it is a block's
    for at, match in enumerate(matches):
        token = match[0]
        following = matches[at + 1][0] if at + 1 < len(matches) else ""
        if not tokens:
            begin, depth = match.start(), nesting.count(True)
        if token in "([" or token == "{" and (not all(nesting) or tokens and tokens[-1] in ("=", ",", "return")):
            nesting.append(False)
        elif token == "{":
            nesting.append(True)
        elif token in ")]}" and nesting:
            block = nesting.pop()
            if block and tokens:  # this comes before a closing brace, without a semicolon
                found.append(Statement(source, tokens, begin, matches[at - 1].end(), COLUMNS - INDENT * depth))
                tokens, begin = [], match.start()
            if not tokens:
                depth = nesting.count(True)
        tokens.append(token)
        inside = not all(nesting)
        ends = not inside and (
            token == ";" or token == "{" or token.lstrip().startswith("#")
            or token == "}" and following not in (";", "else", ",")
            or token == ">" and tokens[0] == "template" and tokens.count("<") == tokens.count(">")
            or closes_head(tokens) and following not in ("{", ";") and (token, following) != ("else", "if"))
        if ends:
            found.append(Statement(source, re.findall(r"\S+", token) if token.lstrip().startswith("#") else tokens,
                                   begin, match.end(), COLUMNS - INDENT * depth))
            tokens = []
    return sorted(found, key=lambda statement: statement.begin)


def common(old, new):
    """Returns the pairs of places (i, j) at which old[i] == new[j] belong to one longest common subsequence.

    The weight of a place is what its statement counts for. A comment weighs a little, and a lone brace less than any other line.
    """
    weights = [0.5 if s.lines == 0 else 0.7 if s.key in (("}",), ("{",)) else s.lines for s in old]
    best = [[0.0] * (len(new) + 1)]
    for i, statement in enumerate(old):
        above, row, left = best[-1], [0.0], 0.0
        for j, other in enumerate(new):
            left = above[j] + weights[i] if statement.key == other.key else max(left, above[j + 1])
            row.append(left)
        best.append(row)
    pairs, i, j = [], len(old), len(new)
    while i and j:
        if old[i - 1].key == new[j - 1].key:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif best[i - 1][j] >= best[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


# ---------------------------------------------------------------------------------------------------------------------
# Rungs


def code_of(path):
    return statements(path.read_text("utf-8"))


class Rung:
    """A rung has a row, and the name of the rung that a reader comes from: the one that it follows, otherwise the row before
    it."""

    def __init__(self, step, row, before):
        self.step, self.name, self.begins, self.before = step, row["name"], not row["after"], row["after"] or before
        self.path, self.ladder = ROOT / step / row["file"], row["ladder"]

    def headers(self):
        """Returns the step's own headers that its file includes, in the order in which the compiler meets them."""
        return closure(self.path, lambda header: header.suffix == ".cuh" and header.is_relative_to(ROOT / self.step))

    def lines(self):
        """Returns how many lines of code the rung has, with all that it includes from its step."""
        return sum(statement.counted for path in [*self.headers(), self.path] for statement in code_of(path))

    def __str__(self):
        return f"{self.step}/{self.name}"


@functools.lru_cache(maxsize=None)
def program(step, *arguments):
    """Returns what the step's checked program says as JSON: with --list what its table says, otherwise what its kernels did."""
    command = [ROOT / "build" / "check" / step, "--json", *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@functools.lru_cache(maxsize=None)
def rungs(step):
    """Returns the step's rungs in reading order. Nothing need be built for them."""
    rows = next(each["kernels"] for each in facts.steps() if each["step"] == step)
    before = [last["name"] if last and last["problem"] == row["problem"] else "" for row, last in zip(rows, [None, *rows])]
    return [Rung(step, row, name) for row, name in zip(rows, before)]


def find(name):
    if name not in facts.kernels():
        raise LookupError(f"there is no kernel {name}; there are: {' '.join(facts.kernels())}")
    return next(rung for rung in rungs(facts.kernels()[name]["step"]) if rung.name == name)


def predecessor(rung):
    """Returns the rung that a reader comes from; None where a rung stands alone."""
    return find(rung.before) if rung.before else None


def rename(old, new, old_name, new_name):
    """Renames the statements of `old` as in `new` where a name differs only by the kernel's own name, or its step.

    >>> old = statements('#include "01_step.h"\\nmatmul_a(); __a x; a(b_a);')
    >>> new = statements('#include "02_step.h"\\nmatmul_b(); __a x; b(b_a);')
    >>> rename(old, new, "a", "b")
    >>> len(common(old, new))
    4
    """
    known = {token for statement in new for token in statement.key}
    own = re.compile(rf"(?<![A-Za-z0-9]){old_name}(?![A-Za-z0-9])", re.IGNORECASE)
    headers = [token for token in known if re.fullmatch(r'"0\d_step\.h"', token)]

    def name(token):
        if headers and re.fullmatch(r'"0\d_step\.h"', token):
            return headers[0]
        candidate = own.sub(new_name.upper() if token.isupper() else new_name, token)
        return candidate if candidate in known else token

    for statement in old:
        statement.key = tuple(map(name, statement.key))


def definitions(entries):
    """Yields (name, entries) for each function and type with the comments above it, and for each other statement.

    >>> entries = [(None, s) for s in statements("int x; /* y */ template <int N> void f() { a(); } struct g { int b; };")]
    >>> [(name, len(part)) for name, part in definitions(entries)]
    [('', 1), ('f', 4), ('g', 3)]
    """
    found, part, name = [], [], ""
    for entry in entries:
        statement = entry[1]
        part.append(entry)
        if statement.columns == COLUMNS and not name and statement.text.endswith("{"):
            found_name = NAME.search(ATTRIBUTE.sub("", statement.text))
            name = found_name[1] if found_name else ""
        if statement.columns == COLUMNS and not statement.text.endswith(("{", ">")):
            found.append((name, part))
            part, name = [], ""
    return [*found, *([("", part)] if part else [])]


def arranged(old, new):
    """Returns `old` with the definitions that `new` also has in the order of `new`."""
    order = {name: place for place, (name, _) in enumerate(definitions(new)) if name}
    parts = definitions(old)
    known = iter(sorted((part for part in parts if part[0] in order), key=lambda part: order[part[0]]))
    return [entry for part in parts for entry in (next(known) if part[0] in order else part)[1]]


class Change:
    """A change is what a rung changes in the one before it: `script` holds (sign, file, statement) in reading order.

    The sign is +, - or, for a statement that both have, a blank.
    """

    def __init__(self, rung):
        self.rung, self.before = rung, predecessor(rung)
        old_headers = self.before.headers() if self.before else []
        new_headers = rung.headers()
        old = self._statements(self.before, [h for h in old_headers if h not in new_headers]) if self.before else []
        new = self._statements(rung, [h for h in new_headers if h not in old_headers])
        if self.before:
            rename([s for _, s in old], [s for _, s in new], self.before.name, rung.name)
            old = arranged(old, new)
        self.script, i, j = [], 0, 0
        for kept_i, kept_j in [*common([s for _, s in old], [s for _, s in new]), (len(old), len(new))]:
            self.script += [("-", *entry) for entry in old[i:kept_i]] + [("+", *entry) for entry in new[j:kept_j]]
            self.script += [(" ", *entry) for entry in new[kept_j:kept_j + 1]]
            i, j = kept_i + 1, kept_j + 1

    @staticmethod
    def _statements(rung, headers):
        return [(path, statement) for path in [*headers, rung.path] for statement in code_of(path)]

    def count(self, sign):
        return sum(statement.counted for s, _, statement in self.script if s == sign)


def smoothed(script):
    """Returns the script, but counts as changed what was kept between two changes and is no more than braces."""
    runs = []
    for entry in script:
        kind = entry[0] == " "
        if not runs or runs[-1][0] != kind:
            runs.append((kind, []))
        runs[-1][1].append(entry)
    smooth = []
    for place, (kept, run) in enumerate(runs):
        bare = kept and 0 < place < len(runs) - 1 and all(s.text in ("}", "") for _, _, s in run)
        changed = run if not kept else [(sign, file, s) for _, file, s in run for sign in "-+"] if bare else None
        if changed is None:
            smooth += run
            continue
        at = len(smooth)
        while at and smooth[at - 1][0] != " ":
            at -= 1
        both = smooth[at:] + changed
        smooth[at:] = [e for e in both if e[0] == "-"] + [e for e in both if e[0] == "+"]
    return smooth


def diff_lines(change, code_only=False):
    """Returns the lines of the diff, with a line before each group of changes that says where it is. They omit the files' header
    comments and headers' guards and, if only code is asked for, all comments."""
    script = smoothed([(sign, file, s) for sign, file, s in change.script
                       if (s.lines or not s.leads and not code_only) and not GUARD.match(s.text)])
    changed = [place for place, entry in enumerate(script) if entry[0] != " "]
    near = {place for at in changed for place in range(at - CONTEXT, at + CONTEXT + 1)}
    lines, last, printed = [], None, {}
    for place, (sign, file, statement) in enumerate(script):
        if place not in near:
            continue
        if last is None or place != last + 1 or sign != "-" and script[last][0] != "-" and script[last][1] != file:
            new = " (new in this rung)" if sign != "-" and file.suffix == ".cuh" else ""
            lines.append(f"@@ {file.name}{new}, line {statement.number} @@")
        elif sign != "-" and script[last][0] != "-" and not file.read_text("utf-8").split("\n")[statement.number - 2].strip():
            lines.append("")
        last = place
        shown = without_comments("\n".join(statement.shown)).split("\n") if code_only else statement.shown
        for number, line in enumerate(shown, statement.number):
            if code_only and not line.strip():
                continue
            if printed.get((sign, file), 0) < number:  # two statements on one line are shown once
                lines.append(f"{sign}{line}".rstrip())
                printed[sign, file] = number
    return lines


# ---------------------------------------------------------------------------------------------------------------------
# The command


def report(step):
    """Prints the step's table."""
    print(f"{step}\n  {'rung':24} {'lines':>6} {'added':>6} {'removed':>8}")
    for rung in rungs(step):
        change = Change(rung)
        added, before = change.count("+"), change.before
        claim = "begins" if rung.begins else f"after {before}" if before.step != step else "" if added <= MOST_ADDED else "one idea?"
        numbers = f"{added:6} {change.count('-'):8}" if before else " " * 15
        print(f"  {rung.name:24} {rung.lines():6} {numbers}  {claim}".rstrip(), flush=True)


def show(rung, code_only):
    """Prints the rung's diff, in colours on a terminal."""
    change = Change(rung)
    if not change.before:
        print(f"{rung.name} is the first rung of its ladder, there is nothing to compare it with: {rung.path.relative_to(ROOT)}")
        return
    colours = {"+": "\033[32m", "-": "\033[31m", "@": "\033[36m"} if sys.stdout.isatty() else {}
    print(f"{change.before} -> {rung}: {change.count('+')} lines of code added, {change.count('-')} removed")
    for line in diff_lines(change, code_only):
        colour = colours.get(line[:1])
        print(f"{colour}{line}\033[0m" if colour else line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--diff", metavar="KERNEL")
    parser.add_argument("--code", action="store_true")
    parser.add_argument("step", nargs="*")
    arguments = parser.parse_args()
    if arguments.diff:
        try:
            show(find(facts.called(arguments.diff)), arguments.code)
        except LookupError as error:
            parser.error(error)
    for step in arguments.step:
        report(step)
    if arguments.step:
        print("begins: a new machine, and no diff to read.   one idea?: more than 40 lines are added.")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader may have seen enough
    main()
