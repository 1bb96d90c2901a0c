#!/usr/bin/env python3
"""Makes faults in the kernels by rule, and finds what share of them a step's tests catch.

  mutants.py run [STEP ...]    make faults in these steps' kernels (in all), run the tests on each, print what survives
  mutants.py list [STEP ...]   only print the faults

  --kernel NAME   only this kernel's (may be repeated)      --seed N     which faults a sample has (new ones)
  --rule NAME     only this rule's                          --sample N   so many that compile; 0 for all of them (0)

Each fault is one edit of a kernel, or of a header for one of the kernels that include it. Only that kernel is compiled again. The
step's tests are linked with it and run on it alone, first in the fast build and then in the checked one, as in `make test` and
`make sanitize`; overlap.py judges faults in waits, too. A fault survives when all pass. An edit that leaves the compiler's object
unchanged is no fault. mutants.txt lists others that change no result, each with the reason. Python's standard library suffices.
"""
import argparse
import collections
import concurrent.futures
import difflib
import os
import random
import re
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "common/tools/broken"))
import broken  # noqa: E402  (its path is set above)
from source import ROOT, closure, of_steps, tokens_of, without_comments  # noqa: E402

EQUIVALENT = Path(__file__).resolve().with_name("mutants.txt")
OUT = ROOT / "build" / "mutants" / str(os.getpid())
CPU_SECONDS = 20  # for one test; the slowest sound one takes half of that
WALL_SECONDS = 900  # for one test program, on a busy machine

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
ASSIGNMENTS = {"+=": "=", "*=": "=", "-=": "+=", "/=": "=", "|=": "="}
# These tokens become others: operators, which have blanks on both sides, and names and numbers.
OTHERS = {token: (rule, other) for rule, others in (
    ("arithmetic", {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "&": "|", "|": "&", "<<": ">>", ">>": "<<",
                    "fmaxf": "fminf", "fminf": "fmaxf"}),
    ("assignment", ASSIGNMENTS), ("condition", {"&&": "||", "||": "&&", "==": "!=", "!=": "=="}),
    ("constant", {"CUDART_INF_F": "1e4f", "INFINITY": "1e4f", "CUDART_L2E_F": "1.0f", "CUDART_LN2_F": "1.0f",
                  "1.0f": "2.0f"}),
) for token, other in others.items()}
# These names replace each other in an index, a stride or an argument: they are of the same kind, where a file has both.
NAMES = [set(names.split()) for names in (
    "M N K", "m n k", "BM BN BK", "Br Bc", "TM TN", "WM WN", "R C E", "rows cols", "row col", "row0 col0", "x y z",
    "heads kv_heads", "head kv_head", "seq_q seq_kv", "seq_q seq_kv head_dim d", "A B", "Q K V", "As Bs", "lane warp",
    "THREADS_DOWN THREADS_ACROSS", "THREADS WARPS", "WARP WARPS LANES", "m l", "stage phase", "K_at V_at", "K_full V_full",
    "K_empty V_empty", "Q_full Q_empty", "K_head V_head", "O LSE", "first last", "i j", "r c", "row_tiles tiles",
    "O_at LSE_at", "threadIdx blockIdx", "blockDim gridDim", "warp_row warp_col", "head_rows all_rows", "begin end")]
WAITS = re.compile(r"__sync\w+|\w*_wait\w*|\w*_fence|\w*_commit|__threadfence\w*|sync|\w*_arrive\w*|named_barrier_\w+|"
                   r"cluster_\w+|grid_sync|take_turn|pass_turn|registers_held|keep")
# A statement about a thread's own variables does the same before and after a wait.
OWN_VARIABLES = re.compile(r"(?:\+\+|--)?\w+(?:\+\+|--)?(?: [-+*/%&|^]?= [\w\s+*/%&|^-]+)?;")


class Mutant:
    """A fault puts `replacement` in place of file[begin:end]. broken.py copies and compiles it."""

    def __init__(self, rule, file, begin, end, replacement, source):
        self.rule, self.file, self.span, self.replacement = rule, file, (begin, end), replacement
        self.line = source.count("\n", 0, begin) + 1
        first, last = source.rfind("\n", 0, begin) + 1, source.find("\n", end)
        before = source[first:last]
        after = source[first:begin] + replacement + source[end:last]
        self.before, self.after = (" ".join(without_comments(text).split()) for text in (before, after))
        self.diff = "".join(line.rstrip() + "\n" for line in difflib.unified_diff(
            before.splitlines(), after.splitlines(), f"{file}:{self.line}", f"rule: {rule}", n=1, lineterm=""))
        self.edits = [(file, None, replacement)]
        self.repeated = 0  # its number among faults that read the same
        self.kernels = []  # the files to compile with it
        self.compiled = self.folder = None

    name = property(lambda self: f"{self.file}:{self.line} ({self.rule})")
    step = property(lambda self: self.compiled.split("/")[0])
    gpu_only = property(lambda self: self.rule in ("64 bits", "grid of 65535"))

    def key(self):
        return self.file, self.rule, self.before, self.after, self.repeated

    def place(self, _file, _text, _source):
        return self.span

    def directory(self):
        return self.folder


# ---------------------------------------------------------------------------------------------------------------------
# The rules


def matching(tokens, at, pair="()"):
    """Returns the index of the token that closes the bracket at `at`, or opens the bracket that is closed there."""
    depth = 0
    for i in range(at, -1, -1) if tokens[at][0] == pair[1] else range(at, len(tokens)):
        depth += (tokens[i][0] == pair[0]) - (tokens[i][0] == pair[1])
        if depth == 0:
            return i
    return len(tokens) - 1


def untouched(tokens):
    """Returns the indices of tokens that no rule changes: they say what is compiled, not what is computed."""
    skip = set()
    for i, (text, _, _) in enumerate(tokens):
        if text in ("static_assert", "__launch_bounds__", "__align__", "alignas"):
            skip.update(range(i, matching(tokens, i + 1) + 1))
        elif text == "template" and i + 1 < len(tokens):
            skip.update(range(i, matching(tokens, i + 1, "<>") + 1))
        elif text == "extern":
            skip.update((i, i + 1))
    return skip


def statements(tokens):
    """Returns simple statements, (first, last) with the semicolon: assignments and calls that are not declarations."""
    found = []
    begins = True
    for i, (text, _, _) in enumerate(tokens):
        if begins and (re.match(r"[A-Za-z_]\w*$|\*$", text)) and text not in (
                "for", "if", "while", "else", "return", "break", "continue", "const", "struct", "do", "case", "default",
                "static", "template", "typedef", "switch", "constexpr", "using", "extern", "__shared__", "__align__", "alignas"):
            depth, at, changes = 0, i, False
            while at < len(tokens) and not (depth == 0 and tokens[at][0] in (";", "{", "}")):
                depth += (tokens[at][0] in "([{") - (tokens[at][0] in ")]}")
                changes = changes or (depth == 0 and tokens[at][0] in ("=", *ASSIGNMENTS, "^=", "++", "--")) or (
                    tokens[at][0] == "(" and at > i)
                at += 1
            name = i + 2 if tokens[i + 1][0] in ("*", "&") else i + 1  # the declared name, if this is a declaration
            declares = name < len(tokens) and re.match(r"[A-Za-z_]\w*$", tokens[name][0]) and text != "*"
            if at < len(tokens) and tokens[at][0] == ";" and changes and not declares:
                found.append((i, at))
        if text == ")":  # of a for or an if: a statement follows
            begins = tokens[matching(tokens, i) - 1][0] in ("for", "if", "while", "constexpr")
        else:
            begins = text in (";", "{", "}", "else", "do")
    return found


def operand_end(tokens, at):
    """Returns the end offset of the operand that begins at `at`."""
    depth = 0
    end = tokens[at][2]
    for text, _, token_end in tokens[at:]:
        if depth == 0 and text in (";", ")", "]", "}", "&&", "||", "?", ":", ","):
            break
        depth += (text in "([{") - (text in ")]}")
        end = token_end
    return end


def edits_of(source):
    """Yields (rule, begin, end, replacement) for every fault that the rules make in this source."""
    tokens = tokens_of(source)
    skip = untouched(tokens)
    names = {text for text, _, _ in tokens}
    swaps = collections.defaultdict(set)
    for group in NAMES:
        for name in group & names:
            swaps[name] |= group & names - {name}
    simple = statements(tokens)
    shared = set(re.findall(r"__shared__[^;=\[]*?(\w+)\s*;", source))

    def spaced(at):
        return source[tokens[at][1] - 1].isspace() and source[tokens[at][2]].isspace()

    padding = False  # whether this replaces elements past an edge: any finite number works there, but not NaN

    def declared(at):
        before = tokens[at - 1][0]
        return (before.isidentifier() and before != "return") or (
            before in ("*", "&") and tokens[at - 2][0].isidentifier() and not spaced(at - 1))

    for at, (text, begin, end) in enumerate(tokens):
        if at in skip or at == 0 or at + 1 == len(tokens):
            continue
        before, after = tokens[at - 1][0], tokens[at + 1][0]
        padding = before == ":" or (padding and text not in (";", "{", "}", "?"))
        if text in COMPARISONS and spaced(at):
            yield "bound", begin, end, COMPARISONS[text]
            close = operand_end(tokens, at + 1)
            for change in ("- 1", "+ 1"):
                # < with one more is <=, and <= with one less is <.
                if (change == "- 1") == (text in ("<", ">=")):
                    yield "off by one", tokens[at + 1][1], close, f"{source[tokens[at + 1][1]:close]} {change}"
        elif text in ("ceil_div", "min", "max") and after == "(":
            close = tokens[matching(tokens, at + 1)][2]
            if text == "ceil_div":
                yield "off by one", begin, close, f"({source[begin:close]} - 1)"
            else:
                yield "bound", begin, end, {"min": "max", "max": "min"}[text]
        elif text in OTHERS and (spaced(at) or text[0].isalnum()):
            rule, other = OTHERS[text]
            yield rule, begin, end, other
        elif re.fullmatch(r"\d+", text):
            if not (before == after == "," and re.match(r"0, [\w>-]*stream>>>", source[begin:])):  # no array uses that byte
                yield "off by one", begin, end, str(int(text) + 1)
            if int(text) > 0:
                yield "off by one", begin, end, str(int(text) - 1)
        elif text == "0.0f":
            yield "constant", begin, end, '__builtin_nanf("")' if padding else "1e-30f"
        elif text == "^=" or (text == "^" and after == "1"):
            yield "stuck phase", begin, tokens[at + 1][2], "^= 0" if text == "^=" else "^ 0"
        elif text == "!" and after != "=":
            yield "condition", begin, end, ""
        elif re.fullmatch(r"\d+\.\d+f", text):
            yield "constant", begin, end, "1.0f"
        elif text == "size_t" or (text == "long" and after == "long"):
            yield "64 bits", begin, end if text == "size_t" else tokens[at + 1][2], "int"
        elif text == "<<<" or (text == "dim3" and after != "(" and tokens[at + 2][0] == "("):
            first = at + 1 if text == "<<<" else at + 3
            grid = operand_end(tokens, first)
            for cap, rule in ((2, "capped grid"), (65535, "grid of 65535")):
                yield rule, tokens[first][1], grid, f"min((int)({source[tokens[first][1]:grid]}), {cap})"
        elif text == ">>>" and re.fullmatch(r"(?:\w+->)?stream", source[:begin].rsplit(", ", 1)[-1].strip()):
            last = source[:begin].rsplit(",", 1)[-1]
            yield "ignored stream", begin - len(last.lstrip()), begin, "0"
        elif text == "cudaGetLastError" and before == "return":
            yield "status", begin, tokens[at + 2][2], "cudaSuccess"
        elif text == "return" and after == "status":
            yield "status", tokens[at + 1][1], tokens[at + 1][2], "cudaSuccess"
        elif text in swaps and not declared(at):
            for name in sorted(swaps[text]):
                yield "stride or head", begin, end, name

    def own_variables(first, last):
        return OWN_VARIABLES.fullmatch(source[tokens[first][1]:tokens[last][2]]) and not (
            shared & {text for text, _, _ in tokens[first:last]})

    for number, (first, last) in enumerate(simple):
        begin, end = tokens[first][1], tokens[last][2]
        text, called = source[begin:end], tokens[first][0]
        if tokens[first + 1][0] == "." and last > first + 3:
            called = tokens[first + 2][0]
        if not WAITS.fullmatch(called):
            yield "statement dropped", begin, end, ";"
            continue
        yield "wait dropped", begin, end, ";"
        weaker = re.search(r"_(?:wait|read)<(.+)>\(\)", text)
        if weaker:
            yield "wait weakened", begin + weaker.start(1), begin + weaker.end(1), f"({weaker[1]}) + 1"
        # A wait moves behind the next statement, or before the previous one.
        for other, order in ((number + 1, 1), (number - 1, -1)):
            if 0 <= other < len(simple) and not own_variables(*simple[other]):
                a, b = sorted((simple[other], (first, last)))
                if b[0] == a[1] + 1:
                    head, tail = (source[tokens[s[0]][1]:tokens[s[1]][2]] for s in (a, b))
                    yield ("wait too late" if order == 1 else "wait too early"), tokens[a[0]][1], tokens[b[1]][2], \
                        f"{tail} {head}"


def device_headers(path):
    """Returns the headers with device code that a kernel's file includes, as paths below the root."""
    return [str(header.relative_to(ROOT)) for header in closure(path) if header.suffix == ".cuh"]


def kernel_named(file):
    return re.sub(r"^\d+_", "", Path(file).stem)


def kernels_in(file):
    """Returns the kernel of a file; for a file that is no rung, all kernels that call what it defines."""
    if re.match(r"\d+_", Path(file).name):
        return [kernel_named(file)]
    functions = re.findall(r'^extern "C" \w+ (\w+)', (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    calls = re.compile(rf"\b(?:{'|'.join(functions)})\(")
    return [kernel_named(path) for path in of_steps("[0-9]*_*.cu", Path(file).parts[0])
            if calls.search(path.read_text(encoding="utf-8"))]


def mutants(steps, kernels):
    """Returns every fault of these steps. A fault in a header comes once for all kernels that include it."""
    found = []
    files = [path for step in sorted(steps) for path in of_steps("*.cu", f"{step}_*")]
    unknown = set(kernels) - {name for path in files for name in kernels_in(path.relative_to(ROOT))}
    if unknown:
        raise broken.Broken(f"there is no kernel {sorted(unknown)[0]}")
    users = collections.defaultdict(list)
    for path in files:
        file = str(path.relative_to(ROOT))
        if not kernels or set(kernels) & set(kernels_in(file)):
            users[file].append(file)
            for header in device_headers(path):
                users[header].append(file)
    for file in sorted(users):
        source = (ROOT / file).read_text(encoding="utf-8")
        seen = collections.Counter()
        for rule, begin, end, replacement in edits_of(source):
            mutant = Mutant(rule, file, begin, end, replacement, source)
            if mutant.before == mutant.after:
                continue
            mutant.kernels = users[file]
            mutant.repeated = seen[mutant.key()[:4]]
            seen[mutant.key()[:4]] += 1
            found.append(mutant)
    return found


def in_turn(found, seed):
    """
    Returns the faults in an order in which steps and rules take turns, so that its beginning is always a sample of all. The order
    of two faults depends on the seed alone, whatever other faults there are.
    """
    def drawn(key):
        return random.Random(f"{seed} {key}").random()

    groups = collections.defaultdict(list)
    for mutant in found:
        groups[mutant.kernels[0].split("/")[0], mutant.rule].append(mutant)
    queues = [sorted(groups[key], key=lambda mutant: drawn(mutant.key())) for key in sorted(groups, key=drawn)]
    while queues:
        queues = [queue for queue in queues if queue]
        for queue in queues:
            yield queue.pop()


def entries(path, *required, optional):
    """Yields the entries of a list, {field: value} for the lines between two blank ones. # begins a comment."""
    for part in path.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in part.split("\n") if line and not line.startswith("#")]
        entry = dict(line.partition(": ")[::2] for line in lines)
        if entry and set(entry) - {optional} != set(required):
            raise broken.Broken(f"{path.name}: an entry is {', '.join(required)}: {part}")
        if entry:
            yield entry


def equivalent_ones(found):
    """Returns {key: reason} from mutants.txt. An entry that no rule makes any more is refused."""
    listed, keys = {}, {mutant.key() for mutant in found}
    for entry in entries(EQUIVALENT, "file", "rule", "before", "after", "why", optional="repeated"):
        key = (*(entry[field] for field in ("file", "rule", "before", "after")), int(entry.get("repeated", 0)))
        if key not in keys:
            raise broken.Broken(f"{EQUIVALENT.name}: no rule makes this of {entry['file']}: {entry['after']}")
        listed[key] = entry["why"]
    return listed


# ---------------------------------------------------------------------------------------------------------------------
# Running the tests


def gentle(cpu_seconds):
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_test(program, kernels, cpu_seconds, *arguments):
    """Runs a test program on these kernels, or on all. Returns None when it passes, otherwise the test that failed."""
    environment = dict(os.environ, SIMT_WORKERS="1", **({"LADDER_KERNEL": " ".join(kernels)} if kernels else {}))
    with subprocess.Popen([str(program), "--jobs", "1", "--fail-fast", *arguments], env=environment, cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", preexec_fn=lambda: gentle(cpu_seconds),
                          start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=WALL_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the program and its tests have a session of their own
            process.communicate()
            return "no end"
    if process.returncode == 0:
        return None
    failed = re.search(r"\[FAIL\] (\w+)::(\w+)|(\w+)::(\w+): (?:CRASH|Timed out)", output)
    return "/".join(filter(None, failed.groups())) if failed else f"exit status {process.returncode}"


def variants(file):
    """Returns the tests' own compilation of the same source with other tiles: (source or None, the names of its rows)."""
    source = ROOT / "tests/steps" / f"tiles_{file[:2]}.cu"
    if not source.exists():
        return None, []
    text = source.read_text(encoding="utf-8")
    if f'#include "{file}"' not in text:
        return None, []
    return source, sorted(set(re.findall(rf"\battention_({kernel_named(file)}_\w+)", text)))


def test_program(mutant, backend, test):
    """Links a step's test program with the one kernel that has the fault."""
    directory = mutant.directory()
    made = {mutant.compiled: directory / f"{backend}.o"}
    tiles, _ = variants(mutant.compiled)
    if tiles:
        made[f"tests/steps/{tiles.name}"] = directory / f"{backend}_tiles.o"
    program = directory / f"{backend}_{test}"
    broken.link_test(mutant, backend, test, made, program)
    return program


def compile_mutant(mutant, backend):
    directory = mutant.directory()
    broken.compile_source(mutant, backend, directory / mutant.compiled, directory / f"{backend}.o", "-O1")
    tiles, _ = variants(mutant.compiled)
    if tiles:
        broken.compile_source(mutant, backend, tiles, directory / f"{backend}_tiles.o", "-O1")


MAKES_WARNINGS = ("-Wall", "-Wextra", "-Werror")  # make compiles nothing that these refuse
SOUND_OBJECTS = {}  # (folder, kernel, whose sources are copied): the object compiled there from sound sources


def same_object(mutant):
    """Returns whether the compiler makes the same object as from the sound source."""
    directory = mutant.directory()
    copy = directory / mutant.file

    def made():
        target = directory / "same.o"
        broken.compile_source(mutant, "cpu", directory / mutant.compiled, target, "-O2", MAKES_WARNINGS)
        return target.read_bytes()

    with_fault, key = made(), (directory, mutant.compiled, copy.parent)
    if key not in SOUND_OBJECTS:
        fault = copy.read_bytes()
        copy.write_bytes((ROOT / mutant.file).read_bytes())
        SOUND_OBJECTS[key] = made()
        copy.write_bytes(fault)
    return with_fault == SOUND_OBJECTS[key]


SOUND = {}  # (build, test program, kernels, test): the result of the sound kernels


def killed_by(mutant, backend, names):
    """Returns the first of the step's tests that fails with the fault and passes on the sound kernel, or None."""
    for test in sorted(path.stem for path in (ROOT / "tests/steps").glob(f"test_{mutant.step[:2]}*.c")):
        failed = run_test(test_program(mutant, backend, test), names, CPU_SECONDS)
        if not failed:
            continue
        key = backend, test, tuple(names), failed
        if key not in SOUND:
            only = ("--filter", failed) if "/" in failed else ()
            SOUND[key] = run_test(ROOT / "build" / backend / "tests" / test, names, CPU_SECONDS, *only)
        if SOUND[key]:
            raise broken.Broken(f"{' '.join(names)} fails {backend}/{test} {SOUND[key]} without any fault")
        return f"{backend}/{test} {failed}"
    return None


def examine(mutant, kernel, folder):
    """Returns the fate of a fault in one kernel: (outcome, by what)."""
    mutant.compiled, mutant.folder = kernel, folder
    if mutant.gpu_only:
        return "gpu", "only a GPU has sizes that show it"
    broken.copy_sources(mutant)
    names = [*kernels_in(kernel), *variants(kernel)[1]]
    try:
        compile_mutant(mutant, "cpu")
    except broken.Broken:
        return "invalid", "does not compile"
    if killer := killed_by(mutant, "cpu", names):
        return "killed", killer
    try:
        if same_object(mutant):
            return "same", "the same object"
    except broken.Broken:
        return "invalid", "the compiler's warnings refuse it"
    compile_mutant(mutant, "check")
    if killer := killed_by(mutant, "check", names):
        return "killed", killer
    if mutant.rule.startswith("wait"):
        program = broken.build(mutant, "check")
        for name in kernels_in(kernel):
            why = broken.waits_idly(program, name)
            if why:
                return "killed", f"overlap {why}"
    return "survived", "all tests pass"


class Tally:
    """Counts the outcomes by step and by rule, and prints them as they come."""

    def __init__(self, listed):
        self.listed, self.lock = listed, threading.Lock()
        self.counts = collections.defaultdict(collections.Counter)
        self.survivors, self.reserved, self.error = [], 0, None

    def add(self, mutant, outcome, why, seconds):
        if outcome == "survived" and mutant.key() in self.listed:
            outcome = "equivalent"
        elif outcome == "killed" and mutant.key() in self.listed:
            outcome, why = "survived", f"killed by {why}, but {EQUIVALENT.name} lists it: take it off the list"
        for row in (mutant.step, mutant.rule):
            self.counts[row][outcome] += 1
        print(f"{outcome:<10} {seconds:4.0f} s  {mutant.name:<60} {kernel_named(mutant.compiled)}: {why}", flush=True)
        if outcome == "survived":
            self.survivors.append((mutant, why))
            print(mutant.diff, flush=True)

    def summary(self):
        columns = ("killed", "survived", "equivalent", "same", "gpu", "invalid")
        print(f"\n{'':<20}" + "".join(f"{column:>11}" for column in columns) + f"{'rate':>8}")
        for row in sorted(self.counts):
            count = self.counts[row]
            tried = count["killed"] + count["survived"]
            rate = f"{100 * count['killed'] / tried:7.1f}%" if tried else f"{'-':>8}"
            print(f"{row:<20}" + "".join(f"{count[column]:11}" for column in columns) + rate)
        if self.survivors:
            print("\nSurvivors:")
        for mutant, why in self.survivors:
            print(f"\n{mutant.name} in {kernel_named(mutant.compiled)}: {why}")
            print(mutant.diff, end="")
        return 1 if self.survivors else 0


def work(number, queue, limit, tally, seed):
    """Runs one worker, which takes faults until enough that compile have been tried."""
    folder = OUT / f"worker_{number}"
    while True:
        with tally.lock:
            if tally.error or (limit and tally.reserved >= limit):
                return
            mutant = next(queue, None)
            if mutant is None:
                return
            tally.reserved += 1
            kernels = random.Random(f"{seed} {mutant.key()}").sample(mutant.kernels, len(mutant.kernels))
        begin = time.monotonic()
        # A header's fault may compile in one kernel and not in the next.
        try:
            for kernel in kernels[:3]:
                outcome, why = examine(mutant, kernel, folder)
                if outcome not in ("same", "invalid"):
                    break
        except broken.Broken as error:
            tally.error = error
            return
        with tally.lock:
            tally.add(mutant, outcome, why, time.monotonic() - begin)
            if outcome in ("same", "invalid", "gpu"):
                tally.reserved -= 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("command", choices=("run", "list"))
    parser.add_argument("steps", nargs="*", default=[])
    parser.add_argument("--kernel", action="append", default=[])
    parser.add_argument("--rule", action="append", default=[])
    parser.add_argument("--seed")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_intermixed_args()  # steps may come after the options
    options.seed = options.seed or str(secrets.randbelow(10 ** 6))
    every = sorted(path.parent.name[:2] for path in ROOT.glob("0?_*/main.c"))
    steps = options.steps or every
    listed = equivalent_ones(mutants(every, []))
    found = [mutant for mutant in mutants(steps, options.kernel) if not options.rule or mutant.rule in options.rule]
    if options.command == "list":
        for mutant in found:
            print(f"{mutant.name}\n  - {mutant.before}\n  + {mutant.after}")
        print(f"{len(found)} faults")
        return 0
    sample = f"SAMPLE={options.sample} SEED={options.seed} draws these again" if options.sample else "all"
    print(f"{len(found)} faults; {sample}", flush=True)
    tally = Tally(listed)
    queue = in_turn(found, options.seed)
    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        list(pool.map(lambda number: work(number, queue, options.sample, tally, options.seed), range(options.workers)))
    shutil.rmtree(OUT, ignore_errors=True)
    if tally.error:
        raise tally.error
    return tally.summary()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except broken.Broken as error:
        print(f"mutants.py: {error}", file=sys.stderr)
        sys.exit(2)
