#!/usr/bin/env python3
"""The learner's loop: says where you are, waits for a save, builds that one kernel and says what is wrong with it.

    make learn [STEP=02]        write the kernels of the ladder yourself, one rung after the other
    make learn KERNEL=name      this one
    make learn BROKEN=1         find the fault in kernels that have one
    make learn-status           what you have done

Your files are in work/, which git ignores and nothing here ever overwrites; in a handout they are the step's own. On a
terminal it waits for you to save, and takes h (hint), n (next) and other letters, each with Enter. Elsewhere it checks
once and ends with a status: 0 the rung is done, 1 it is not yet, 2 it cannot be checked.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import select
import subprocess
import sys
import tempfile
import textwrap
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "common/tools"), str(ROOT / "common/tools/labs"), str(ROOT / "common/tools/broken")]
import facts
import handout
from source import INCLUDE, LADDERS, comments, lesson_of, of_steps, without_comments

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
ORDERS = ("inorder", "reversed", "random:7")

# A kernel is judged by its problem's list of cases (common/harness/cases.h), at these levels in turn: the quick ones in each order
# of threads, all of them in one order or another.
LEVELS = {"quick": [(order, "1/1") for order in ORDERS], "full": [(ORDERS[0], "1/2"), (ORDERS[1], "2/2")]}
COUNTED_AT = {"matmul": "--m 128 --n 128 --k 32", "softmax": "--rows 8 --cols 1024", "attention": "--heads 1 --seq 64 --head-dim 64"}

# These are counted and shown beside what was predicted. What a row claims decides.
COUNTERS = {"global_loads": "loads", "global_load_sectors": "sectors loaded", "global_stores": "stores", "shared_loads": "shared loads",
            "shared_wavefronts": "shared wavefronts", "barriers": "barriers"}

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
        try:
            self.all = json.loads(PROGRESS.read_text())
        except FileNotFoundError:
            self.all = {"step": "01", "rungs": {}}
        except ValueError:
            raise Unable(f"{relative(PROGRESS)} is not what it was; repair it, or move it away to begin anew") from None
        for old, name in facts.successors().items():
            step = facts.kernels()[name]["step"][:2]
            memory = self.all["rungs"].pop(f"{step}/{old}", None)
            if memory:
                self.all["rungs"].setdefault(f"{step}/{name}", memory)

    def of(self, key):
        return self.all["rungs"].setdefault(key, {"state": "new", "tries": 0, "hints": 0, "predicted": {}})

    def save(self):
        PROGRESS.parent.mkdir(exist_ok=True)
        fresh = PROGRESS.with_suffix(".new")
        fresh.write_text(json.dumps(self.all, indent=1) + "\n")
        fresh.replace(PROGRESS)


def tool(command):
    """Returns output and status of a command. A make started by make must not take orders from the first."""
    environment = {name: value for name, value in os.environ.items() if name not in MAKES_OWN}
    result = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            errors="replace", check=False)
    return result.stdout, result.returncode


def make_ours(step):
    """Returns the step's own program, which yours is linked with and compared to. In a handout its other kernels are yours,
    too."""
    program = ROOT / "build/check" / step
    there = program.exists()
    if not there:
        print(f"building the kernels of {step}, once ...", flush=True)
    output, status = tool(["make", "--no-print-directory", "BACKEND=cpu", f"build/check/{step}"])
    if status and not (handout.PACKED and there):
        raise Unable(f"the kernels of {step} could not be built:\n{output[-2000:]}")
    return program


def listed(program, *sizes):
    """Returns what the step's program says of its kernels without running them."""
    output, status = tool([str(program), "--list", "--json", *sizes])
    if status:
        raise Unable(output)
    return json.loads(output)


def run_row(program, kernel, sizes, order):
    """Returns what the program says of one kernel, the row of its JSON report."""
    environment = dict(os.environ, SIMT_ORDER=order, SIMT_WORKERS="1")
    command = [str(program), "--kernel", kernel, "--repeat", "1", "--json", *sizes.split()]
    try:
        result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, errors="replace", check=False,
                                timeout=RUN_SECONDS)
        return json.loads(result.stdout)["kernels"][0]
    except subprocess.TimeoutExpired:
        return {"check": "FAIL", "detector": "time", "reason": f"did not end within {RUN_SECONDS} s: an endless loop?"}
    except (ValueError, LookupError):
        ending = f"signal {-result.returncode}" if result.returncode < 0 else f"status {result.returncode}"
        return {"check": "FAIL", "detector": "crash", "reason": f"ended with {ending}. {result.stderr.strip()[-600:]}"}


def check_all(program, kernel, cases):
    """Returns [(sizes, order, row)] of these sizes, each in all orders of threads."""
    runs = [(sizes, order) for order in ORDERS for sizes in cases]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = pool.map(lambda run: run_row(program, kernel, *run), runs)
        return [(*run, row) for run, row in zip(runs, rows)]


def lines_of(process, seconds):
    """Yields lines of a program's output; one that takes longer than this ends it."""
    text = b""
    while select.select([process.stdout], [], [], seconds)[0]:
        piece = os.read(process.stdout.fileno(), 1 << 16)
        if not piece:
            return
        *lines, text = (text + piece).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
    process.kill()
    raise TimeoutError


def run_cases(program, kernel, level, order, part):
    """Returns [(sizes, order, row)] of a part of one level's cases, as far as the program lives."""
    environment = dict(os.environ, SIMT_ORDER=order, SIMT_WORKERS="1")
    command = [str(program), "--kernel", kernel, "--cases", level, "--part", part, "--json"]
    results, begun, said = [], None, tempfile.TemporaryFile("w+", errors="replace")
    with said, subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=said) as process:
        try:
            for line in lines_of(process, RUN_SECONDS):
                row = json.loads(line)
                begun = None if row["check"] else row
                if row["check"] not in ("", "skipped"):
                    results.append((row["case"], order, row))
        except TimeoutError:
            process.wait()
            wrong = {"check": "FAIL", "detector": "time", "reason": f"did not end within {RUN_SECONDS} s: an endless loop?"}
        else:
            ending = f"signal {-process.wait()}" if process.wait() < 0 else f"status {process.wait()}"
            said.seek(0)
            wrong = {"check": "FAIL", "detector": "crash", "reason": f"ended with {ending}. {said.read().strip()[-600:]}"}
        if begun or not results:
            results.append((begun["case"] if begun else "the first case", order, wrong))
    return results


def claims_of(program, kernel):
    """Returns what the row claims and the kernel does, and why that cannot be said: one of both is empty."""
    command = [str(program), "--kernel", kernel, "--claims", "--json"]
    try:
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False, timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired:
        return [], f"did not end within {RUN_SECONDS} s"
    claims = [json.loads(line) for line in result.stdout.splitlines()]
    return claims, "" if claims or result.returncode == 0 else result.stderr.strip()[-600:] or f"ended with status {result.returncode}"


def judge_cases(program, kernel, level):
    """Returns [(sizes, order, row)] of a level's cases in each of its orders."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [result for results in pool.map(lambda run: run_cases(program, kernel, level, *run), LEVELS[level])
                for result in results]


# --------------------------------------------------------------------------------------------------------------------
# What is said of a run


def readable(sizes):
    return sizes.replace("--", "")


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
    reason = re.sub(r"; SIMT_IGNORE=\S+ lets it pass", "", row["reason"])  # this is not for learners
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
# A rung of the ladder, and a broken kernel. Each can tell what it is, build and judge itself, and give hints.


class Rung:
    """A rung is one kernel to be written."""

    def __init__(self, step, index, kernel, about, problem):
        self.step, self.index, self.kernel, self.about, self.problem = step, index, kernel, about, problem
        self.key = f"{step[:2]}/{kernel}"
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
            text = re.sub(rf"\b{self.problem}_{old}\b", f"{self.problem}_{name}", text)
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

    def name_of(self, path):
        return str(path.relative_to(self.folder))

    def untouched(self, path):
        return handout.untouched(self.step, self.name_of(path), self.folder)

    def unwritten(self):
        """Returns files of this rung that have a stub with nothing written into it."""
        return [path for path in self.files() if path.exists() and self.untouched(path)]

    def introduce(self):
        rungs = len(self.about["rows"])
        lines = [colour("bold", f"Step {self.step[:2]}, rung {self.index + 1} of {rungs}: {self.kernel}"), *wrapped(self.about["idea"])]
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
            rows = listed(program, *self.counted_at().split())["kernels"]
            return next(row for row in rows if row["name"] == self.kernel)
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
        program, lines = self.build()
        if program is None:
            return "tried", lines
        built = time.monotonic()
        runs = 0
        for level in LEVELS:
            results = judge_cases(program, self.kernel, level)
            runs += len(results)
            if any(row["check"] != "pass" for _, _, row in results):
                state, lines = "tried", failure(results, self.files())
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
            return "right", [colour("bold", f"RIGHT in all {runs} runs, but this is not the rung yet"), *lines, *wrapped(
                f"The idea of this rung: {self.about['idea']}. h gives a hint; n goes on all the same.")]
        verdict = f"RIGHT in all {runs} runs, in all orders of threads" + ("" if claims else "; SPEED NOT JUDGED: only a GPU's clock can")
        return "passed", [colour("green", verdict)] + lines + table

    def hints(self):
        """Hints come one after the other, and each says more."""
        source = ROOT / self.step / self.about["file"]
        text = source.read_text()
        head = re.match(r"(?:// [^\n]*\n)*/\*(.*?)\*/", text, re.S)
        paragraphs = [prose(part) for part in re.split(r"\n[ *]*\n", head[1])] if head else []
        yield "What it costs", [line for part in paragraphs if part.startswith(("Cost", "A block", "Idea")) for line in wrapped(part)]
        if handout.PACKED:
            return
        bodies = "".join(region.body for region in handout.regions(source.relative_to(ROOT)))
        said = [prose(match[0]) for match in comments(bodies)]
        if said:
            yield "What our kernel says of itself, from top to bottom", [line for c in said for line in wrapped(c, "  - ")]
        control = r"^\s*(for|if|else|while|do)\b.*|^.*(__sync\w+\(|_wait\w*[<(]|_commit\(|__shared__).*"
        outline = [line for line in map(str.rstrip, without_comments(bodies).splitlines()) if re.match(control, line)]
        yield "Its loops, branches and barriers", [line[:WIDTH] for line in outline]
        yield "All of it", [f"  {relative(source)}", f"  diff {relative(self.file)} {relative(source)}"]


class Exercise:
    """An exercise is one broken kernel: its symptom first, its cause when asked."""

    step = "broken"

    def __init__(self, fault, count):
        self.fault, self.count = fault, count
        self.kernel = fault.kernel
        self.key = f"broken/{fault.exercise}"
        self.file = fault.directory() / fault.file

    def make_files(self):
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

    def hints(self):
        try:
            results = check_all(broken.build(self.fault, "check"), self.kernel, list(self.fault.runs))
            said = failure(results, self.files()) if any(row["check"] != "pass" for _, _, row in results) else ["  nothing: it passes"]
        except broken.Broken as error:
            said = compiler_lines(str(error))
        yield "What the checks say", said
        yield "The cause", wrapped(self.fault.wrong)
        yield "The repair", [f"  diff {relative(self.file)} {self.fault.file}"]


# --------------------------------------------------------------------------------------------------------------------
# Which is next


def rungs_of(step):
    """Returns the rungs of a step: its kernels that have a stub."""
    stubs = handout.lab_of(step)["stubs"]
    rows = [row for row in facts.kernels().values() if row["step"] == step and row["file"] in stubs]
    return [Rung(step, index, row["name"], dict(row, rows=rows, stubs=stubs), row["problem"]) for index, row in enumerate(rows)]


def exercises():
    if handout.PACKED:
        return []
    faults = sorted((fault for fault in broken.read_faults() if fault.exercise), key=lambda fault: fault.exercise)
    for fault in faults:
        fault.learners = True
    return [Exercise(fault, len(faults)) for fault in faults]


def find_rung(kernel):
    """Returns the rung with this name, or that it had before."""
    name = facts.successors().get(kernel, kernel)
    for step in STEPS.values():
        for rung in rungs_of(step):
            if rung.kernel == name:
                return rung
    raise Unable(f"KERNEL is '{kernel}'; it must be a kernel that has a stub, such as {rungs_of(STEPS['01'])[0].kernel}")


def next_rung(progress, step):
    """Returns the first rung of this step, then of later ones, that is neither done nor left out; None when there is none."""
    steps = ["broken"] if step == "broken" else [number for number in STEPS if number >= step]
    for candidate in steps:
        for rung in exercises() if candidate == "broken" else rungs_of(STEPS[candidate]):
            if progress.of(rung.key)["state"] not in ("passed", "skipped"):
                return rung
    return None


# --------------------------------------------------------------------------------------------------------------------
# The loop


class Loop:
    """Runs one session."""

    def __init__(self, step, waits, kernel=None):
        self.progress = Progress()
        self.step = step or self.progress.all["step"]
        self.kernel = kernel  # the only one, or None
        self.waits = waits
        self.rung = None
        self.given = iter(())

    def begin(self):
        """Goes to the next rung. Returns false when all are done."""
        self.rung = find_rung(self.kernel) if self.kernel else next_rung(self.progress, self.step)
        if self.rung is None:
            print("All broken kernels are repaired." if self.step == "broken" else "Everything is done." if handout.PACKED else
                  "Everything is done. make learn BROKEN=1 has broken kernels; make learn-status shows what you did.")
            return False
        if self.rung.step != "broken":
            self.step = self.progress.all["step"] = self.rung.step[:2]
            make_ours(self.rung.step)
        self.rung.make_files()
        self.memory = self.progress.of(self.rung.key)
        self.given = self.rung.hints()
        for _ in range(self.memory["hints"]):
            next(self.given, None)
        self.progress.save()
        print("\n".join(self.rung.introduce()), flush=True)
        return True

    def predict(self):
        for counter, question in self.rung.questions():
            if counter in self.memory["predicted"]:
                continue
            answer = input(f"  {question} (a number, or Enter) ").replace(",", "").replace(" ", "")
            try:
                self.memory["predicted"][counter] = int(answer)
            except ValueError:
                if answer:
                    print("  Not a number, so no prediction.")
        self.progress.save()

    def check(self):
        """Judges what is there now. Returns true when the rung is done."""
        state, lines = self.rung.judge(self.memory)
        if state != "new":
            self.memory["tries"] += 1
            self.memory["state"] = state
        self.progress.save()
        print("\n".join(clip(lines)), flush=True)
        return state == "passed"

    def hint(self):
        found = next(self.given, None)
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

    def command(self, letter):
        """Obeys a letter. Returns false to end."""
        if letter == "q":
            return False
        if letter == "h":
            self.hint()
        elif letter == "s":
            status(self.progress)
        elif letter == "n":
            self.memory["state"] = "skipped" if self.memory["state"] != "passed" else "passed"
            return self.enter()
        elif letter == "r":
            return not self.check() or self.enter()
        else:
            print("  " + KEYS)
        return True

    def enter(self):
        if not self.begin():
            return False
        self.predict()
        print("  " + KEYS + "\nwaiting for you to save ...", flush=True)
        return True

    def stamp(self):
        found = []
        for path in self.rung.files():
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((path, status.st_mtime_ns, status.st_size))
        return found

    def wait(self):
        """Waits until a save (None) or a line that was typed."""
        before = self.stamp()
        while True:
            if select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
                line = sys.stdin.readline()
                return line.strip()[:1].lower() or "r" if line else "q"
            if self.stamp() != before:
                time.sleep(POLL_SECONDS / 3)  # an editor may write in two pieces
                return None

    def run(self):
        if not self.waits:
            return self.once()
        if not self.enter():
            return 0
        while True:
            letter = self.wait()
            if letter is None:
                print(colour("dim", f"--- {time.strftime('%H:%M:%S')} ") + relative(self.rung.file), flush=True)
                if self.check() and (self.kernel or not self.enter()):
                    return 0
            elif not self.command(letter):
                print("make learn goes on from here.")
                return 0


KEYS = "h hint   r run again   n next rung   s status   q quit   (and Enter)"


def status(progress):
    """Prints what was done, one line a step."""
    marks = {"new": ".", "tried": "o", "right": "+", "passed": "#", "skipped": "-"}
    print("# done   + right, but costs more than ours   o tried   - left out   . to do")
    rows = []  # name, keys of progress, remark
    for number, step in STEPS.items():
        remark = "  <- here" if progress.all["step"] == number else ""
        rows.append((step, [rung.key for rung in rungs_of(step)], remark))
    rows.append(("broken kernels", [exercise.key for exercise in exercises()], ""))
    widest = max(len(keys) for _, keys, _ in rows)
    for name, keys, remark in rows:
        states = [progress.all["rungs"].get(key, {"state": "new"})["state"] for key in keys]
        if states:
            done = f"{states.count('passed')} of {len(states)}"
            print(f"  {name:<20} {''.join(marks[state] for state in states):<{widest}} {done}{remark}")
    tries = [rung for rung in progress.all["rungs"].values() if rung["state"] != "new"]
    print(f"  {sum(rung['tries'] for rung in tries)} tries, {sum(rung['hints'] for rung in tries)} hints")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", choices=list(STEPS), help="begin here instead of where you were")
    parser.add_argument("--kernel", help="this kernel alone")
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
        return Loop("broken" if arguments.broken else arguments.step, waits, arguments.kernel).run()
    except (Unable, *(() if handout.PACKED else (broken.Broken,))) as error:
        print(f"learn: {error}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, EOFError):
        print("\nmake learn goes on from here.")
        return 0


if __name__ == "__main__":
    sys.exit(main())
