#!/usr/bin/env python3
"""Counts how often the loops of each kernel turn in its step's tests.

  coverage.py [--all] STEP ...     prints the loops that never turn three times in a row, and fails when there is one

A loop that turns once is a statement: whatever is wrong with its second turn goes unseen. What a ring of two stages gets wrong
shows in the third. Each loop in device code is wrapped in one that counts, in copies below build/coverage; the step's tests run
on them in the fast build. coverage.txt lists loops that cannot turn so often. --all prints every loop of every kernel. Python's
standard library suffices.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import sys
from pathlib import Path

import mutants
from mutants import ROOT, broken
from source import of_steps, tokens_of

OUT = ROOT / "build" / "coverage"
LISTED = Path(__file__).resolve().with_name("coverage.txt")
LEAST = 3  # turns in a row: the second and third differ from the first

# Each loop has a counter of its own, which records how often the loop was entered and the most turns at one time.
COUNTING = """
#ifndef COVERAGE_H
#define COVERAGE_H
#include <atomic>
#include <cstdio>
#include <cstdlib>
namespace {
struct coverage {
    std::atomic<unsigned long long> entered[LOOPS] = {}, most[LOOPS] = {};
    ~coverage()
    {
        FILE *file = fopen(COVERAGE_FILE, "a"); // of several processes, each of which writes once
        if (file)
            setvbuf(file, nullptr, _IOFBF, 1 << 20);
        for (int i = 0; file && i < LOOPS; i++)
            if (entered[i] > 0)
                fprintf(file, "%s %d %llu %llu\\n", COVERED_KERNEL, i, entered[i].load(), most[i].load());
        if (file)
            fclose(file);
    }
};
coverage covered;
struct turning {
    int loop;
    unsigned long long turns = 0;
    turning(int loop) : loop(loop)
    {
        covered.entered[loop].fetch_add(1, std::memory_order_relaxed);
    }
    bool again(bool condition)
    {
        turns += condition;
        unsigned long long most = covered.most[loop].load(std::memory_order_relaxed);
        while (turns > most && !covered.most[loop].compare_exchange_weak(most, turns, std::memory_order_relaxed)) {
        }
        return condition;
    }
};
}
#endif
"""


class Counted:
    """Copies a step and makes its loops count; broken.py compiles and links it."""

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
        tokens = tokens_of(source)
        edits = []
        depth, function = 0, ""  # the head of the function that a token is in
        for at, (text, begin, _) in enumerate(tokens):
            function = "" if depth == 0 and text in (";", "}") else function + " " * (depth == 0) + text * (depth == 0)
            depth += (text == "{") - (text == "}")
            if not re.search("__global__|__device__", function) or text not in ("for", "while") or tokens[at + 1][0] != "(":
                continue
            close = mutants.matching(tokens, at + 1)
            ends = [i for i in range(at + 2, close) if tokens[i][0] == ";"] if text == "for" else [at + 1, close]
            if len(ends) != 2:
                raise broken.Broken(f"{file}: what kind of loop is {source[begin:tokens[close][2]]}?")
            head = " ".join(source[begin:tokens[close][2]].split())
            loop = len(self.loops)
            # The `if` has an else of its own, so that a later else does not belong to it.
            edits.append((begin, begin, f"if (turning counted({loop}); false) {{}} else "))
            condition, end = tokens[ends[0]][2], tokens[ends[1]][1]
            edits.append((condition, end, f"counted.again({source[condition:end].strip() or 'true'})"))
            self.loops.append((file, source.count("\n", 0, begin) + 1, head))
        for begin, end, text in sorted(edits, reverse=True):
            source = source[:begin] + text + source[end:]
        path.write_text(source, encoding="utf-8")


def fixed(head):
    """Returns whether the compiler knows how often a loop turns: apart from its variable it has only template parameters and
    constants."""
    match = re.match(r"for \((?:const |unsigned |int |auto )*(\w+) = (.*)", head)
    names = set(re.findall(r"[A-Za-z_]\w*", match[2])) - {match[1], "run_of", "int"} if match else {"?"}
    return all(name[0].isupper() and name not in ("M", "N", "K") for name in names)


def listed(step, loops):
    """Returns {(file, head): why} for this step's loops, from coverage.txt. An entry that fits no loop of its file is refused."""
    reasons = {}
    for entry in mutants.entries(LISTED, "file", "loop", "why", optional="step"):
        if entry.get("step", entry["file"][:2]) == step:
            reasons[entry["file"], entry["loop"]] = entry["why"]
    unknown = set(reasons) - {(file, head) for file, _, head in loops}
    if unknown:
        raise broken.Broken(f"{LISTED.name}: there is no {' in '.join(reversed(min(unknown)))}")
    return reasons


def compile_kernel(counted, file):
    target = counted.folder / (file.replace("/", "_") + ".o")
    copy = counted.folder / file
    defines = (f'#define COVERED_KERNEL "{mutants.kernel_named(file)}"\n#define LOOPS {len(counted.loops)}\n'
               f'#define COVERAGE_FILE "{counted.folder}/counts"\n{COUNTING}')
    copy.write_text(defines + copy.read_text(encoding="utf-8"), encoding="utf-8")
    broken.compile_source(counted, "cpu", copy, target, "-O1")
    return target


def count(step, pool):
    """Returns {(kernel, loop): (entered, most turns)} over the step's tests, and the loops."""
    folder = next(ROOT.glob(f"{step}_*/main.c")).parent
    kernels = [str(path.relative_to(ROOT)) for path in of_steps("[0-9]*_*.cu", folder.name)]
    counted = Counted(folder.name)
    counted.edits = [("common/device/tiles.cuh", None, "")]  # so that common/ is copied too
    counted.place = lambda *_: (0, 0)
    broken.copy_sources(counted)
    headers = sorted({header for kernel in kernels for header in mutants.device_headers(ROOT / kernel)})
    for file in (*headers, *kernels):
        counted.wrap(file)
    made = dict(zip(kernels, pool.map(lambda file: compile_kernel(counted, file), kernels)))
    for test in sorted(path.stem for path in (ROOT / "tests/steps").glob(f"test_{step}*.c")):
        program = counted.folder / test
        broken.link_test(counted, "cpu", test, made, program)
        failed = mutants.run_test(program, [], 600, "--jobs", str(os.cpu_count()))
        if failed:
            raise broken.Broken(f"{test} fails at {failed}")
    counts = collections.defaultdict(lambda: [0, 0])
    for line in (counted.folder / "counts").read_text(encoding="utf-8").splitlines():
        kernel, loop, entered, most = line.split()
        count = counts[kernel, int(loop)]
        count[:] = count[0] + int(entered), max(count[1], int(most))
    idle = set(map(mutants.kernel_named, kernels)) - {kernel for kernel, _ in counts}
    if idle:
        raise broken.Broken(f"no loop of {sorted(idle)[0]} was ever entered")
    return counts, counted.loops, kernels


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("steps", nargs="+")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    few = 0
    for step in options.steps:
        with broken.turns.of(OUT / step), concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            counts, loops, kernels = count(step, pool)
        reasons = listed(step, loops)
        needless = set(reasons)
        print(f"{'kernel':<22} {'loop':<60} {'entered':>12} {'most turns':>10}")
        for kernel in map(mutants.kernel_named, kernels):
            for number, (file, line, head) in enumerate(loops):
                entered, most = counts[kernel, number]
                if entered == 0:
                    continue  # it belongs to another kernel, or to a template that this one does not use
                short = most < (1 if fixed(head) else LEAST)
                if short:
                    needless.discard((file, head))
                few += short and (file, head) not in reasons
                if options.all or (short and (file, head) not in reasons):
                    why = reasons.get((file, head), head) if short else ""
                    print(f"{kernel:<22} {file + ':' + str(line):<60} {entered:12} {most:10}  {why}".rstrip())
        if needless:
            raise broken.Broken(f"{' in '.join(reversed(min(needless)))} turns {LEAST} times: take it off {LISTED.name}")
    print(f"{few} loops never turn {LEAST} times" if few else f"every loop turns {LEAST} times or as often as it can")
    return 1 if few else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except broken.Broken as error:
        print(f"coverage.py: {error}", file=sys.stderr)
        sys.exit(2)
