#!/usr/bin/env python3
"""Plants one fault in each kernel, and proves that the harness catches every one.

  broken.py test [NAME ...]   build each fault, run it, and compare what caught it with what its file says
  broken.py show NAME         build one fault and print what each detector says of it
  broken.py list              the exercises: broken kernels by their symptoms
  broken.py steps [NAME ...]  the steps that these faults are in

KERNEL.faults has the faults of one kernel (README.md describes it): each has a name, the detector, what is wrong and the
edit. The edit is made in copies below build/broken/, never in the sources; the tokens of a search text must be found
exactly once, so that a fault whose kernel has changed under it says so. Python's standard library suffices.
"""
import collections
import concurrent.futures
import dataclasses
import itertools
import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import turns  # noqa: E402  (its path is set above)
from source import ROOT, TOKEN, behind, blanked, of_steps, without_comments  # noqa: E402

FAULTS = ROOT / "tests/faults"
OUT = ROOT / "build" / "broken"
WORK = ROOT / "work" / "broken"
BUILDS = ("cpu", "check")
ORDERS = ("inorder", "reversed", "random:7")
TIMEOUT_SECONDS = 120

# These detectors catch faults. The first four are the harness's (common/harness/trial.h), in every build. The next come from the
# CPU backend's reports; a report is known by how it begins. "order" means that a kernel passes in one order of threads and blocks
# and fails in another. "counters" is the suite of the step's tests that compares counts with formulas, "claims" is
# tests/steps/test_claims.c, and "overlap" is tests/steps/overlap.py; each runs only for faults that are said to be its own.
DETECTORS = ("comparison", "guard", "poison", "inputs", "race", "bounds", "barrier", "uninitialised", "asynchronous", "unfinished",
             "order", "counters", "claims", "overlap")
TOLD = "told"  # a beginner's mistake, planted in a stub by tests/tools/mistakes.py: `make learn` must say what the fault `says`
EQUIVALENT = "equivalent"  # this is no fault after all: the file says why nothing can catch it, and nothing may
REPORTS = (
    ("race", r"race on |shared memory without a proxy fence|shared memory of another block|cluster_store\(\)"),
    ("uninitialised", r"uninitialised (?:shared|global) memory"),
    ("bounds", r"out of bounds|illegal address|an illegal memory access|use after free|misaligned address|red\.v4\.f32|null pointer|host pointer"),
    ("barrier", r"a divergent barrier|a barrier that not all|a warp operation|named barrier|threads wait for something|"
                r"cluster_(?:arrive|wait)\(\)|\S+ at \S+: lane \d+ calls it with mask"),
    ("asynchronous", r"(cp\.async|wgmma|tma_|bulk_add|(?:cluster_)?mbarrier|cluster_store_async|named_barrier|stmatrix|ldmatrix|registers_)"),
    ("unfinished", r"block \(\d+,\d+,\d+\) ended while"),
)

# Threads wait at these, for each other or for copies and products; fences precede them. Each one in a kernel must have a fault
# that removes it.
BARRIER = re.compile(r"__syncthreads\(\)|__syncwarp\(\)|\bgrid\.sync\(\)|\bcluster_wait\(\)|__threadfence\(\)|"
                     r"\b(?:cp_async_wait|wgmma_wait|tma_store_wait|tma_store_wait_read)<[^>]*>\(\)|"
                     r"\b(?:wgmma|mbarrier_init)_fence\(\)|"
                     r"\b(?:mbarrier_wait|named_barrier_sync|async_proxy_fence)\([^;]*\)")

# These tests keep an index inside: a comparison with a size, or the smaller of a tile's size and what is left. Each must also
# have a fault.
SIZES = ("M N K d rows cols keys queries chunks elements head q_rows head_rows rows_left tile_rows seq_q seq_kv head_dim "
         "end end_key visible columns").replace(" ", "|")
BOUND = re.compile(rf"[\w\])]+ (?:<|>=) (?:\w+\.)?(?:{SIZES})\b(?! \+)|\binside > \d|"
                   rf"\bmin\(\w+, [^()]*\b(?:{SIZES})\b[^()]*\)")


class Broken(Exception):
    """A fault file cannot be used, or a fault does not build."""


@dataclasses.dataclass
class Fault:
    """A fault is an edit of a kernel, or of a file that it includes, and what must catch it."""

    name: str
    file: str  # the file that the edits change
    compiled: str  # the kernel's source, unless it is `file`
    edits: list  # (file, search text, replacement)
    kernel: str = ""
    detector: str = EQUIVALENT
    only: bool = False  # no other detector catches it
    wrong: str = ""
    runs: list = dataclasses.field(default_factory=list)
    exercise: int = 0
    symptom: str = ""
    says: str = ""
    learners: bool = False  # the copies are a learner's to repair, and nothing here makes them anew

    step = property(lambda self: self.compiled.split("/")[0])

    def place(self, file, text, source):
        return search(self, file, text, source)

    def directory(self):
        """Returns where the fault's copies are."""
        return WORK / f"{self.exercise:02}" if self.learners else OUT / self.name

    def turn(self):
        """Whoever makes the copies, or builds and runs them, does so in a turn."""
        return turns.of(OUT / self.directory().name)


def kernel_source(kernel):
    """Returns the file of a kernel, or None where a copy of some of the steps leaves out the kernel's step."""
    sources = [source for source in of_steps(f"*_{kernel}.cu") if re.fullmatch(rf"\d+_{kernel}", source.stem)]
    if len(sources) > 1:
        raise Broken(f"{kernel}: there are {len(sources)} kernels of this name")
    return str(sources[0].relative_to(ROOT)) if sources else None  # tests/rules.py looks for faults of no kernel


def faults_in(kernel, part, usual):
    """Returns one fault in each kernel that has it. README.md describes the file; `usual` has the options of each kernel."""
    first, *lines = part.rstrip("\n").split("\n")
    match = re.fullmatch(r"([\w-]+), (\w+)( only)?: (.+)", first)
    if not match or match[2] not in (*DETECTORS, EQUIVALENT, TOLD):
        raise Broken(f"{kernel}.faults: '{first}' must be 'NAME, DETECTOR: what is wrong'")
    fields = list(itertools.takewhile(lambda line: re.match("[a-z]+: ", line), lines))
    hunks = [[]]
    for line in lines[len(fields):]:
        hunks.append([]) if line == "@@" else hunks[-1].append(line or " ")
    fields = [line.split(": ", 1) for line in fields]
    values, runs = dict(fields), [value for key, value in fields if key == "run"]
    known = {"also", "file", "run", "exercise", "symptom", "says"}
    if not set(values) <= known or not all(hunks) or ("says" in values) != (match[2] == TOLD) or any(line[0] not in " +-" for hunk in hunks for line in hunk):
        raise Broken(f"{kernel}.faults: {match[1]} has a field or a line of an edit that is none: {sorted(values)}")
    edits = [["\n".join(line[1:] for line in hunk if line[0] != other) for other in "+-"] for hunk in hunks]
    for number, name in enumerate([kernel, *(name for key, value in fields if key == "also" for name in value.split())]):
        source = kernel_source(name)
        if not source:
            continue
        if name not in usual or not (runs or usual[name]):
            raise Broken(f"{kernel}.faults: {match[1]} needs a 'run: ...', or {name}.faults one")
        file = values.get("file", source)
        yield Fault(f"{name}-{match[1]}", file, file if file.endswith(".cu") else source, [(file, *edit) for edit in edits], name,
                    match[2], bool(match[3]), match[4], runs or usual[name],
                    0 if number else int(values.get("exercise", 0)), values.get("symptom", ""), values.get("says", ""))


def search(fault, file, text, source):
    """Returns the place in the source of the text that an edit replaces, (begin, end). Only its tokens must match, however they
    are formatted or commented."""
    pattern = r"\s*".join((re.escape(token[0]) for token in TOKEN.finditer(without_comments(text))))
    found = list(re.finditer(pattern, without_comments(source)))
    if len(found) != 1:
        raise Broken(f"{fault.name}: its text is {len(found)} times in {file}, not once:\n{text}")
    return found[0].span()


def read_faults(names=(), told=False):
    """Returns all faults, or those of these names or exercises; with `told` beginners' mistakes, otherwise the others."""
    usual, parts = {}, []
    for path in sorted(FAULTS.glob("*.faults")):
        head, *own = re.split("^=== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        options = [line for line in head.split("\n") if line]
        if any(not line.startswith("run: ") for line in options):
            raise Broken(f"{path.name}: only 'run: ...' may stand before the first fault")
        usual[path.stem] = [line.removeprefix("run: ") for line in options]
        parts += [(path.stem, part) for part in own]
    faults = sorted((fault for kernel, part in parts for fault in faults_in(kernel, part, usual) if (fault.detector == TOLD) == told),
                    key=lambda fault: fault.kernel)
    unknown = [name for name in names if not any(name in (f.name, str(f.exercise)) for f in faults)]
    if unknown:
        raise Broken(f"there is no fault {unknown[0]}; `make broken-list` prints the exercises, tests/faults/ holds all")
    return [f for f in faults if not names or f.name in names or str(f.exercise) in names]


# --------------------------------------------------------------------------------------------------------------------
# Building and running


def run_tool(what, command):
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode != 0:
        raise Broken(f"{what}: {result.stdout.strip()}")


def planted(fault, file):
    """Returns a file's text with the fault in it."""
    source = (ROOT / file).read_text(encoding="utf-8")
    for edited, text, replacement in fault.edits:
        if edited == file:
            begin, end = fault.place(file, text, source)
            source = source[:begin] + replacement + source[end:]
    return source


def copy_sources(fault, keep=False):
    """
    Copies the step's sources with the fault in them below the fault's own directory, and, where it changes a header of common/,
    the files of the same folder. With `keep` what is there already stays.
    """
    directory = fault.directory()
    if not keep:
        shutil.rmtree(directory, ignore_errors=True)
    others = {(ROOT / file).parent for file, _, _ in fault.edits if file.startswith("common/")}
    for source in (*of_steps("*.*", fault.step), *(source for folder in others for source in folder.iterdir())):
        file = str(source.relative_to(ROOT))
        copy = directory / file
        if source.suffix in (".cu", ".cuh", ".c", ".h") and not (keep and copy.exists()):
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(planted(fault, file), encoding="utf-8")


def compile_source(fault, backend, source, target, optimise="-O0", warnings=("-w",)):
    """Compiles one source, .cu or .c, with the faulty headers. Most are compiled once and run for a moment: -O0."""
    directory = fault.directory()
    compiler = ["common/simt/simtcc", "--check" if backend == "check" else optimise]
    if source.suffix == ".c":  # the step's table
        compiler = [os.environ.get("CC", "gcc"), "-std=c17", "-D_GNU_SOURCE", "-Icommon/simt/include"]
    run_tool(fault.name, [*compiler, f"-I{directory}", f"-I{directory / 'common'}", "-Icommon", "-I.", *warnings, "-c",
                          str(source.relative_to(ROOT)), "-o", str(target)])


def link(fault, backend, objects, program, libraries=()):
    run_tool(fault.name, [os.environ.get("CXX", "g++"), "-pthread", *map(str, objects), f"build/{backend}/libcommon.a",
                          "build/simt/libsimt.a", *libraries, "-lm", "-ldl", "-o", str(program)])


def build(fault, backend):
    """Builds the step's program with the broken kernel in place of the sound one."""
    directory = fault.directory()
    target = directory / f"{backend}.o"
    program = directory / f"{backend}_{fault.step}"
    for old in (target, program):  # an older build must not be taken for this one
        old.unlink(missing_ok=True)
    compile_source(fault, backend, directory / fault.compiled, target)
    sources = {str(path.relative_to(ROOT)) for pattern in ("*.c", "*.cu") for path in of_steps(pattern, fault.step)}
    objects = [ROOT / "build" / backend / "obj" / f"{source}.o" for source in sorted(sources - {fault.compiled})]
    link(fault, backend, [target, *objects], program)
    return program


def link_test(fault, backend, test, made, program, steps=None):
    """Links a test program of the step, or of some steps, with the objects `made`, {source: object}, in place of the sound ones."""
    steps = steps or fault.step
    of_step = [*of_steps("*.cu", steps), *of_steps("*_step.c", steps), *ROOT.glob(f"tests/steps/{'serial' if test == 'test_claims' else 'tiles_' + test[-2:]}.cu")]
    sources = [f"tests/steps/{test}.c", "tests/support/ladder.c", *(str(path.relative_to(ROOT)) for path in of_step)]
    objects = ROOT / "build" / backend / "obj"
    sources.sort(key=lambda source: source not in made)  # of a template that several kernels have the linker takes the first
    link(fault, backend, [made.get(source, objects / f"{source}.o") for source in sources], program, ["-lcriterion"])


explanations = collections.defaultdict(set)  # what was said of wrong values (common/harness/explain.h), by the fault's folder


def run(program, kernel, sizes, order):
    """Returns (what caught it or None, why) for one run of one kernel."""
    environment = dict(os.environ, SIMT_ORDER=order, SIMT_WORKERS="1")
    command = [str(program), "--kernel", kernel, "--repeat", "1", "--json", *sizes.split()]
    try:
        result = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False,
                                timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return "timeout", f"no end after {TIMEOUT_SECONDS} s"
    try:
        row = json.loads(result.stdout)["kernels"][0]
    except (ValueError, LookupError):
        ending = signal.Signals(-result.returncode).name if result.returncode < 0 else f"exit {result.returncode}"
        return "crash", f"{ending}: {result.stderr.strip()[-300:]}"
    if row["check"] == "pass":
        return None, ""
    if row.get("where"):
        explanations[program.parent.name].add(row["pattern"] or "(none fits)")
    if row["check"] != "FAIL":
        return row["check"], row["reason"]
    if row["detector"] != "launch":
        return row["detector"], row["reason"]
    report = row["reason"].partition(": ")[2] or row["reason"]  # a later launch than the one that failed takes the report away
    for detector, pattern in REPORTS:
        if re.match(pattern, report):
            return detector, report
    return "launch", row["reason"]


def miscounts(fault, test, suite, steps=None):
    """Returns what a suite that looks at counters says of the broken kernel, which the checked build has just compiled; None when
    it passes."""
    program = fault.directory() / test
    link_test(fault, "check", test, {fault.compiled: fault.directory() / "check.o"}, program, steps)
    result = subprocess.run([str(program), "--filter", f"{suite}/*", "--short-filename"], capture_output=True, text=True,
                            env=dict(os.environ, LADDER_KERNEL=fault.kernel), cwd=ROOT, check=False)
    said = re.search(rf"^\[.*?\] +({re.escape(fault.kernel)}\b.*)", result.stderr, re.MULTILINE)
    return None if result.returncode == 0 else said[1] if said else result.stderr.strip()[-300:]


def waits_idly(program, kernel):
    """Returns what tests/steps/overlap.py says of a kernel of a program in the checked build; None when it passes."""
    result = subprocess.run([sys.executable, "tests/steps/overlap.py", "--kernel", kernel, str(program)], capture_output=True,
                            text=True, cwd=ROOT, check=False)
    if result.returncode and "FAILED" not in result.stdout and "CalledProcessError" not in result.stderr:
        raise RuntimeError(f"overlap.py judged nothing: {result.stderr[-300:]}")  # which would pass for a finding
    return " ".join((result.stdout + result.stderr[-300:]).splitlines()[1:]) if result.returncode else None


def judge(program, kernel, sizes, enough=None):
    """
    Returns what catches a kernel at one size, {detector: why}. A report of the backend counts in whichever order it came up, and
    when it is `enough`, nothing else is looked for. A finding of the harness in every order is the harness's; one in only some
    orders is the order's.
    """
    outcomes, found = [], {}
    for order in ORDERS:
        detector, why = run(program, kernel, sizes, order)
        outcomes.append((order, detector, why))
        if detector and detector in dict(REPORTS):
            found.setdefault(detector, why)
            if detector == enough:
                return found
    failed = [outcome for outcome in outcomes if outcome[1] and outcome[1] not in dict(REPORTS)]
    passed = [outcome for outcome in outcomes if not outcome[1]]
    if failed and passed:
        found["order"] = f"passes {passed[0][0]}, fails {failed[0][0]} by {failed[0][1]}: {failed[0][2]}"
    elif failed:
        found.setdefault(failed[0][1], failed[0][2])
    return found


def examine(fault):
    """
    Returns {detector: why} over all sizes of a fault. Other detectors matter only where the file says that there are none
    ("only"). The checked build comes first. If it reports nothing, the fast build would do the same. If it does, the harness may
    find more in the fast build, because nothing stops the kernel there.
    """
    found = {}
    enough = None if fault.only else fault.detector
    copy_sources(fault)
    for backend in reversed(BUILDS):
        program = build(fault, backend)
        why = None
        if backend == "check" and fault.detector == "counters":
            why = miscounts(fault, f"test_{fault.step[:2]}", "counters")
        elif backend == "check" and fault.detector == "claims":
            why = miscounts(fault, "test_claims", f"step_{fault.step[:2]}", "0?_*")
        elif backend == "check" and fault.detector == "overlap":
            why = waits_idly(program, fault.kernel)
        if why:
            found[fault.detector] = f"[check] {why}"
        for sizes in fault.runs:
            for detector, why in judge(program, fault.kernel, sizes, enough).items():
                found.setdefault(detector, f"[{backend} {sizes}] {why}")
            if enough in found:
                return found
        if fault.detector in found and not any(detector in dict(REPORTS) for detector in found):
            break
    return found


# --------------------------------------------------------------------------------------------------------------------
# The test


def without_loops(source):
    """Returns the source with the heads of its for loops blanked, because where a loop ends is a different question."""
    text = list(source)
    for match in re.finditer(r"\bfor \(", source):
        head = slice(match.end(), behind(source, match.end()))
        text[head] = blanked(source[head])
    return "".join(text)


def forgotten(faults, pattern):
    """Returns barriers, or tests of bounds, that no fault removes from the kernels."""
    removed = set()
    for fault in faults:
        for file, text, replacement in fault.edits:
            source = (ROOT / file).read_text(encoding="utf-8")
            begin, end = search(fault, file, text, source)
            before, after = without_comments(source)[begin:end], without_comments(replacement)
            gone = collections.Counter(pattern.findall(before)) - collections.Counter(pattern.findall(after))
            removed.update((file, begin + match.start()) for match in pattern.finditer(before) if match[0] in gone)
    found = []
    for path in (*of_steps("*.cu*"), ROOT / "common/device/vectors.cuh"):
        file = str(path.relative_to(ROOT))
        source = without_loops(without_comments(path.read_text(encoding="utf-8")))
        for match in pattern.finditer(source):
            if (file, match.start()) not in removed:
                found.append(f"{file}:{source.count(chr(10), 0, match.start()) + 1}: {match[0]}")
    return found


def test_fault(fault):
    """Returns (what is wrong with the harness or None, what caught the fault)."""
    try:
        with fault.turn():
            found = examine(fault)
    except Broken as error:
        return str(error), {}
    if fault.detector == EQUIVALENT:
        return ("caught, so it is not equivalent" if found else None), found
    if not found:
        return "SURVIVED", found
    if fault.detector not in found:
        return f"not caught by {fault.detector}", found
    stray = set(found) - set(DETECTORS)
    if stray:
        return f"ended in {', '.join(sorted(stray))}", found
    if fault.only and len(found) > 1:
        return "caught by others too", found
    return None, found


def test_control(key):
    """Runs the sound kernel at a fault's sizes. Returns None, or what is wrong with it."""
    step, kernel, sizes = key
    for backend in BUILDS:
        found = judge(ROOT / "build" / backend / step, kernel, sizes)
        if found:
            return f"{step} {kernel} {sizes} ({backend}): {found}"
    return None


def summary(faults, results):
    print(f"\n{'detector':<14} {'caught':>6} {'alone':>6}")
    enough = True
    for detector in DETECTORS:
        caught = sum(detector in found for _, found in results)
        alone = sum(fault.only and set(found) == {detector} for fault, (_, found) in zip(faults, results))
        enough = enough and alone >= 2
        print(f"{detector:<14} {caught:6} {alone:6}{'' if alone >= 2 else '  must be alone at least twice'}")
    same = sum(fault.detector == EQUIVALENT for fault in faults)
    print(f"{len(faults) - same} faults, {same} equivalent")
    return enough


def test(names):
    begin = time.monotonic()
    every = faults = read_faults(names)
    seed, size = os.environ.get("BROKEN_SEED") or str(secrets.randbelow(10 ** 6)), int(os.environ.get("BROKEN_SAMPLE", 0))
    if 0 < size < len(faults):
        faults = sorted(random.Random(seed).sample(faults, size), key=lambda fault: fault.name)
        print(f"{size} of {len(every)} faults; again by: BROKEN_SEED={seed} BROKEN_SAMPLE={size} make test-broken", flush=True)
    problems = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = []
        for fault, result in zip(faults, pool.map(test_fault, faults)):
            results.append(result)
            problem, found = result
            print(f"{'FAILED' if problem else 'caught' if found else 'same':<7} {fault.name:<44} {', '.join(sorted(found)) or 'nothing'}", flush=True)
            if problem:
                problems.append(fault.name)
                print(f"        {problem}; it should be {fault.detector}{' alone' if fault.only else ''}: {fault.wrong}")
                for detector, why in found.items():
                    print(f"        {detector}: {why}")
        keys = sorted({(f.step, f.kernel, sizes) for f in faults for sizes in f.runs})
        for complaint in pool.map(test_control, keys):
            if complaint:
                problems.append(complaint)
                print(f"FAILED  a sound kernel: {complaint}")
    print(f"{len(keys)} runs of sound kernels in each build")
    print("\nwhat explains wrong values, by common/harness/explain.h")
    for name in sorted(set().union(*explanations.values())):
        those = sorted(fault for fault, names in explanations.items() if name in names)
        print(f"{name:<16} {len(those):3}  {', '.join(those)}")
    if not names:
        if not summary(faults, results) and faults is every:
            problems.append("a detector")
        for place in (*forgotten(every, BARRIER), *forgotten(every, BOUND)):
            problems.append(place)
            print(f"FAILED  no fault removes {place}")
    print(f"{time.monotonic() - begin:.0f} s, {len(problems)} failed")
    return 1 if problems else 0


# --------------------------------------------------------------------------------------------------------------------
# For readers


def show(names):
    """
    Builds one broken kernel and prints what is said of it. An exercise belongs to the learner: it is made once, repairs stay, and
    the cause is not told before CAUSE=1 asks for it.
    """
    if len(names) != 1:
        raise Broken("which one? make broken KERNEL=3, say; `make broken-list` prints what there is")
    fault = read_faults(names)[0]
    fault.learners = names[0] == str(fault.exercise)
    with fault.turn():
        return show_fault(fault, told=not fault.learners or os.environ.get("CAUSE", "0") not in ("", "0"))


def show_fault(fault, told):
    copy_sources(fault, keep=fault.learners)
    copy = (fault.directory() / fault.file).relative_to(ROOT)
    print(f"{fault.kernel} of {fault.step}: {fault.symptom if fault.learners else fault.wrong}")
    print(f"source   {copy}")
    if told:
        print(f"compare  diff {fault.file} {copy}")
    if fault.learners:
        print(f"cause    {fault.wrong if told else f'make broken KERNEL={fault.exercise} CAUSE=1'}")
    said = set()
    for backend in BUILDS:
        program = build(fault, backend)
        print(f"program  {program.relative_to(ROOT)}")
        for sizes in fault.runs:
            print(f"  --kernel {fault.kernel} {sizes}")
            for order in ORDERS:
                detector, why = run(program, fault.kernel, sizes, order)
                again = " (as above)" if why in said else f": {why}" if why else ""
                print(f"    SIMT_ORDER={order:<9} {detector or 'passes'}{again}")
                said.add(why)
    if fault.learners and said == {""} and (ROOT / copy).read_text(encoding="utf-8") != planted(fault, fault.file):
        print("repaired: it passes all of these")
    return 0


def steps(names):
    print(*sorted({fault.step for fault in read_faults(names)}))
    return 0


def exercises(names):
    if names:
        raise Broken("list takes no names")
    print("Each of these kernels has one fault. `make broken KERNEL=N` builds number N and shows what the harness says;\n"
          "find the line. Answers: docs/errata.md.\n")
    for fault in sorted((f for f in read_faults() if f.exercise), key=lambda f: f.exercise):
        print(f"{fault.exercise:3}  {fault.kernel:<22} {fault.symptom}")
    return 0


def main(arguments):
    commands = {"test": test, "show": show, "list": exercises, "steps": steps}
    if not arguments or arguments[0] not in commands:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        if sys.stdout is None:
            raise Broken("standard output is closed: there is nowhere to report to")
        return commands[arguments[0]](arguments[1:])
    except Broken as error:
        print(f"broken.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
