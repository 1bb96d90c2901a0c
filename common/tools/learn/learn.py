#!/usr/bin/env python3
"""The learner's loop: says where you are, waits for a save, builds that one kernel and says what is wrong with it.

    make learn [STEP=02]        write the kernels of the core ladders yourself, one rung after the other, puzzles between them
    make learn LADDER=limit     those of another ladder, or of all
    make learn KERNEL=name      this one, or this puzzle
    make learn BROKEN=1         find the fault in kernels that have one
    make learn-status           what you have done

Your files are in work/, which git ignores and nothing here ever overwrites; in a handout they are the step's own. On a
terminal it waits for you to save, and takes h (hint), n (next), b (back), g NAME (go to) and other letters, each with Enter.
Elsewhere it checks once and ends with a status: 0 the rung is done, 1 it is not yet, 2 it cannot be checked.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import difflib
import json
import os
import pathlib
import re
import select
import subprocess
import sys
import textwrap
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "common/tools"), str(ROOT / "common/tools/labs"), str(ROOT / "common/tools/broken")]
import facts
import outfile
import handout
import turns
from source import INCLUDE, LADDERS, comments, lesson_of, of_steps

if not handout.PACKED:
    import broken

WORK = ROOT if handout.PACKED else ROOT / "work"
BUILD = ROOT / "build/learn"
PROGRESS = ROOT / "work/progress.json"
# A make tells these to the makes that it starts. Ours are not its children.
MAKES_OWN = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
STEPS = handout.STEPS
LINES, WIDTH = 25, 98  # of a verdict
RUN_SECONDS, POLL_SECONDS = 30, 0.15
TOTAL_SECONDS, REPORT_BYTES, SAID_BYTES = 600, 1 << 24, 600  # of all that a program reports, and of the last that it says
ORDERS = ("inorder", "reversed", "random:7")

# A kernel is judged by its problem's list of cases (common/harness/cases.h), at these levels in turn: the quick ones in each order
# of threads, all of them in one order or another.
LEVELS = {"quick": [(order, "1/1") for order in ORDERS], "full": [(ORDERS[0], "1/2"), (ORDERS[1], "2/2")]}
COUNTED_AT = {"matmul": "--m 128 --n 128 --k 32", "softmax": "--rows 8 --cols 1024", "attention": "--heads 1 --seq 64 --head-dim 64",
              "attention_backward": "--heads 1 --seq 64 --head-dim 64"}

# These are counted and shown beside what was predicted. What a row claims decides.
COUNTERS = {"global_loads": "loads", "global_load_sectors": "sectors loaded", "global_stores": "stores", "shared_loads": "shared loads",
            "shared_wavefronts": "shared wavefronts", "barriers": "barriers"}

# What went wrong has a name, by which a hint is chosen: the pattern that explains wrong values (common/harness/explain.c and the
# mistakes of common/problems), or one of these. `costs` is a kernel that is right but breaks a claim of its row.
KINDS = {"race": r"\brace\b|proxy fence|no thread has waited", "bounds": r"out of bounds|past the end|past its end|guard",
         "barrier": r"divergent barrier|warp operation|reach the same", "uninitialised": r"uninitialised|not a number: nothing",
         "time": r"did not end within", "compile": r"error:"}

# Usual reasons why a prediction is off by a factor. A barrier is counted once a block, a load once a thread.
FACTORS = {
    "global_loads": {2: "usually one of two arrays that are read, or a second sweep over one",
                     4: "usually bytes for elements, or a load of 16 bytes counted as four loads (it is one)",
                     8: "usually the elements that a thread has beside each other in registers",
                     16: "usually the width of a tile: once a tile or once for each of its elements",
                     32: "usually a warp for a thread: a load counts once for each of its 32 lanes",
                     64: "usually the width of a tile: once a tile or once for each of its elements"},
    "barriers": {2: "usually one of a tile's two barriers: one before it is read, one before it is overwritten",
                 32: "usually a warp for a block: a barrier counts once a block"}}
WITHIN = 0.1

COLOURS = {"red": "31", "green": "32", "bold": "1", "dim": "2"}


class Unable(Exception):
    """Says to the learner what keeps a kernel from being checked."""


def colour(name, text):
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ
    return text if plain else f"\033[{COLOURS[name]}m{text}\033[0m"


def wrapped(text, indent="  "):
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def prose(comment):
    """Returns the words of a C comment."""
    return " ".join(line.strip(" /*") for line in comment.splitlines()).strip()


def relative(path):
    return str(path.relative_to(ROOT))


def number(value):
    return "-" if value is None else f"{value:,}"


class Progress:
    """Keeps what was done and tried, of a kernel under another name too, in work/progress.json, after every change."""

    def __init__(self):
        self.ours = set()  # what this session has been at
        try:
            self.all = json.loads(PROGRESS.read_text())
        except FileNotFoundError:
            self.all = {"step": "01", "at": "", "rungs": {}}
        except ValueError:
            raise Unable(f"{relative(PROGRESS)} is not what it was; repair it, or move it away to begin anew") from None
        for old, name in facts.successors().items():
            step = facts.kernels()[name]["step"][:2]
            memory = self.all["rungs"].pop(f"{step}/{old}", None)
            if memory:
                self.all["rungs"].setdefault(f"{step}/{name}", memory)

    def of(self, key):
        self.ours.add(key)
        return self.all["rungs"].setdefault(key, {"state": "new", "tries": 0, "hints": 0, "predicted": {}})

    def save(self):
        """What another session in this tree has done meanwhile stays."""
        self.all["rungs"] = {**Progress().all["rungs"], **{key: self.all["rungs"][key] for key in self.ours}}
        PROGRESS.parent.mkdir(exist_ok=True)
        outfile.write(PROGRESS, json.dumps(self.all, indent=1) + "\n")


def outside():
    """Returns the environment for a command. A make started by make must not take orders from the first."""
    return {name: value for name, value in os.environ.items() if name not in MAKES_OWN}


def tool(command):
    """Returns output and status of a command."""
    result = subprocess.run(command, cwd=ROOT, env=outside(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            errors="replace", check=False)
    return result.stdout, result.returncode


class Build:
    """Says what a make builds, and how far it is: n of the m lines that it would print."""

    LINE = re.compile(r"^  ([A-Z]+) +(\S+)$")

    def __init__(self, target):
        self.command = ["make", "--no-print-directory", "BACKEND=cpu", target]
        self.moves = sys.stdout.isatty()  # one line, written over; elsewhere some lines
        self.done, self.shown = 0, -1

    def expected(self):
        planned, _ = tool([*self.command, "--dry-run"])
        return len(re.findall(r"^printf '  %-8s %s", planned, re.M))

    def show(self, what, expected):
        part = 10 * self.done // max(expected, 1)
        if self.moves:
            print("\r" + f"  {self.done} of {max(expected, self.done)}  {what}"[:WIDTH].ljust(WIDTH), end="", flush=True)
        elif part > self.shown and expected > 1:
            print(f"  {self.done} of {max(expected, self.done)}  {what}", flush=True)
        self.shown = max(part, self.shown)

    def run(self):
        """Returns output and status."""
        expected, said = self.expected(), []
        with subprocess.Popen(self.command, cwd=ROOT, env=outside(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace") as process:
            for line in process.stdout:
                said.append(line)
                if found := self.LINE.match(line):
                    self.done += 1
                    self.show(found[2], expected)
        if self.moves and self.done:
            print("\r" + " " * WIDTH + "\r", end="", flush=True)
        return "".join(said), process.returncode


def make_ours(step):
    """Returns the step's own program, which yours is linked with and compared to. In a handout its other kernels are yours,
    too."""
    program = ROOT / "build/check" / step
    there = program.exists()
    if not there:
        print(f"building the kernels of {step}, once ...", flush=True)
    output, status = Build(f"build/check/{step}").run()
    if status and not (handout.PACKED and there):
        raise Unable(f"the kernels of {step} could not be built:\n{output[-2000:]}")
    return program


def make_checker():
    """Builds what simtcc links puzzles with."""
    if not (ROOT / "build/simt/libsimt.a").exists():
        print("building the CPU backend, once ...", flush=True)
    output, status = Build("build/simt/libsimt.a").run()
    if status:
        raise Unable(f"the CPU backend could not be built:\n{output[-2000:]}")


def reported(program, *arguments, **environment):
    """Returns the lines that a step's program reports, and the verdict on what it does not report: how it ended.

    What a kernel prints is on stderr (common/harness/output.h), perhaps without end, so the last of it is kept."""
    report, said, endless = bytearray(), b"", ""
    with subprocess.Popen([str(program), *arguments], cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        pipes = [process.stdout, process.stderr]
        begin = line = time.monotonic()  # of the run, and of what its next line reports
        while pipes and not endless:
            for pipe in select.select(pipes, [], [], POLL_SECONDS)[0]:
                piece = os.read(pipe.fileno(), 1 << 16)
                if not piece:
                    pipes.remove(pipe)
                elif pipe is process.stderr:
                    said = (said + piece)[-SAID_BYTES:]
                else:
                    report += piece
                    if b"\n" in piece:
                        line = time.monotonic()
            now = time.monotonic()
            if now - line > RUN_SECONDS:
                endless = f"{RUN_SECONDS} s"
            elif now - begin > TOTAL_SECONDS:
                endless = f"{TOTAL_SECONDS} s"
            elif len(report) > REPORT_BYTES:
                endless = f"{REPORT_BYTES >> 20} MiB of output"
        if endless:
            process.kill()
    lines = report.decode(errors="replace").split("\n")
    if endless:
        return lines, {"check": "FAIL", "detector": "time", "reason": f"did not end within {endless}: an endless loop?"}
    ending = f"signal {-process.returncode}" if process.returncode < 0 else f"status {process.returncode}"
    return lines, {"check": "FAIL", "detector": "crash", "reason": f"ended with {ending}. {said.decode(errors='replace').strip()}"}


def rows_of(lines, *members):
    """Returns the objects with these members, one a line. Another line is not the program's: an initialiser may print before it
    begins."""
    rows = []
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict) and row.keys() >= set(members):
                rows.append(row)
    return rows


def listed(program, *sizes):
    """Returns what the step's program says of its kernels without running them."""
    lines, ending = reported(program, "--list", "--json", *sizes)
    try:
        return json.loads("\n".join(lines))
    except ValueError:
        raise Unable(ending["reason"]) from None


def run_row(program, kernel, sizes, order):
    """Returns what the program says of one kernel, the row of its JSON report."""
    lines, ending = reported(program, "--kernel", kernel, "--repeat", "1", "--json", *sizes.split(), SIMT_ORDER=order, SIMT_WORKERS="1")
    try:
        return json.loads("\n".join(lines))["kernels"][0]
    except (ValueError, LookupError, TypeError):
        return ending


def check_all(program, kernel, cases):
    """Returns [(sizes, order, row)] of these sizes, each in all orders of threads."""
    runs = [(sizes, order) for order in ORDERS for sizes in cases]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = pool.map(lambda run: run_row(program, kernel, *run), runs)
        return [(*run, row) for run, row in zip(runs, rows)]


def run_cases(program, kernel, level, order, part):
    """Returns [(sizes, order, row)] of a part of one level's cases, as far as the program lives. The rows say which cases there
    are: what is linked into the program may end it with status 0 before it has judged them."""
    lines, ending = reported(program, "--kernel", kernel, "--cases", level, "--part", part, "--json", SIMT_ORDER=order, SIMT_WORKERS="1")
    results = [(row["case"], order, row) for row in rows_of(lines, "case", "check", "reason") if row["check"] != "skipped"]
    first, parts = map(int, part.split("/"))
    missing = collections.Counter(facts.cases(kernel, level)[first - 1::parts]) - collections.Counter(sizes for sizes, _, _ in results)
    return results + [(sizes, order, ending) for sizes in list(missing)[:1]]


def claims_of(program, kernel):
    """Returns what the row claims and the kernel does, and why that cannot be said: one of both is empty."""
    lines, ending = reported(program, "--kernel", kernel, "--claims", "--json")
    claims = rows_of(lines, "what", "relation", "bound", "value", "kept", "at")
    promised = re.findall("[<>]=", facts.kernels()[kernel]["claims"])
    return (claims, "") if len(claims) == len(promised) else ([], ending["reason"])


def judge_cases(program, kernel, level):
    """Returns [(sizes, order, row)] of a level's cases in each of its orders."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [result for results in pool.map(lambda run: run_cases(program, kernel, level, *run), LEVELS[level])
                for result in results]


# --------------------------------------------------------------------------------------------------------------------
# What is said of a run


def readable(sizes):
    return sizes.replace("--", "")


def kinds_of(said, pattern=""):
    """Returns the names of what went wrong."""
    return [name for name in (pattern, *(kind for kind, words in KINDS.items() if re.search(words, said))) if name]


def plain(reason):
    return re.sub(r"; SIMT_IGNORE=\S+ lets it pass", "", reason)  # this is not for learners


def times(factor):
    return f"{factor:,.0f}" if factor >= 10 or abs(factor - round(factor)) < 0.05 else f"{factor:.1f}"


def word_on(counter, predicted, counted):
    """Returns what is said of a prediction."""
    if predicted == counted:
        return "right"
    if abs(predicted - counted) <= WITHIN * counted:
        return "within 10 %; the rest is usually the edges, or the first or last tile"
    direction = "few" if predicted < counted else "many"
    if not predicted or not counted:
        return f"too {direction}: " + ("it makes some" if counted else "it makes none")
    factor = max(predicted, counted) / min(predicted, counted)
    why = next((why for usual, why in FACTORS.get(counter, {}).items() if abs(factor - usual) <= WITHIN * usual), None)
    return f"{times(factor)} times too {direction}; " + (why or "count again: how many threads, and how often does each?")


def quoted_lines(text, files):
    """Returns the lines of the learner's files that a report names, two at most."""
    found, named = [], {path.name: path for path in files}
    for name, line in re.findall(r"([\w./-]+\.cuh?):(\d+)", text):
        with contextlib.suppress(LookupError, OSError):
            path = named[pathlib.Path(name).name]
            quote = f"  {path.name}:{line}:  {path.read_text(errors='replace').splitlines()[int(line) - 1].strip()}"[:WIDTH]
            if quote not in found:
                found.append(quote)
    return found[:2]


def failure(results, files):
    """Returns lines that say what is wrong: of the first failure, and where else."""
    failed = [(sizes, order, row) for sizes, order, row in results if row["check"] != "pass"]
    # A report names the line at fault; wrong values are its consequence.
    reported = [result for result in failed if result[2].get("detector") == "launch"]
    sizes, order, row = (reported or failed)[0]
    wrong = list(dict.fromkeys(s for s, _, r in results if r["check"] != "pass"))
    right = [s for s in dict.fromkeys(s for s, _, _ in results) if s not in wrong]
    same_sizes = [r["check"] == "pass" for s, _, r in results if s == sizes]
    lines = [colour("red", f"WRONG at {readable(sizes)}" + ("" if order == ORDERS[0] else f", threads in the order {order}"))]
    if row.get("wrong"):
        lines += wrapped(f"What this case is for: {row['wrong']}.")
    reason = plain(row["reason"])
    if row.get("detector") == "launch":
        reason = reason.partition(": ")[2] or reason
    if row.get("where"):
        first, _, _ = reason.partition(". " + row["where"])
        lines += wrapped(f"{first}. {row['where'][:1].upper()}{row['where'][1:]}.")
        if any(same_sizes) and not all(same_sizes):
            lines += wrapped("Right in one order of threads and wrong in another: threads do not wait for each other where they must.")
        elif row["why"]:
            lines += wrapped("Why: " + row["why"].removesuffix(".") + ("" if row["why"].endswith("?") else "."))
        lines += ["  " + line for line in row["map"].splitlines()]
    else:
        lines += wrapped(reason)
    lines += quoted_lines(reason, files)
    others = len({s for s in wrong} - {sizes})
    lines += wrapped((f"also wrong at {others} other size{'s' if others > 1 else ''}; " if others else "") +
                     ("right at " + "; ".join(readable(s) for s in right[:3]) if right else "right nowhere yet") + ".")
    return lines


def clip(lines, room=LINES):
    """Returns at most so many lines; the rest goes to a file."""
    if len(lines) <= room:
        return lines
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "last.txt").write_text("\n".join(lines) + "\n")
    return lines[:room - 1] + [f"  ({len(lines) - room + 1} more lines: {relative(BUILD / 'last.txt')})"]


def compiler_lines(output):
    """Returns the first errors of a compiler, each with its line, without what followed from them."""
    errors = [line for line in output.splitlines() if re.search(r"\berror\b|undefined reference", line)]
    shown = list(dict.fromkeys(line.replace(f"{ROOT}/", "") for line in errors or output.splitlines()))
    return [colour("red", "DOES NOT COMPILE")] + [line for text in shown[:5] for line in wrapped(text)][:LINES - 2]


# --------------------------------------------------------------------------------------------------------------------
# A rung of the ladder, a puzzle, and a broken kernel. Each can tell what it is, build and judge itself, and give hints.


def written_hints(step):
    """Returns {name: [(kinds, text)]} of NN_step/hints.txt. Under a name, which begins its line, are hints: each begins with "- "
    and, where it is for a mistake, the mistake's kinds, "[race, bounds] "."""
    hints = {}
    for line in (ROOT / step / "hints.txt").read_text().splitlines():
        if line.startswith("- "):
            under.append(line[2:])
        elif line.startswith("  "):
            under[-1] += f" {line.strip()}"
        elif line and not line.startswith("#"):
            under = hints[line] = []
    parts = {name: [re.fullmatch(r"(?:\[([^]]*)\] )?(.*)", hint).groups() for hint in under] for name, under in hints.items()}
    return {name: [((kinds or "").split(", "), text) for kinds, text in under] for name, under in parts.items()}


class Written:
    """What a rung and a puzzle share: their hints, written by hand, that which fits the last mistake first."""

    def hint(self, memory):
        """Returns a title and lines, or None. `given` has the numbers of those that were given."""
        hints = written_hints(self.step).get(self.hinted, [])
        given = memory.setdefault("given", [])
        left = [number for number in range(len(hints)) if number not in given]
        fitting = [number for number in left if set(hints[number][0]) & set(memory.get("kinds", ()))]
        if left:
            given.append((fitting or left)[0])
            title = f"Hint {len(given)} of {len(hints)}" + (", for what went wrong just now" if fitting else "")
            return title, wrapped(hints[given[-1]][1])
        if handout.PACKED or "all" in given:
            return None
        given.append("all")
        source = ROOT / self.step / self.name_of(self.file)
        return "No more hints. Where it is written", [f"  {relative(source)}", f"  diff {relative(self.file)} {relative(source)}"]

    def name_of(self, path):
        return str(path.relative_to(self.folder))

    def turn(self):
        """Another session in this tree may build the same step's."""
        return turns.of(BUILD / self.step)


class Rung(Written):
    """A rung is one kernel to be written."""

    def __init__(self, step, index, kernel, about, problem):
        self.step, self.index, self.kernel, self.about, self.problem = step, index, kernel, about, problem
        self.prefix = about["function"].removesuffix(kernel)  # of all functions of the problem
        self.key = f"{step[:2]}/{kernel}"
        self.ladder, self.hinted = about["ladder"], kernel
        self.folder = WORK / step
        self.file = self.folder / about["file"]

    def make_files(self):
        if not handout.PACKED:
            self.take_over()
            handout.workspace(self.step, self.folder)

    def take_over(self):
        """Moves in what was written before the ladders had folders, or a kernel its number and its name."""
        rows = {row["file"]: row for row in facts.kernels().values() if row["step"] == self.step}
        moved = []
        for name in handout.lab_of(self.step)["files"]:
            now, kernel = self.folder / name, rows.get(name)
            names = [kernel["name"], *kernel["was"].split()] if kernel else []
            before = [self.folder / now.name, *(path for each in names for path in sorted(self.folder.rglob(f"*_{each}.cu"))
                                                if re.fullmatch(rf"\d+_{each}", path.stem))]
            before = [path for path in before if path.exists()]
            if before and not now.exists():
                now.parent.mkdir(exist_ok=True)
                # Of several the one with the fewest stubs left.
                min(before, key=lambda path: path.read_text(errors="replace").count(handout.UNUSED)).rename(now)
                moved.append(name)
            if now.exists():
                self.rename(now, names)
        if moved:
            places = moved if len(moved) <= 2 else dict.fromkeys(str(pathlib.Path(name).parent) + "/" for name in moved)
            print(f"{relative(self.folder)}: {len(moved)} of your files moved to {', '.join(places)}, where ours are now")

    def rename(self, path, names):
        """Gives a file of yours the names that functions have now: a kernel's own, and of the others those that it may call."""
        text = before = path.read_text(errors="surrogateescape")
        for name in names[1:]:
            text = re.sub(rf"\b(\w+_){name}\b", rf"\1{names[0]}", text)
        for old, name in facts.successors().items():
            text = re.sub(rf"\b{self.prefix}{old}\b", f"{self.prefix}{name}", text)
        if text != before:
            path.write_text(text, errors="surrogateescape")

    def places(self):
        """Returns where a file of yours finds what it includes, yours before ours; by its name alone, too, as before the move."""
        return [top / folder for top in (WORK, ROOT) for folder in ("", *(f"{self.step}/{ladder}" for ladder in LADDERS))]

    def files(self):
        """Returns the kernel's file and what it includes of yours."""
        found, new = [], [self.file]
        while new:
            path = new.pop()
            if path not in found and path.is_file():
                found.append(path)
                for name in INCLUDE.findall(path.read_text(errors="replace")):
                    spelled = (pathlib.Path(os.path.normpath(place / name)) for place in (path.parent, *self.places()))
                    new += filter(None, [next(filter(pathlib.Path.is_file, spelled), None)])
        mine = [path for path in found if self.folder in path.parents]
        return mine + [path for path in self.helpers() if path not in mine]

    def helpers(self):
        """Returns other .cu files of the step that kernels call, with a stub: they are yours once you have begun them."""
        kernels = {row["file"] for row in self.about["rows"]}
        return [self.folder / name for name in self.about["stubs"] if name.endswith(".cu") and name not in kernels]

    def untouched(self, path):
        return handout.untouched(self.step, self.name_of(path), self.folder)

    def unwritten(self):
        """Returns files of this rung that have a stub with nothing written into it."""
        return [path for path in self.files() if path.exists() and self.untouched(path)]

    def introduce(self):
        ladder = [row["name"] for row in self.about["rows"] if row["ladder"] == self.ladder]
        of = f"Step {self.step[:2]}, " + ("" if self.ladder == "core" else f"ladder {self.ladder}, ")
        lines = [colour("bold", f"{of}rung {ladder.index(self.kernel) + 1} of {len(ladder)}: {self.kernel}"), *wrapped(self.about["idea"])]
        for path in self.unwritten() or [self.file]:
            lines.append(f"  write  {relative(path)}")
        lines.append(f"  read   {lesson_of(ROOT / self.step / self.about['file']).relative_to(ROOT)}, and the comment at the top of the file")
        return lines

    def questions(self):
        """Returns (counter, question) for the prediction."""
        sizes = readable(self.counted_at())
        yield "global_loads", f"At {sizes}: how many loads from global memory will it make?"
        if self.ours().get("barriers"):
            yield "barriers", "And at how many barriers will its blocks wait, counted once per block?"

    def ours(self):
        """Returns what our kernel counts, kept until its program changes. A handout has no kernel of ours, but its formulas."""
        program = ROOT / "build/check" / self.step
        if handout.PACKED:
            return listed(program, f"--kernel={self.kernel}", *self.counted_at().split())["kernels"][0]
        cache = BUILD / self.step / f"{self.kernel}.json"
        if not cache.exists() or cache.stat().st_mtime < program.stat().st_mtime:
            row = run_row(program, self.kernel, self.counted_at(), ORDERS[0])
            cache.parent.mkdir(parents=True, exist_ok=True)
            cache.write_text(json.dumps(row))
        return json.loads(cache.read_text())

    def counted_at(self):
        return self.about["own_sizes"] or COUNTED_AT[self.problem]

    def compile(self, source, target):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # an older build must not be taken for this one
        places = [*self.places(), *(ROOT / "common" / room for room in ("", "device", "harness", "problems"))]
        # -g1: a report needs lines, and local variables take a quarter of the compiler's time.
        return tool(["common/simt/simtcc", "--check", "-g1", *(f"-I{relative(place)}" for place in places), "-w", "-c", relative(source),
                     "-o", relative(target)])

    def build(self):
        """Returns (program, None), or (None, lines that say why not)."""
        objects = BUILD / self.step
        objects.mkdir(parents=True, exist_ok=True)
        program = objects / "program"
        program.unlink(missing_ok=True)
        if not self.file.exists():
            return None, [colour("red", f"{relative(self.file)} is not there"), "  stop and begin again, and you get the stub"]
        mine = [self.name_of(path) for path in self.helpers() if path.exists() and not self.untouched(path)] + [self.about["file"]]
        for name in mine:
            output, status = self.compile(self.folder / name, objects / f"{name}.o")
            if status:
                return None, compiler_lines(output)
        theirs = [f"build/check/obj/{self.step}/{name}.o" for pattern in ("*.cu", "*.c") for path in of_steps(pattern, self.step)
                  if (name := str(path.relative_to(ROOT / self.step))) not in mine]
        output, status = tool([os.environ.get("CXX", "g++"), "-pthread", *(relative(objects / f"{name}.o") for name in mine), *theirs,
                               "build/check/libcommon.a", "build/simt/libsimt.a", "-lm", "-ldl", "-o", relative(program)])
        if status:
            return None, compiler_lines(output)
        return program, None

    def judge(self, memory):
        """Returns (state, lines)."""
        begin = time.monotonic()
        if self.file in self.unwritten():
            return "new", [f"{relative(self.file)} is still the stub: write where it says \"Yours to write\", and save"]
        memory["kinds"] = []
        program, lines = self.build()
        if program is None:
            memory["kinds"] = ["compile"]
            return "tried", lines
        built = time.monotonic()
        runs = 0
        for level in LEVELS:
            results = judge_cases(program, self.kernel, level)
            runs += len(results)
            if any(row["check"] != "pass" for _, _, row in results):
                state, lines = "tried", failure(results, self.files())
                failed = [row for _, _, row in results if row["check"] != "pass"]
                first = next((row for row in failed if row.get("detector") == "launch"), failed[0])
                memory["kinds"] = kinds_of(first["reason"], first.get("pattern", ""))
                break
            if level == "quick" and sys.stdout.isatty():
                print(colour("dim", f"  right at the first {len(results)} runs; all cases take up to half a minute ..."), flush=True)
        else:
            state, lines = self.compare(program, memory, runs)
        lines.append(colour("dim", f"  built in {built - begin:.1f} s, {runs} runs in {time.monotonic() - built:.1f} s; "
                            f"to see it: make show-{self.step[:2]} KERNEL={self.kernel}{'' if handout.PACKED else ' MINE=1'}"))
        return state, lines

    def table(self, row, memory):
        """Returns lines with what was predicted, counted, and what ours counts."""
        ours = self.ours()
        lines = ["", f"  at {readable(self.counted_at()):<28}{'predicted':>14}{'counted':>14}{'expected' if handout.PACKED else 'ours':>14}"]
        for counter, name in COUNTERS.items():
            mine, theirs, predicted = row.get(counter, 0), ours.get(counter, 0), memory["predicted"].get(counter)
            if counter in ours and (mine or theirs):
                lines.append(f"  {name:<31}{number(predicted):>14}{number(mine):>14}{number(theirs):>14}")
        for counter, predicted in memory["predicted"].items():
            lines += wrapped(f"Your prediction of {COUNTERS[counter]}: {word_on(counter, predicted, row.get(counter, 0))}.")
        return lines

    def compare(self, program, memory, runs):
        """Tells about a kernel that is right everywhere: what the rung claims, prediction, counts, ours."""
        claims, said = claims_of(program, self.kernel)
        table = self.table(run_row(program, self.kernel, self.counted_at(), ORDERS[0]), memory)
        broken_ones = [claim for claim in claims if not claim["kept"]]
        lines = ["", "  What this rung claims:"] if claims else []
        for claim in claims:
            limit = f"{'at most' if claim['relation'] == '<=' else 'at least'} {number(claim['bound'])}"
            line = f"  {claim['what']:<22}{limit:>22}, yours {number(claim['value'])}  (at {readable(claim['at'])})"
            lines.append(line if claim["kept"] else colour("red", line))
        if said:
            return "right", [colour("bold", "RIGHT, but its claims could not be checked"), *wrapped(said)]
        if broken_ones:
            memory["kinds"] = ["costs"]
            return "right", [colour("bold", f"RIGHT in all {runs} runs, but this is not the rung yet"), *lines, *wrapped(
                f"The idea of this rung: {self.about['idea']}. h gives a hint; n goes on all the same.")]
        verdict = f"RIGHT in all {runs} runs, in all orders of threads" + ("" if claims else "; SPEED NOT JUDGED: only a GPU's clock can")
        return "passed", [colour("green", verdict)] + lines + table


class Puzzle(Written):
    """A puzzle is one function of a program that judges itself, by values and by what the checked build counts."""

    ladder = "core"

    def __init__(self, step, number, name, about, count):
        self.step, self.number, self.kernel, self.count = step, number, name, count
        self.before = about["before"]
        self.key, self.hinted = f"{step[:2]}/puzzles/{name}", f"puzzles/{name}"
        self.folder = WORK / step
        self.file = self.folder / "puzzles" / f"{name}.cu"

    def make_files(self):
        handout.workspace(self.step, self.folder)

    def files(self):
        return [self.file]

    def introduce(self):
        """The task is the comment at the top; in a handout the learner may have removed it."""
        said = comments((ROOT / self.step / self.name_of(self.file)).read_text(errors="replace"))
        title, _, rest = (said[0][0] if said else "").strip("/*\n ").replace("\n *", "\n").partition("\n\n")
        return [colour("bold", f"Puzzle {self.number + 1} of {self.count} of step {self.step[:2]}: {self.kernel}. {prose(title)}"),
                *wrapped(prose(rest)), f"  write  {relative(self.file)}"]

    def questions(self):
        return ()

    def untouched(self):
        """A handout has no answer by which to know its stub without a hint, so that is judged there."""
        name = self.name_of(self.file)
        text = self.file.read_text(errors="replace")
        return handout.untouched(self.step, name, self.folder) or not handout.PACKED and \
            text == handout.stub(pathlib.Path(self.step, name))

    def run(self, program, order):
        """Returns lines of what the program says of itself, and whether it found nothing wrong."""
        try:
            done = subprocess.run([str(program)], cwd=ROOT, env=dict(os.environ, SIMT_ORDER=order, SIMT_WORKERS="1"), check=False,
                                  capture_output=True, text=True, errors="replace", timeout=RUN_SECONDS)
        except subprocess.TimeoutExpired:
            return ["WRONG", f"It did not end within {RUN_SECONDS} s: an endless loop?"], False
        said = done.stdout.splitlines()
        if done.returncode == 0 and said[-1:] == ["RIGHT"]:
            return said, True
        reports = [line for line in done.stderr.splitlines() if not re.match("simt: (launches|  )", line)]
        return said or ["WRONG", f"It ended with status {done.returncode}. {' '.join(reports)[-600:]}"], False

    def judge(self, memory):
        """Returns (state, lines)."""
        if not self.file.exists():
            return "tried", [colour("red", f"{relative(self.file)} is not there"), "  stop and begin again, and you get the stub"]
        if self.untouched():
            return "new", [f"{relative(self.file)} is still the stub: write what it asks for, and save"]
        return self.verdict(memory)

    def verdict(self, memory):
        """Returns (state, lines) of what is written."""
        begin = time.monotonic()
        memory["kinds"] = []
        program = BUILD / self.step / "puzzle"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.unlink(missing_ok=True)  # an older build must not be taken for this one
        output, status = tool(["common/simt/simtcc", "--check", "-g1", "-w", "-I.", "-Icommon", relative(self.file), "-o", relative(program)])
        if status:
            memory["kinds"] = ["compile"]
            return "tried", compiler_lines(output)
        for order in ORDERS:
            said, right = self.run(program, order)
            if not right:
                break
        timing = colour("dim", f"  {time.monotonic() - begin:.1f} s")
        if right:
            return "passed", [colour("green", "RIGHT at all sizes, in all orders of threads"), timing]
        reason = plain(" ".join(said[1:]))
        costs = said[0].startswith("RIGHT")
        memory["kinds"] = ["costs"] if costs else kinds_of(reason)
        title = said[0] + ("" if order == ORDERS[0] else f", threads in the order {order}")
        return "right" if costs else "tried", [colour("bold" if costs else "red", title), *wrapped(reason + "."),
                                               *quoted_lines(reason, [self.file]), timing]


class Exercise:
    """An exercise is one broken kernel: its symptom first, its cause when asked."""

    step = "broken"

    def __init__(self, fault, count):
        self.fault, self.count = fault, count
        self.kernel = fault.kernel
        self.key = f"broken/{fault.exercise}"
        self.file = fault.directory() / fault.file

    def turn(self):
        return self.fault.turn()

    def make_files(self):
        with self.turn():
            broken.copy_sources(self.fault, keep=True)

    def files(self):
        return sorted(self.fault.directory().rglob("*.cu*"))

    def introduce(self):
        return [colour("bold", f"Broken kernel {self.fault.exercise} of {self.count}: {self.kernel}") + f" of {self.fault.step}",
                *wrapped("Symptom: " + self.fault.symptom + "."),
                f"  repair  {relative(self.file)}", "  h shows what the checks say, then the cause, then the repair"]

    def questions(self):
        return ()

    def judge(self, memory):
        begin = time.monotonic()
        if self.file.read_text() == broken.planted(self.fault, self.fault.file):
            return "new", ["Nothing is changed yet. Find the line, repair it, save. h says more."]
        try:
            program = broken.build(self.fault, "check")
        except broken.Broken as error:
            return "tried", compiler_lines(str(error))
        results = check_all(program, self.kernel, self.fault.runs)
        if all(row["check"] == "pass" for _, _, row in results):
            return "passed", [colour("green", f"REPAIRED: right at {'; '.join(map(readable, self.fault.runs))}, in all orders of threads"),
                              *wrapped("It was: " + self.fault.wrong + ".")]
        return "tried", [colour("red", "STILL BROKEN"), *failure(results, self.files())[1:],
                         colour("dim", f"  {time.monotonic() - begin:.1f} s")]

    def hint(self, memory):
        """Returns a title and lines, or None: what the checks say, the cause, the repair."""
        stage = memory["hints"]
        if stage == 0:
            try:
                results = check_all(broken.build(self.fault, "check"), self.kernel, list(self.fault.runs))
                wrong = any(row["check"] != "pass" for _, _, row in results)
                return "What the checks say", failure(results, self.files()) if wrong else ["  nothing: it passes"]
            except broken.Broken as error:
                return "What the checks say", compiler_lines(str(error))
        if stage == 1:
            return "The cause", wrapped(self.fault.wrong)
        return ("The repair", [f"  diff {relative(self.file)} {self.fault.file}"]) if stage == 2 else None


# --------------------------------------------------------------------------------------------------------------------
# Which is next


def rungs_of(step):
    """Returns the rungs of a step: its kernels that have a stub."""
    stubs = handout.lab_of(step)["stubs"]
    rows = [row for row in facts.kernels().values() if row["step"] == step and row["file"] in stubs]
    return [Rung(step, index, row["name"], dict(row, rows=rows, stubs=stubs), row["problem"]) for index, row in enumerate(rows)]


def puzzles_of(step):
    puzzles = handout.lab_of(step)["puzzles"]
    return [Puzzle(step, number, pathlib.Path(name).stem, about, len(puzzles)) for number, (name, about) in enumerate(puzzles.items())]


def exercises():
    if handout.PACKED:
        return []
    faults = sorted((fault for fault in broken.read_faults() if fault.exercise), key=lambda fault: fault.exercise)
    for fault in faults:
        fault.learners = True
    return [Exercise(fault, len(faults)) for fault in faults]


def ladders_of(step):
    """Returns the ladders that a step has beside its core."""
    return list(dict.fromkeys(rung.ladder for rung in rungs_of(step) if rung.ladder != "core"))


def path_of(step, ladder):
    """Returns what is to be done in a step, in order: the rungs of a ladder or of all, and each puzzle before the rung that it
    leads to."""
    if step == "broken":
        return exercises()
    rungs = [rung for rung in rungs_of(step) if ladder in ("all", rung.ladder)]
    puzzles = puzzles_of(step)
    # Where the rung is handed out finished, the puzzle has no place of its own and comes first.
    homeless = [puzzle for puzzle in puzzles if puzzle.before not in {rung.kernel for rung in rungs_of(step)}]
    path = homeless if ladder in ("all", "core") else []
    for rung in rungs:
        path += [puzzle for puzzle in puzzles if puzzle.before == rung.kernel] + [rung]
    return path


def find(name):
    """Returns the rung or the puzzle with this name, or the rung that had it before."""
    now = facts.successors().get(name, name)
    everything = [unit for step in STEPS.values() for unit in [*rungs_of(step), *puzzles_of(step)]]
    for unit in everything:
        if unit.kernel == now:
            return unit
    near = difflib.get_close_matches(name, [unit.kernel for unit in everything], 3, 0.5) or [rungs_of(STEPS[min(STEPS)])[0].kernel]
    raise Unable(f"'{name}' is no kernel that has a stub, and no puzzle; there is {', '.join(near)}")


# --------------------------------------------------------------------------------------------------------------------
# The loop


class Loop:
    """Runs one session."""

    def __init__(self, step, waits, kernel=None, ladder="core"):
        self.progress = Progress()
        self.kernel = kernel  # the only one, or None
        self.waits = waits
        self.ladder = ladder
        self.step = step or self.progress.all["step"]
        self.path = [unit for name in (["broken"] if step == "broken" else STEPS.values()) for unit in path_of(name, ladder)]
        self.unit = None
        self.started = step is None and kernel is None  # it goes on where the last session was
        self.seen = None  # the files as they were judged last
        self.typed = b""
        self.pending = []  # what a question was answered with that is no answer

    def state(self, unit):
        return self.progress.all["rungs"].get(unit.key, {"state": "new"})["state"]

    def open_one(self):
        """Returns what is neither done nor left out, the first from here on and then from the beginning; None when there is nothing."""
        here = [index for index, unit in enumerate(self.path) if self.unit and unit.key == self.unit.key]
        if self.unit is None and self.started:
            here = [index for index, unit in enumerate(self.path)
                    if unit.key == self.progress.all.get("at") and unit.step[:2] == self.step]
        here = here or [index for index, unit in enumerate(self.path) if unit.step == "broken" or unit.step[:2] >= self.step]
        first = here[0] if here else 0
        return next((unit for unit in self.path[first:] + self.path[:first] if self.state(unit) not in ("passed", "skipped")), None)

    def farewell(self):
        """Says what was done when nothing is left, and what was left out."""
        skipped = [unit.kernel if unit.step != "broken" else str(unit.fault.exercise) for unit in self.path
                   if self.state(unit) == "skipped"]
        if skipped:
            print("\n".join([f"You have been through all of it, and left out {len(skipped)}:", *wrapped(", ".join(skipped))] +
                            ["  make learn KERNEL=name goes back to one."] * (self.step != "broken")))
        elif self.step == "broken":
            print("All broken kernels are repaired.")
        else:
            print("Everything is done." if self.ladder in ("core", "all") else f"The ladder {self.ladder} is done.")
        if self.step != "broken" and self.ladder == "core":
            others = sorted({ladder for step in STEPS.values() for ladder in ladders_of(step)})
            print("".join(f"  make learn LADDER={ladder} goes on with the ladder {ladder}\n" for ladder in others), end="")
        if self.step != "broken" and not handout.PACKED:
            print("  make learn BROKEN=1 has broken kernels; make learn-status shows what you did")

    def begin(self, unit=None):
        """Goes to a rung, the next one where none is named. Returns false when nothing is left."""
        unit = unit or (find(self.kernel) if self.kernel else self.open_one())
        if unit is None:
            self.farewell()
            return False
        self.unit = unit
        if unit.step != "broken":
            self.step = self.progress.all["step"] = unit.step[:2]
            if not self.kernel:
                self.progress.all["at"] = unit.key
            if isinstance(unit, Puzzle):
                make_checker()
            else:
                make_ours(unit.step)
        unit.make_files()
        self.memory = self.progress.of(unit.key)
        self.progress.save()
        self.seen = self.stamp()
        print("\n".join(unit.introduce()), flush=True)
        return True

    def predict(self):
        """Asks for predictions. Whoever saves or types a command instead is not asked further."""
        for counter, question in self.unit.questions():
            if counter in self.memory["predicted"]:
                continue
            print(f"  {question} (a number, or Enter) ", end="", flush=True)
            answer = self.wait()
            if answer is None:
                print("\n  You saved, so this is checked first.")
            if answer is None or is_command(answer):
                self.pending.append(answer)
                break
            if re.fullmatch(r"[\d,._' ]*\d[\d,._' ]*", answer):
                self.memory["predicted"][counter] = int(re.sub(r"\D", "", answer))
            elif answer:
                print("  Not a number, so no prediction.")
        self.progress.save()

    def check(self):
        """Judges what is there now. Returns true when the rung is done."""
        self.seen = self.stamp()
        with self.unit.turn():
            state, lines = self.unit.judge(self.memory)
        if state != "new":
            self.memory["tries"] += 1
            self.memory["state"] = state
        self.progress.save()
        print("\n".join(clip(lines)), flush=True)
        return state == "passed"

    def hint(self):
        with self.unit.turn():
            found = self.unit.hint(self.memory)
        if found is None:
            print("  That was the last hint.")
            return
        self.memory["hints"] += 1
        self.progress.save()
        print("\n".join([colour("bold", found[0]), *clip(found[1], LINES - 1)]), flush=True)

    def once(self):
        """Without a terminal, gives one verdict, and says where to go on."""
        if not self.begin():
            return 0
        done = self.check()
        if done and not self.kernel:
            self.begin()
        return 0 if done else 1

    def go(self, name):
        """Goes to a kernel or a puzzle, and on from there."""
        try:
            unit = find(name)
        except Unable as error:
            print(f"  {error}")
            return True
        self.kernel = None
        if unit.key not in [other.key for other in self.path]:
            self.ladder = unit.ladder
            self.path = [other for step in STEPS.values() for other in path_of(step, self.ladder)]
        return self.enter(unit)

    def back(self):
        before = [index for index, unit in enumerate(self.path) if unit.key == self.unit.key]
        if not before or before[0] == 0:
            print("  This is the first.")
            return True
        self.kernel = None
        return self.enter(self.path[before[0] - 1])

    def command(self, line):
        """Obeys a line that was typed. Returns false to end."""
        letter, _, name = line.partition(" ")
        letter = letter[:1].lower() or "r"
        if letter == "q":
            print("make learn goes on from here.")
            return False
        if letter == "h":
            self.hint()
        elif letter == "s":
            status(self.progress)
        elif letter == "n":
            if self.memory["state"] != "passed":
                self.memory["state"] = "skipped"
                print(f"  {self.unit.kernel} is left out; b goes back to it.")
            if self.kernel:
                self.kernel = None
            return self.enter()
        elif letter == "b":
            return self.back()
        elif letter == "g" and name:
            return self.go(name.strip())
        elif letter == "r":
            return self.checked()
        else:
            print("  " + KEYS)
        return True

    def checked(self):
        """Judges, and goes on when the rung is done. Returns false to end."""
        return not self.check() or not self.kernel and self.enter()

    def enter(self, unit=None):
        if not self.begin(unit):
            return False
        if self.state(self.unit) in ("passed", "skipped"):
            print(f"  This one is {'done' if self.state(self.unit) == 'passed' else 'left out'}; n goes on.")
        self.predict()
        if not self.pending:
            print("  " + KEYS + "\nwaiting for you to save ...", flush=True)
        return True

    def stamp(self):
        found = []
        for path in self.unit.files():
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((path, status.st_mtime_ns, status.st_size))
        return found

    def wait(self):
        """Waits until a file is saved (None) or a line is typed, also one that came while something else was done."""
        if self.pending:
            return self.pending.pop(0)
        while True:
            if b"\n" in self.typed:
                line, _, self.typed = self.typed.partition(b"\n")
                return line.decode(errors="replace").strip()
            if self.stamp() != self.seen:
                time.sleep(POLL_SECONDS / 3)  # an editor may write in two pieces
                return None
            if select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
                piece = os.read(sys.stdin.fileno(), 4096)
                if not piece:
                    return "q"
                self.typed += piece

    def run(self):
        if not self.waits:
            return self.once()
        going = self.enter()
        while going:
            line = self.wait()
            if line is None:
                print(colour("dim", f"--- {time.strftime('%H:%M:%S')} ") + relative(self.unit.file), flush=True)
                going = self.checked()
            else:
                going = self.command(line)
        return 0


def is_command(line):
    return bool(re.fullmatch(r"[hnbrsq]|g( \S+)?", line.lower()))


KEYS = "h hint   r run again   n next   b back   g NAME go to   s status   q quit   (and Enter)"


def status(progress):
    """Prints what was done, one line a step, and what was left out."""
    marks = {"new": ".", "tried": "o", "right": "+", "passed": "#", "skipped": "-"}
    print("# done   + right, but costs too much   o tried   - left out   . to do")
    rows = []  # name, units, remark
    for number, step in STEPS.items():
        rungs, puzzles = rungs_of(step), puzzles_of(step)
        if puzzles:
            rows.append((f"{number} puzzles", puzzles, ""))
        rows.append((step, [rung for rung in rungs if rung.ladder == "core"], "  <- here" if progress.all["step"] == number else ""))
        rows += [(f"{number} {ladder}", [rung for rung in rungs if rung.ladder == ladder], "") for ladder in ladders_of(step)]
    rows.append(("broken kernels", exercises(), ""))
    widest = max(len(units) for _, units, _ in rows)
    skipped = []
    for name, units, remark in rows:
        states = [progress.all["rungs"].get(unit.key, {"state": "new"})["state"] for unit in units]
        if states:
            done = f"{states.count('passed')} of {len(states)}"
            print(f"  {name:<20} {''.join(marks[state] for state in states):<{widest}} {done}{remark}")
        skipped += [unit.kernel for unit, state in zip(units, states) if state == "skipped"]
    if skipped:
        print("\n".join(wrapped("left out: " + ", ".join(skipped))))
    tries = [rung for rung in progress.all["rungs"].values() if rung["state"] != "new"]
    print(f"  {sum(rung['tries'] for rung in tries)} tries, {sum(rung['hints'] for rung in tries)} hints")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", choices=list(STEPS), help="begin here instead of where you were")
    parser.add_argument("--ladder", default="core", choices=["core", *(name.strip("/") for name in LADDERS if name), "all"],
                        help="the kernels of this ladder")
    parser.add_argument("--kernel", help="this kernel or puzzle alone")
    parser.add_argument("--broken", action="store_true", help="broken kernels")
    parser.add_argument("--status", action="store_true", help="print what was done")
    arguments = parser.parse_args()
    try:
        if arguments.broken and handout.PACKED:
            raise Unable("a handout has no broken kernels")
        if arguments.status:
            status(Progress())
            return 0
        waits = sys.stdin.isatty() and sys.stdout.isatty()
        return Loop("broken" if arguments.broken else arguments.step, waits, arguments.kernel,
                    arguments.ladder).run()
    except (Unable, outfile.Refused, *(() if handout.PACKED else (broken.Broken,))) as error:
        print(f"learn: {error}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, EOFError):
        print("\nmake learn goes on from here.")
        return 0


if __name__ == "__main__":
    sys.exit(main())
