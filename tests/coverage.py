#!/usr/bin/env python3
"""How often the loops of each kernel turn in its step's tests.

  coverage.py [--all] STEP ...     prints the loops that never turn twice in a row, and fails when there is one

A loop that turns once is a statement: whatever is wrong with its second turn goes unseen. Each loop's condition in device code
is wrapped in a call that counts, in copies below build/coverage; the step's tests run on them in the fast build. --all prints
all loops. Python's standard library suffices.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import sys

import mutants
from mutants import ROOT, broken

OUT = ROOT / "build" / "coverage"

# Counted per loop: how often it was entered and left by its condition, and turns.
COUNTING = """
#ifndef COVERAGE_H
#define COVERAGE_H
#include <cstdio>
#include <cstdlib>
namespace {
struct coverage {
    unsigned long long left[LOOPS] = {}, turned[LOOPS] = {};
    ~coverage()
    {
        FILE *file = fopen(COVERAGE_FILE, "a");
        for (int i = 0; file && i < LOOPS; i++)
            if (left[i] + turned[i] > 0)
                fprintf(file, "%s %d %llu %llu\\n", COVERED_KERNEL, i, left[i], turned[i]);
        if (file)
            fclose(file);
    }
};
coverage covered;
inline bool turns(int loop, bool again)
{
    (again ? covered.turned : covered.left)[loop]++;
    return again;
}
}
#endif
"""


class Counted:
    """A step's copy with counting loops; broken.py compiles and links it."""

    def __init__(self, step):
        self.name = self.step = step
        self.edits = []
        self.loops = []  # (file, line, head)
        self.folder = OUT / step

    def directory(self):
        return self.folder

    def wrap(self, file):
        """Wraps the conditions of a file's loops."""
        path = self.folder / file
        source = path.read_text(encoding="utf-8")
        tokens = mutants.tokens_of(source)
        edits = []
        depth, function = 0, ""  # the head of the function that a token is in
        for at, (text, begin, _) in enumerate(tokens):
            function = "" if depth == 0 and text in (";", "}") else function + " " * (depth == 0) + text * (depth == 0)
            depth += (text == "{") - (text == "}")
            if not re.search("__global__|__device__", function) or text not in ("for", "while") or tokens[at + 1][0] != "(":
                continue
            close = mutants.matching(tokens, at + 1)
            ends = [i for i in range(at + 2, close) if tokens[i][0] == ";"] if text == "for" else [at + 1, close]
            if len(ends) != 2 or ends[1] == ends[0] + 1:  # for (;;): it is left by a break
                continue
            head = " ".join(source[begin:tokens[close][2]].split())
            edits.append((tokens[ends[0] + 1][1], tokens[ends[1]][1], len(self.loops)))
            self.loops.append((file, source.count("\n", 0, begin) + 1, head))
        for begin, end, loop in reversed(edits):
            source = f"{source[:begin]}turns({loop}, {source[begin:end]}){source[end:]}"
        path.write_text(source, encoding="utf-8")


def compile_kernel(counted, file):
    target = counted.folder / (file.replace("/", "_") + ".o")
    copy = counted.folder / file
    defines = (f'#define COVERED_KERNEL "{mutants.kernel_named(file)}"\n#define LOOPS {len(counted.loops)}\n'
               f'#define COVERAGE_FILE "{counted.folder}/counts"\n{COUNTING}')
    copy.write_text(defines + copy.read_text(encoding="utf-8"), encoding="utf-8")
    broken.compile_source(counted, "cpu", copy, target, "-O1")
    return target


def count(step, pool):
    """{(kernel, loop): (left, turned)} over the step's tests, and the loops."""
    folder = next(ROOT.glob(f"{step}_*/main.c")).parent
    kernels = [str(path.relative_to(ROOT)) for path in sorted(folder.glob("[0-9]*_*.cu"))]
    counted = Counted(folder.name)
    counted.edits = [("common/tiles.cuh", None, "")]  # so that common/ is copied too
    counted.place = lambda *_: (0, 0)
    broken.copy_sources(counted)
    headers = sorted({header for kernel in kernels for header in mutants.includes(ROOT / kernel)
                      if header.endswith(".cuh") and header != "common/ptx.cuh"})
    for file in (*headers, *kernels):
        counted.wrap(file)
    made = dict(zip(kernels, pool.map(lambda file: compile_kernel(counted, file), kernels)))
    objects = ROOT / "build" / "cpu" / "obj"
    others = [path for path in [*folder.glob("*.cu"), *ROOT.glob(f"tests/tiles_{step}.cu")]
              if str(path.relative_to(ROOT)) not in made]
    for test in sorted(path.stem for path in (ROOT / "tests").glob(f"test_{step}*.c")):
        program = counted.folder / test
        broken.link(counted, "cpu", [objects / f"tests/{test}.c.o", objects / "tests/ladder.c.o", *made.values(),
                                     *(objects / f"{path.relative_to(ROOT)}.o" for path in others)], program, ["-lcriterion"])
        failed = mutants.run_test(program, [], 600)
        if failed:
            raise broken.Broken(f"{test} fails at {failed}")
    counts = collections.defaultdict(lambda: [0, 0])
    for line in (counted.folder / "counts").read_text(encoding="utf-8").splitlines():
        kernel, loop, left, turned = line.split()
        counts[kernel, int(loop)][0] += int(left)
        counts[kernel, int(loop)][1] += int(turned)
    idle = set(map(mutants.kernel_named, kernels)) - {kernel for kernel, _ in counts}
    if idle:
        raise broken.Broken(f"no loop of {sorted(idle)[0]} was ever entered")
    return counts, counted.loops, kernels


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("steps", nargs="+")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    once = 0
    for step in options.steps:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            counts, loops, kernels = count(step, pool)
        print(f"{'kernel':<22} {'loop':<60} {'entered':>12} {'turns':>14} {'each':>8}")
        for kernel in map(mutants.kernel_named, kernels):
            for number, (file, line, head) in enumerate(loops):
                left, turned = counts[kernel, number]
                if left + turned == 0:
                    continue  # another kernel's, or a template that this one does not use
                single = turned <= left
                once += single
                if single or options.all:
                    print(f"{kernel:<22} {file + ':' + str(line):<60} {left:12} {turned:14} {turned / max(left, 1):8.1f}"
                          f"{'  never turns twice: ' + head if single else ''}")
    print(f"{once} loops never turn twice" if once else "every loop turns twice and more")
    return 1 if once else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except broken.Broken as error:
        print(f"coverage.py: {error}", file=sys.stderr)
        sys.exit(2)
