#!/usr/bin/env python3
"""Refuses a variable of make's command line that nothing reads, and names the nearest that something does.

    variables.py NAME... -- MAKEFILE...     exit status 2 when a name is not known

Known are the variables that a makefile leaves to its caller, and those that programs find in their environment.
"""
import difflib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A makefile leaves NAME to its caller where it sets it with ?= or asks whether and how it was set.
LEFT_OPEN = re.compile(r"^(\w+) \?=|\bifn?def (\w+)|\$\((?:origin|call given,) ?(\w+)\)", re.MULTILINE)
LISTED = re.compile(r"\$\(call as_data,[^,]*,([\w ]+)\)")
# In C, Python and shell, an environment's variables stand in quotes or in ${...}, and all of them have an underscore.
READ = re.compile(r"[\"'{]([A-Z][A-Z0-9]*_[A-Z0-9_]+)[\"'}:]|environ(?:\.get\(|\[)\"(\w+)\"")
SOURCES = {".c", ".h", ".cpp", ".py", ".sh", ""}


def found(pattern, text):
    return {name for groups in pattern.findall(text) for name in (groups if isinstance(groups, tuple) else groups.split()) if name}


def known(makefiles):
    names = {"MAKEFLAGS", "SHELL"}
    for path in makefiles:
        text = pathlib.Path(path).read_text(encoding="utf-8")
        names |= found(LEFT_OPEN, text) | found(LISTED, text)
    for folder in ("common", "tests", "docs/make"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in SOURCES and path.is_file():
                names |= found(READ, path.read_text(encoding="utf-8", errors="replace"))
    return names


def main(arguments):
    split = arguments.index("--")
    names = known(arguments[split + 1:])
    for name in arguments[:split]:
        if name in names:
            continue
        near = difflib.get_close_matches(name.upper(), names, 1, 0.5)
        print(f"nothing reads {name}" + (f"; is it {near[0]}?" if near else ""), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
