"""A table that a tool writes into a lesson, between a pair of markers. For tests/lessons.py and tests/bench."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def update(step, name, table, write, stale):
    """Puts what table() returns between the markers `name` of STEP/README.md, or, unless `write`, only compares.

    True when the lesson holds it, or now does; else a line says why not, `stale` if the text is another.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    lesson = ROOT / step / "README.md"
    text = lesson.read_text(encoding="utf-8")
    if text.count(begin) != 1 or text.count(end) != 1:
        print(f"{step}/README.md: needs exactly one {begin} and one {end}", file=sys.stderr)
        return False
    before, rest = text.split(begin)
    updated = f"{before}{begin}\n{table()}\n{end}{rest.split(end)[1]}"
    if updated == text:
        return True
    if not write:
        print(f"{step}/README.md: {stale}", file=sys.stderr)
        return False
    lesson.write_text(updated, encoding="utf-8")
    return True
