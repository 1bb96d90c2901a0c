#!/usr/bin/env python3
"""Grades a submission of a step's lab.

    common/tools/labs/grade.py STEP SUBMISSION RESULTS FORMAT [KERNEL]

STEP is 01 .. 06. SUBMISSION is a folder that holds the step's kernel files, or the step's folder with them; nothing
else is taken from it. FORMAT is one of gradescope, classroom50, prairielearn, autolab, junit, table, exit; RESULTS may
be - for standard output. KERNEL grades one kernel alone.

Exit status: 0 when a valid RESULTS file was written, even for a submission that scores nothing; with the format `exit`
1 when a point is missing. 2 for a wrong argument, a SUBMISSION that is no folder for instance: nothing is written. 3
when this machine could not grade: every test in RESULTS is ungraded and says why.

LAB_SEED chooses the hidden sizes and inputs: the same for everybody who is graded with the same one. Without it they
are drawn afresh. LAB_VARIANT chooses the values of lab.json's knobs, as in the handout. LAB_FEEDBACK=full tells in the
results which case failed and where. LAB_SECONDS (600) is the time for all of it; what was not reached by then is
ungraded. LAB_LEADERBOARD=file.csv collects the times of GPU runs.
"""
import ast
import csv
import ctypes
import fcntl
import json
import math
import operator
import os
import pathlib
import random
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import formats
import handout  # which sets the path of facts
import facts
import sandbox
import workshop
from sandbox import Limits, Unable
from workshop import NotBuilt, Refused

SECONDS = 600  # for a whole grading; a run of a kernel gets a 60th of it, at most 10, of processor time
RUN_MEGABYTES, RUN_THREADS = 2048, 1024  # a cooperative launch has a thread for each block
ROUNDS, LAPS = 5, 10  # a timing alternates student and reference; it adds a few laps, so that none is known as the last
# Where traffic is limited, an atomic operation counts as a whole sector.
ATOMIC = {f"global_{kind}{unit}": number for kind in ("load", "store") for unit, number in (("s", 1), ("_bytes", 32), ("_sectors", 1))}
KINDS = ("normal", "uniform", "large", "ascending", "descending", "outliers", "constant")
# These are a problem's sizes in common/'s order, and those that follow others where they are not given.
ATTENTION = "batch heads kv_heads seq seq_q seq_kv head_dim causal"
SIZES = {"matmul": "m n k", "softmax": "rows cols", "attention": ATTENTION, "attention_f16": ATTENTION}
SAME = {"kv_heads": "heads", "seq_q": "seq", "seq_kv": "seq"}
LIMIT = 1 << 20  # bytes of one submitted file
REASON = 2000  # characters of a result's reason


class Late(Exception):
    """The deadline has come, or whoever started the grading wants it to end."""


def load_lab(step):
    folder = handout.STEPS.get(step)
    if folder is None:
        raise Unable(f"STEP is '{step}'; it must be one of {', '.join(handout.STEPS)}")
    lab = handout.lab_of(folder)
    lab["step"] = folder
    lab["knobs"] = handout.knobs(lab, step)
    return lab


OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
             ast.Div: operator.truediv}


def formula(text, names):
    """Returns the value of an arithmetic formula over sizes: + - * / // and ceil(a / b), min, max."""
    def value(node):
        if isinstance(node, ast.Expression):
            return value(node.body)
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.Name):
            return names[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("ceil", "min", "max"):
            return {"ceil": math.ceil, "min": min, "max": max}[node.func.id](*map(value, node.args))
        raise Unable(f"lab.json: '{text}' is not a formula")
    return value(ast.parse(str(text), mode="eval"))


class Case:
    """A case has sizes and inputs that nobody outside this process knows, drawn as an entry of lab.json says."""

    def __init__(self, lab, entry, chance, kinds=("normal",)):
        self.lab, self.name, self.weight = lab, entry.get("name", "a hidden case"), entry.get("weight", 1)
        # False marks a case that needs no input: right answers to it, or to constant inputs, earn nothing by themselves.
        self.alone = entry.get("alone", True)
        self.sizes = {name: drawn(entry.get(name, 0), chance, lab["knobs"]) for name in SIZES[lab["problem"]].split()}
        for name in SAME.keys() & self.sizes:
            self.sizes[name] = self.sizes[name] or self.sizes[SAME[name]]
        self.kind = chance.choice(entry.get("inputs", kinds))
        self.offset = chance.choice(entry["offsets"]) if "offsets" in entry else 0
        self.seed = chance.getrandbits(62)
        self.problem = entry.get("problem", lab["problem"])

    def __str__(self):
        return " ".join(f"{name}={value}" for name, value in self.sizes.items()) + f" inputs={self.kind}"

    @property
    def line(self):
        values = " ".join(str(value) for value in self.sizes.values())
        return f"case {self.problem} {self.kind} {self.seed} {self.offset} {values}"


def drawn(allowed, chance, knobs):
    """Draws from a number; a formula over knobs; [first, last] or, in steps, [first, last, step]; or {"one_of": [...]}."""
    if isinstance(allowed, str):
        return int(formula(allowed, knobs))
    if isinstance(allowed, dict):
        return chance.choice(allowed["one_of"])
    if isinstance(allowed, list):
        return chance.randrange(allowed[0], allowed[1] + 1, *allowed[2:])
    return allowed


class Judge:
    """Talks in lines to the process that knows the references."""

    def __init__(self, base):
        self.process = subprocess.Popen([str(base / "labs/judge")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1, start_new_session=True)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        reply = self.process.stdout.readline()
        if not reply:
            raise Unable("the judge is gone")
        return json.loads(reply)

    def require(self, line):
        reply = self.ask(line)
        if reply["verdict"] != "ok":
            raise Unable(f"the judge refuses '{line[:80]}': {reply['reason']}")
        return reply

    def close(self):
        self.process.kill()
        self.process.wait()


class Grading:
    """Grades one submission. `check_symbols` and `mode` (of the sandbox) let tests try one line of defence by itself."""

    def __init__(self, step, submission, seed=None, kernel=None, check_symbols=True, mode=None):
        self.lab = load_lab(step)
        self.submission = pathlib.Path(submission)
        if not self.submission.is_dir():
            raise NotADirectoryError(f"there is no folder {submission}")
        kernel = kernel and facts.called(kernel)
        self.kernels = [row for row in self.lab["kernels"] if kernel in (None, "", row["name"])]
        if not self.kernels:
            raise ValueError(f"step {step} has no kernel {kernel}")
        self.chance = random.Random(seed if seed else secrets.token_hex(16))
        self.check_symbols, self.mode = check_symbols, mode
        self.full = os.environ.get("LAB_FEEDBACK") == "full"
        self.seconds = float(os.environ.get("LAB_SECONDS") or SECONDS)
        self.run_seconds = max(min(10, self.seconds / 60), 1)
        self.on_gpu = workshop.device() is not None
        self.not_taken, self.outcomes, self.timings, self.protection = {}, [], [], "none: nothing was run"

    # ------------------------------------------------------------------------------------------------------------------
    # Building

    def take(self):
        """Copies the step's files, and nothing else, into a fresh folder beside what they need."""
        step = self.lab["step"]
        shutil.copytree(self.shop.base / step, self.folder / "source" / step)
        for name in self.lab["files"]:
            try:
                text, target = self.read(step, name), self.folder / "source" / step / name
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(text)
            except FileNotFoundError:
                self.not_taken[name] = f"{name} is not in the submission"
            except (OSError, NotBuilt, ValueError):  # a link, a loop of links, a pipe, a folder
                self.not_taken[name] = f"{name} is not a regular file of at most {LIMIT} bytes"

    def read(self, step, name):
        """Returns a regular file of the submission, whatever it holds. No link leads out of the submission."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        top = os.open(self.submission, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # The file may be in the step's folder or not, and in its ladder's folder or, after an upload, not.
            for way in (pathlib.Path(*folders) for folders in ((step, name), (name,), (step, pathlib.Path(name).name), (pathlib.Path(name).name,))):
                try:
                    folder = os.dup(top)
                    for part in way.parts[:-1]:
                        inner = os.open(part, flags | os.O_DIRECTORY, dir_fd=folder)
                        os.close(folder)
                        folder = inner
                    text = workshop.read_regular(pathlib.Path(way.name), LIMIT + 1, folder)
                except FileNotFoundError:
                    continue
                finally:
                    os.close(folder)
                if len(text) > LIMIT:
                    raise ValueError
                return text
        finally:
            os.close(top)
        raise FileNotFoundError

    def files_of(self, kernel):
        """Returns the kernel's file, and the step's other files that are no kernel's."""
        return [kernel["file"], *sorted(self.sources() - self.kernel_files())]

    def sources(self):
        return {name for name in workshop.files_of_ladders(self.folder / "source" / self.lab["step"]) if name.endswith(".cu")}

    def kernel_files(self):
        """Returns the files of the step's rungs, including those that lab.json hands out finished."""
        return {row["file"] for row in facts.kernels().values() if row["step"] == self.lab["step"]}

    def build(self, kernel):
        """Builds this kernel's runners, run.cpu and run.check. Of the submission's other kernels they hold those that it
        calls."""
        step = self.lab["step"]
        others = sorted(self.sources() & self.kernel_files() - {kernel["file"]})
        for build in workshop.BUILDS:
            objects = [self.object_of(name, build) for name in self.files_of(kernel)]
            while missing := self.shop.missing(step, objects):
                for name in others:
                    try:
                        made = self.object_of(name, build)
                    except (NotBuilt, Refused):
                        continue
                    if made not in objects and missing & workshop.defined(made):
                        objects.append(made)
                        break
                else:
                    raise NotBuilt(f"{kernel['file']} calls {', '.join(sorted(missing))}, and the file with that cannot be used")
            self.shop.link(step, build, objects, self.runner(kernel, build))

    def object_of(self, name, build):
        if name in self.not_taken:
            raise NotBuilt(self.not_taken[name])
        return self.shop.compile(self.box, self.folder, self.lab["step"], name, build, self.left() / 4, self.check_symbols)

    def runner(self, kernel, build):
        return self.folder / f"run.{kernel['name']}.{build}"

    # ------------------------------------------------------------------------------------------------------------------
    # Running

    def left(self):
        """Returns the seconds that this kernel still has."""
        return max(self.kernel_deadline - time.monotonic(), 0)

    def run(self, case, kernel, build, order="-", calls=1, laps=0):
        """Returns the judge's verdict on one run of one kernel in its own process. build: cpu, check, gpu, reference."""
        request, answer = self.secret / "request", self.secret / "answer"
        if self.prepared is not case:
            self.judge.require(case.line)
            self.prepared = case
        workspace = int(formula(kernel.get("workspace", 0), case.sizes))
        size = self.judge.require(f"request {kernel['name']} {order} {workspace} {calls} {laps} "
                                  f"{request}")["bytes"]
        # A kernel that hangs uses up its processor time. By the clock even a good kernel may be slow where many are graded at
        # once.
        limits = Limits(self.run_seconds, self.left() / 2, RUN_MEGABYTES, size + 4096, RUN_THREADS)
        answer.unlink(missing_ok=True)
        on_device, runner = build in ("gpu", "reference"), str(self.runner(kernel, build))
        with open(request, "rb") as asked, open(answer, "w+b") as told:
            told.truncate(size)
            ending = self.box.run([runner], "device" if on_device else "run", limits, see=[runner], stdin=asked, stdout=told)
        verdict = self.judge.ask(f"judge {answer}")
        if ending.timed_out or (ending.status == 137 and verdict["verdict"] == "crashed"):
            verdict.update(verdict="time-out", reason="", what="it did not end: a run has "
                           f"{self.run_seconds:.3g} s of processor time" if ending.status is not None else "it did not end in time")
        elif verdict["verdict"] == "crashed" or ending.status != 0:
            verdict.update(verdict="crashed", what=f"it crashed ({how_it_ended(ending.status)})")
        elif verdict["verdict"] == "skipped" and not on_device:
            verdict.update(verdict="error", what=verdict["what"] + ", and it is not")
        return verdict

    # ------------------------------------------------------------------------------------------------------------------
    # Tests and points

    def outcome(self, kernel, kind, points, status, reason="", earned=None, seconds=0.0):
        earned = earned if earned is not None else points if status == "passed" else 0
        self.outcomes.append({"name": f"{kernel}: {kind}", "kernel": kernel, "kind": kind.split(":")[0], "status": status,
                              "points": earned, "max": points, "reason": reason[:REASON], "seconds": round(seconds, 2)})

    def tests_of(self, kernel):
        """
        Returns (kind, points, function) for every test that lab.json names. Speed is measured only on a GPU. Elsewhere its points
        go to correctness, so that a full score is possible everywhere.
        """
        speed = kernel.get("speed", {}).get("points", 0)
        yield "correctness", kernel["correctness"] + (0 if self.on_gpu else speed), self.test_correctness
        for entry in kernel.get("cases", []):
            yield (f"correctness: {entry['name']}", entry["points"],
                   lambda kernel, points, entry=entry: self.test_cases(kernel, points, [entry]))
        yield "sanitizer", kernel["sanitizer"], self.test_sanitizer
        for counter in kernel.get("counters", []):
            yield (f"counters: {counter['says'].format(**self.lab['knobs'])}", counter["points"],
                   lambda kernel, points, counter=counter: self.test_counter(kernel, counter))
        if speed and self.on_gpu:
            yield "speed", speed, self.test_speed

    def told(self, verdict, case):
        if self.full:
            return f"{verdict['what']} ({case}; {verdict['reason']})"
        return verdict["what"]

    def small_of(self, kernel):
        """Returns sizes for the checked build: the lab's, or the kernel's own."""
        return Case(self.lab, kernel.get("small", self.lab["small"]), self.chance)

    def test_correctness(self, kernel, points):
        return self.test_cases(kernel, points, self.lab["cases"])

    def test_cases(self, kernel, points, entries):
        """
        Every hidden case earns its share. Before them, one run in the checked build counts what kernels load and store. Nothing
        is earned where they did not load and store, or where that could not be counted. The first case makes two calls, and the
        second one is judged.
        """
        small = self.small_of(kernel)
        verdict = self.run(small, kernel, "check")
        if verdict["verdict"] not in ("pass", "fail", "error"):
            return ("ungraded" if verdict["verdict"] == "no device" else "failed"), self.told(verdict, small), 0
        cases = [Case(self.lab, entry, self.chance, KINDS) for entry in entries if kernel["name"] not in entry.get("not_for", ())]
        passed, alone, whole, reasons = 0, False, sum(case.weight for case in cases), []
        for number, case in enumerate(cases):
            verdict = self.run(case, kernel, "cpu", calls=2 if number == 0 else 1)
            if verdict["verdict"] == "pass":
                passed, alone = passed + case.weight, alone or (case.alone and case.kind != "constant")
                continue
            reasons.append(f"{case.name}: {self.told(verdict, case)}")
            if verdict["verdict"] == "time-out":
                reasons.append("the cases after it were not run")
                break
        if not reasons:
            return "passed", "", points
        return "failed", f"{passed} of {whole} right; " + "; ".join(dict.fromkeys(reasons)), points * passed // whole if alone else 0

    def test_sanitizer(self, kernel, points):
        for order in ("inorder", "reversed", f"random:{self.chance.randrange(1, 10000)}"):
            case = self.small_of(kernel)
            verdict = self.run(case, kernel, "check", order)
            if verdict["verdict"] != "pass":
                return "failed", f"with threads {order.split(':')[0]}: {self.told(verdict, case)}", 0
        return "passed", "", points

    def test_counter(self, kernel, counter):
        case = Case(self.lab, counter["sizes"], self.chance)
        verdict = self.run(case, kernel, "check")
        if verdict["verdict"] != "pass":
            return "failed", self.told(verdict, case), 0
        most, counted = formula(counter["at_most"], {**self.lab["knobs"], **case.sizes}), verdict["counters"][counter["counter"]]
        # An atomic operation also reads and writes, so it saves no traffic.
        counted += verdict["counters"]["atomics"] * ATOMIC.get(counter["counter"], 0)
        reason = f"{counter['counter']} may be at most {counter['at_most']}"
        if self.full:
            reason += f" = {most:,.10g} at {case}, and is {counted:,}"
        elif counted > most:
            reason += f", and is {counted / most:.3g} times that" if most > 0 else ", and is not"
        return "passed" if counted <= most else "failed", reason, counter["points"] if counted <= most else 0

    def test_speed(self, kernel, points):
        """Runs student's and reference's runners in turns on the same inputs. The medians' ratio gives the points."""
        self.build_for_gpu(kernel)
        speed = kernel["speed"]
        case = Case(self.lab, speed["sizes"], self.chance)
        times = {"reference": [], "gpu": []}
        for _ in range(ROUNDS):
            for build, measured in times.items():
                verdict = self.run(case, kernel, build, laps=LAPS + self.chance.randrange(LAPS))
                if build == "reference" and verdict["verdict"] != "pass":
                    return "ungraded", f"the reference itself does not run here: {verdict['what']}", 0
                if verdict["verdict"] != "pass" or verdict["milliseconds"] <= 0:
                    return "failed", "on the GPU: " + self.told(verdict, case), 0
                measured.append(verdict["milliseconds"])
        mine, reference = statistics.median(times["gpu"]), statistics.median(times["reference"])
        self.timings.append({"kernel": kernel["name"], "milliseconds": mine, "reference": reference})
        share = min(max((reference / mine - speed["zero"]) / (speed["full"] - speed["zero"]), 0.0), 1.0)
        return ("passed" if share == 1.0 else "failed",
                f"{mine:.4g} ms, reference {reference:.4g} ms: ratio {reference / mine:.2f}; none at {speed['zero']}, "
                f"all points at {speed['full']}", int(share * points))

    def build_for_gpu(self, kernel):
        """Builds run.gpu from the submission's file, and run.reference from the project's own."""
        step, files = self.lab["step"], self.files_of(kernel)
        self.shop.build_for_gpu(self.box, self.folder, step, files, self.runner(kernel, "gpu"), self.left() / 2)
        solution = self.secret / "solution"
        if not solution.exists():
            shutil.copytree(handout.ROOT / step, solution / "source" / step)
        self.shop.build_for_gpu(self.box, solution, step, files, self.secret / "run", self.left() / 2, trusted=True)
        shutil.move(self.secret / "run", self.runner(kernel, "reference"))

    def grade_kernel(self, kernel):
        """Returns the kernel's outcomes. Whatever it does costs only its own points and its own time."""
        problem, status = None, "ungraded"
        try:
            self.build(kernel)
        except Refused as refusal:
            problem, status = f"refused: {refusal}", "failed"
        except NotBuilt as failure:
            problem = str(failure)
        for kind, points, test in self.tests_of(kernel):
            begin = time.monotonic()
            try:
                result = (status, problem, 0) if problem else test(kernel, points)
            except Refused as refusal:
                result = "failed", f"refused: {refusal}", 0
            except NotBuilt as failure:
                result = "ungraded", str(failure), 0
            self.outcome(kernel["name"], kind, points, *result, time.monotonic() - begin)

    def all_else_ungraded(self, reason):
        there = {test["name"] for test in self.outcomes}
        for kernel in self.kernels:
            for kind, points, _ in self.tests_of(kernel):
                if f"{kernel['name']}: {kind}" not in there:
                    self.outcome(kernel["name"], kind, points, "ungraded", reason)

    def grade(self):
        """Returns the results, whatever happens. Call it from the main thread: the deadline is a signal."""
        begin, unable, judge = time.monotonic(), False, None

        def late(number, frame):
            raise Late("the time for this grading was over" if number == signal.SIGALRM else "the grading was ended")

        old = {number: signal.signal(number, late) for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT)}
        try:
            signal.setitimer(signal.ITIMER_REAL, self.seconds)
            self.shop = workshop.Workshop()
            with tempfile.TemporaryDirectory(prefix="grading-", dir=self.shop.top, ignore_cleanup_errors=True) as name:
                self.folder = pathlib.Path(name)
                self.folder.chmod(0o711)
                self.secret, self.prepared = self.folder / "secret", None
                self.secret.mkdir(mode=0o700)
                self.box = sandbox.Sandbox(self.shop.top / "users", self.mode)
                self.protection = self.box.protection
                self.take()
                judge = self.judge = Judge(self.shop.base)
                deadline = begin + 0.95 * self.seconds
                for number, kernel in enumerate(self.kernels):
                    now = time.monotonic()
                    self.kernel_deadline = now + max(deadline - now, 0) / (len(self.kernels) - number)
                    self.grade_kernel(kernel)
        except Late as why:
            self.all_else_ungraded(str(why))
        except (Unable, OSError, subprocess.SubprocessError) as problem:
            unable = True
            self.all_else_ungraded(str(problem)[:600])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in old.items():
                signal.signal(number, handler)
            if judge:
                judge.close()
        return self.results(unable, time.monotonic() - begin)

    def results(self, unable, seconds):
        return {"step": self.lab["step"], "title": self.lab["title"], "tests": self.outcomes, "unable": unable,
                "score": sum(test["points"] for test in self.outcomes), "max": sum(test["max"] for test in self.outcomes),
                "seconds": round(seconds, 1), "timings": self.timings, "protection": self.protection,
                "not_judged": [] if self.on_gpu else ["speed (no GPU; its points are part of correctness)"]}


def how_it_ended(status):
    names = {number.value: number.name for number in signal.Signals}
    return names.get(status - 128, f"exit status {status}")


def hide():
    os.umask(0o022)
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: no process of the same user may look into this one


def write_leaderboard(path, submission, results):
    with open(path, "a", newline="") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for timing in results["timings"]:
            csv.writer(file).writerow([submission, results["step"], timing["kernel"], f"{timing['milliseconds']:.6g}",
                                       f"{timing['reference']:.6g}"])


def main(arguments):
    if len(arguments) not in (4, 5) or arguments[3] not in formats.FORMATS:
        print(__doc__, file=sys.stderr)
        return 2
    step, submission, output, form = arguments[:4]
    hide()
    try:
        grading = Grading(step, submission, os.environ.get("LAB_SEED"), *arguments[4:])
    except (Unable, OSError, ValueError) as problem:
        print(f"grade.py: {problem}", file=sys.stderr)
        return 2
    try:
        results = grading.grade()
    except Exception as problem:  # a results file is due even where this program is wrong
        grading.all_else_ungraded(f"the grader failed: {problem}"[:600])
        results = grading.results(unable=True, seconds=0.0)
    text = formats.FORMATS[form](results)
    if output == "-":
        sys.stdout.write(text)
    else:
        pathlib.Path(output).parent.mkdir(parents=True, exist_ok=True)
        temporary = pathlib.Path(f"{output}.{os.getpid()}")
        temporary.write_text(text)
        temporary.replace(output)
        print(f"{results['step']}: {results['score']} of {results['max']} points in {results['seconds']} s, see {output}")
    if os.environ.get("LAB_LEADERBOARD"):
        write_leaderboard(os.environ["LAB_LEADERBOARD"], pathlib.Path(submission).resolve().name, results)
    if results["unable"]:
        return 3
    return 1 if form == "exit" and results["score"] < results["max"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
