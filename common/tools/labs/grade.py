#!/usr/bin/env python3
"""Grades a submission of a step's lab.

    common/tools/labs/grade.py STEP SUBMISSION RESULTS FORMAT [KERNEL]

STEP is 01 .. 06. SUBMISSION is a folder that holds the step's kernel files, or the step's folder with them; nothing
else is taken from it. FORMAT is one of gradescope, classroom50, prairielearn, autolab, junit, table, exit; RESULTS may
be - for standard output. KERNEL grades one kernel alone; otherwise those of the core ladder are graded, or of LADDER (all:
every kernel).

Exit status: 0 when a valid RESULTS file was written, even for a submission that scores nothing; with the format `exit`
1 when a point is missing. 2 for a wrong argument, a SUBMISSION that is no folder for instance: nothing is written. 3
when this machine could not grade: every test in RESULTS is ungraded and says why.

LAB_SEED chooses the hidden sizes and inputs: the same for everybody who is graded with the same one. Without it they
are drawn afresh; the results say which seed makes them again. LAB_VARIANT chooses the values of lab.json's knobs, as in the handout. LAB_FEEDBACK=full tells in the
results which case failed and where. LAB_SECONDS (600) is the time for all of it; what was not reached by then is
ungraded. LAB_CASES says who sees the tests of hidden cases in Gradescope's form: visible (the default), hidden,
after_due_date, after_published. LAB_LEADERBOARD=file.csv collects the times of GPU runs.
"""
import contextlib
import csv
import ctypes
import difflib
import fcntl
import hashlib
import itertools
import json
import os
import pathlib
import random
import re
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
import outfile
import sandbox
import workshop
from sandbox import Limits, Unable
from workshop import LIMIT, NotBuilt, Refused

SECONDS = 600  # for a whole grading; a run of a kernel gets a 60th of it, at most 10, of processor time
RUN_MEGABYTES, RUN_THREADS = 2048, 1024  # a cooperative launch has a thread for each block
ROUNDS, LAPS = 5, 10  # a timing alternates student and reference; it adds a few laps, so that none is known as the last
POINTS = 10  # of a kernel for which lab.json names none
# What its points are for. Where a kernel claims nothing, or no GPU measures its speed, their share is the cases'.
SHARES = {"claims": 0.2, "orders": 0.2, "speed": 0.2}
WITHOUT_CLAIM = 0.1  # of the points is left to a kernel that is right and does not do what its rung is about
NO_SPEED, FULL_SPEED = 0.2, 0.9  # the reference's time over the student's: nothing, and all points
FOUND = 200  # names of a submission that are looked at where one is missing
REASON = 2000  # characters of a result's reason


class Late(Exception):
    """The deadline has come, or whoever started the grading wants it to end."""


def load_lab(step):
    folder = handout.STEPS.get(step)
    if folder is None:
        raise Unable(f"STEP is '{step}'; it must be one of {', '.join(handout.STEPS)}")
    lab = handout.lab_of(folder)
    lab["step"] = folder
    lab["chosen"] = handout.knobs(lab, step)
    return lab


class Judge:
    """Talks in lines to the process that knows the references (judge.c). Whenever that wants a kernel run, it calls
    run(bytes), which says how the run ended."""

    def __init__(self, base, folder, run):
        self.request, self.answer, self.run = folder / "request", folder / "answer", run
        self.process = subprocess.Popen([str(base / "labs/judge"), str(self.request), str(self.answer)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1, start_new_session=True)

    def ask(self, line):
        while True:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            reply = self.process.stdout.readline()
            if not reply:
                raise Unable("the judge is gone")
            reply = json.loads(reply)
            if "run" not in reply:
                break
            if reply["run"] == 0:
                raise Unable("a request could not be written")
            line = self.run(reply["run"])
        if reply["verdict"] == "error":
            raise Unable(f"the judge refuses '{line[:80]}': {reply['reason']}")
        return reply

    def close(self):
        self.process.kill()
        self.process.wait()


class Grading:
    """Grades one submission. `check_symbols` and `mode` (of the sandbox) let tests try one line of defence by itself."""

    def __init__(self, step, submission, seed=None, kernel=None, ladder="core", check_symbols=True, mode=None):
        self.lab = load_lab(step)
        self.submission = pathlib.Path(submission)
        if not self.submission.is_dir():
            raise NotADirectoryError(f"there is no folder {submission}")
        kernel = kernel and facts.called(kernel)
        self.kernels = [row for row in self.lab["kernels"] if kernel == row["name"] or not kernel and (ladder or row["ladder"]) == row["ladder"]]
        if not self.kernels:
            raise ValueError(f"step {step} has no kernel {kernel}" if kernel else f"step {step} has no ladder {ladder}")
        # Whatever was drawn is drawn again with this seed: LAB_SEED.
        self.seed = seed or secrets.token_hex(8)
        self.number = int(hashlib.sha256(self.seed.encode()).hexdigest()[:15], 16)
        self.check_symbols, self.mode = check_symbols, mode
        self.full = os.environ.get("LAB_FEEDBACK") == "full"
        self.seconds = float(os.environ.get("LAB_SECONDS") or SECONDS)
        self.run_seconds = max(min(10, self.seconds / 60), 1)
        self.on_gpu = workshop.device() is not None
        self.not_taken, self.outcomes, self.timings, self.record = {}, [], [], []
        self.protection = "none: nothing was run"

    # ------------------------------------------------------------------------------------------------------------------
    # Building

    def take(self):
        """Copies the step's files, and nothing else, into a fresh folder beside what they need."""
        step = self.lab["step"]
        shutil.copytree(self.shop.base / step, self.folder / "source" / step)
        for name in self.lab["files"]:
            try:
                text, target = workshop.submitted(self.submission, step, name), self.folder / "source" / step / name
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(text)
            except FileNotFoundError:
                self.not_taken[name] = f"{name} is not in the submission{self.instead_of(name)}"
            except (OSError, NotBuilt, ValueError):  # a link, a loop of links, a pipe, a folder
                self.not_taken[name] = f"{name} is not a regular file of at most {LIMIT} bytes"

    def instead_of(self, name):
        """Says what the submission holds where a file is missing: the same name in another folder, a name much like it, or
        what else. Looks at names alone, at the first FOUND of them, in as many folders."""
        folders, names = [self.submission], []
        for folder in itertools.islice(folders, FOUND):  # which grows: what lies on top comes first
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                for entry in sorted(itertools.islice(entries, FOUND), key=lambda entry: entry.name):
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif len(names) < FOUND:
                        names.append(os.path.relpath(entry.path, self.submission))
        last = pathlib.Path(name).name
        others = {pathlib.Path(other).name for other in self.lab["files"]} - {last}
        alike = difflib.get_close_matches(last, {pathlib.Path(found).name for found in names} - others, 1, 0.8)
        same = [found for found in names if alike and pathlib.Path(found).name == alike[0]]
        shown = ", ".join(ascii(found)[1:-1] for found in (same or names)[:3])
        if not shown:
            return ", which has no files"
        if alike == [last]:
            return f" where it should be; it has {shown}: hand in the folder that the kernels are in"
        return f"; it has {shown}: is that the one, under another name?" if same else f"; it has {shown}" + ", ..." * (len(names) > 3)

    def files_of(self, kernel):
        """Returns the kernel's file, and the step's other files that are no kernel's."""
        return [kernel["file"], *sorted(self.sources() - self.kernel_files())]

    def sources(self):
        return {name for name in workshop.files_of_ladders(self.folder / "source" / self.lab["step"]) if name.endswith(".cu")}

    def kernel_files(self):
        """Returns the files of the step's rungs, including those that lab.json hands out finished."""
        return {row["file"] for row in facts.kernels().values() if row["step"] == self.lab["step"]}

    def build(self, kernel):
        """Builds this kernel's runner in the checked build, which watches and counts. Of the submission's other kernels it
        holds those that it calls. There is no other build, so none can behave unlike the one that counts."""
        step = self.lab["step"]
        others = sorted(self.sources() & self.kernel_files() - {kernel["file"]})
        objects = [self.object_of(name) for name in self.files_of(kernel)]
        launcher = facts.kernels()[kernel["name"]]["function"]
        if launcher not in workshop.defined(objects[0]):
            raise NotBuilt(f"{kernel['file']} has no function {launcher}")
        while missing := self.shop.missing(step, objects):
            for name in others:
                try:
                    made = self.object_of(name)
                except (NotBuilt, Refused):
                    continue
                if made not in objects and missing & workshop.defined(made):
                    objects.append(made)
                    break
            else:
                raise NotBuilt(f"{kernel['file']} calls {', '.join(sorted(missing))}, and the file with that cannot be used")
        self.shop.link(step, objects, self.runner(kernel, "check"))

    def object_of(self, name):
        if name in self.not_taken:
            raise NotBuilt(self.not_taken[name])
        return self.shop.compile(self.box, self.folder, self.lab["step"], name, self.left() / 4, self.check_symbols)

    def runner(self, kernel, build):
        return self.folder / f"run.{kernel['name']}.{build}"

    # ------------------------------------------------------------------------------------------------------------------
    # Running

    def left(self):
        """Returns the seconds that this kernel still has."""
        return max(self.kernel_deadline - time.monotonic(), 0)

    def run(self, size):
        """Runs the kernel of now in its own process, for an answer of so many bytes. Returns how that ended, for the judge."""
        # A kernel that hangs uses up its processor time. By the clock even a good kernel may be slow where many are graded at
        # once.
        limits = Limits(self.run_seconds, self.left() / 2, RUN_MEGABYTES, size + 4096, RUN_THREADS)
        self.judge.answer.unlink(missing_ok=True)
        kind, runner = "run" if self.program.suffix == ".check" else "device", str(self.program)
        with open(self.judge.request, "rb") as asked, open(self.judge.answer, "w+b") as told:
            told.truncate(size)
            ending = self.box.run([runner], kind, limits, see=[runner], stdin=asked, stdout=told)
        if ending.timed_out:
            self.hangs = True
            return f"it did not end: a run has {self.run_seconds:.3g} s of processor time" if ending.status is not None else \
                "it did not end in time"
        return "ended" if ending.status == 0 else f"it crashed ({how_it_ended(ending.status)})"

    def ask(self, line):
        """Returns the judge's reply, and whether a run did not end."""
        self.hangs = False
        return self.judge.ask(line)

    # ------------------------------------------------------------------------------------------------------------------
    # Tests and points

    def outcome(self, kernel, kind, points, status, reason="", earned=None, seconds=0.0):
        earned = earned if earned is not None else points if status == "passed" else 0
        self.outcomes.append({"name": f"{kernel}: {kind}", "kernel": kernel, "kind": kind.split(":")[0].split(" ")[0], "status": status,
                              "points": earned, "max": points, "reason": reason[:REASON], "seconds": round(seconds, 2)})

    def tests_of(self, kernel):
        """Yields (kind, points, function) for every test of a kernel; function() returns (status, reason, share of the points)."""
        points, shares = kernel.get("points", POINTS), dict(SHARES)
        if not self.on_gpu or "speed" not in self.lab:
            del shares["speed"]
        claims = ([""] if facts.kernels()[kernel["name"]]["claims"] else []) + list(self.variants(kernel, "claims"))
        if not claims:
            del shares["claims"]
        for number, text in enumerate(claims):
            yield "claims" + (": your variant" if text else ""), shares["claims"] * points / len(claims), lambda text=text: self.test_claims(text)
        cases = self.ask(f"cases hidden {self.number}")["cases"] if self.judge else []
        cases += [{"options": text, "wrong": "your variant"} for text in self.variants(kernel, "case")]
        for number, case in enumerate(cases, 1):
            yield f"case {number}: {case['wrong']}", (1 - sum(shares.values())) * points / len(cases), \
                lambda case=case: self.test_case(kernel, case["options"])
        for order in ("reversed", "random"):
            yield f"orders: threads {order}", shares["orders"] * points / 2, lambda order=order: self.test_order(kernel, order)
        if "speed" in shares:
            yield "speed", shares["speed"] * points, lambda: self.test_speed(kernel)

    def variants(self, kernel, what):
        """Yields what lab.json's knobs ask of this kernel, with the values that were chosen."""
        for name, knob in self.lab.get("knobs", {}).items():
            value = str(self.lab["chosen"][name])
            if what == "case" and what in knob:
                yield knob[what].format(value)
            if what == "claims" and os.environ.get("LAB_VARIANT") and kernel["name"] in knob.get(what, ()):
                yield knob[what][kernel["name"]][value]

    def told(self, reply, options):
        """Returns what a student may read of a verdict that is no pass: a place only where the checked build found one."""
        place = re.search(r"([\w.-]+\.cuh?):(\d{1,5})\b", reply.get("report", ""))
        there = f", at {place[1]}:{place[2]}" if place and any(pathlib.Path(name).name == place[1] for name in self.lab["files"]) else ""
        return reply["what"] + there + (f" ({options}: {reply['reason']})" if self.full else "")

    def test_case(self, kernel, options, order="-"):
        if self.stopped:
            return "failed", "a case before it did not end, so this one was not run", 0
        reply = self.ask(f"case {order} 0 {options}")
        self.record.append({"kernel": kernel["name"], "options": options, "order": order, "verdict": reply["verdict"],
                            "what": reply.get("what", "")})
        if reply["verdict"] == "pass":
            return "passed", "", 1
        self.stopped = self.hangs
        return "failed", self.told(reply, options), 0

    def test_claims(self, text):
        if self.stopped:
            return "failed", "a run before it did not end", 0
        reply = self.ask(f"claims {text}".strip())
        self.stopped = self.hangs
        broken = [claim for claim in reply["claims"] if not claim["kept"]]
        self.kept = self.kept and reply["verdict"] == "pass"
        if reply["verdict"] == "pass":
            return "passed", "", 1
        if not broken:
            return "failed", f"at the sizes of its claim: {reply['what'] or reply['reason']}", 0
        return "failed", "; ".join(f"{claim['says']} is {claim['value']:,} at {claim['at']}, and must be {claim['relation']} {claim['bound']:,}"
                                   for claim in broken), 0

    def test_order(self, kernel, order):
        """Judges the quick cases, whose sizes are known, with the threads in another order."""
        way = order if order == "reversed" else f"random:{self.number % 9999 + 1}"
        for case in self.ask("cases quick 1")["cases"]:
            result = self.test_case(kernel, case["options"], way)
            if result[0] != "passed":
                return result
        return "passed", "", 1

    def test_speed(self, kernel):
        """Runs student's and reference's runners in turns on the same inputs. The medians' ratio gives the points."""
        self.build_for_gpu(kernel)
        options = self.lab["speed"].get(kernel["name"], self.lab["speed"]["at"])
        chance, times = random.Random(self.seed), {"reference": [], "gpu": []}
        for _ in range(ROUNDS):
            for build, measured in times.items():
                self.program = self.runner(kernel, build)
                reply = self.ask(f"case - {LAPS + chance.randrange(LAPS)} {options}")
                if build == "reference" and reply["verdict"] != "pass":
                    return "ungraded", f"the reference itself does not run here: {reply['what']}", 0
                if reply["verdict"] != "pass" or reply["milliseconds"] <= 0:
                    return "failed", "on the GPU: " + self.told(reply, options), 0
                measured.append(reply["milliseconds"])
        mine, reference = statistics.median(times["gpu"]), statistics.median(times["reference"])
        self.timings.append({"kernel": kernel["name"], "milliseconds": mine, "reference": reference})
        share = min(max((reference / mine - NO_SPEED) / (FULL_SPEED - NO_SPEED), 0.0), 1.0)
        return ("passed" if share == 1.0 else "failed",
                f"{mine:.4g} ms, reference {reference:.4g} ms: ratio {reference / mine:.2f}; none at {NO_SPEED}, "
                f"all points at {FULL_SPEED}", share)

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
        problem, status, first = None, "ungraded", len(self.outcomes)
        self.kept, self.stopped, self.program = True, False, self.runner(kernel, "check")
        self.progress(f"{kernel['name']}: building")
        self.ask(f"kernel {kernel['name']}")
        try:
            self.build(kernel)
        except Refused as refusal:
            problem, status = f"refused: {refusal}", "failed"
        except NotBuilt as failure:
            problem = str(failure)
        for kind, points, test in self.tests_of(kernel):
            begin = time.monotonic()
            self.progress(f"{kernel['name']}: {kind}")
            try:
                status_now, reason, share = (status, problem, 0) if problem else test()
            except Refused as refusal:
                status_now, reason, share = "failed", f"refused: {refusal}", 0
            except NotBuilt as failure:
                status_now, reason, share = "ungraded", str(failure), 0
            self.outcome(kernel["name"], kind, points, status_now, reason, share * points, time.monotonic() - begin)
        self.weigh(self.outcomes[first:])

    def weigh(self, outcomes):
        """Without the claim a tenth of the points is left. What is wrong more often than right has none."""
        cases = [test["status"] == "passed" for test in outcomes if test["kind"] == "case"]
        factor, why = (0, "it is wrong more often than right") if 2 * sum(cases) < len(cases) else \
            (1, "") if self.kept else (WITHOUT_CLAIM, "a tenth of the points: it does not do what this rung is about, see its claims")
        for test in outcomes:
            if factor < 1 and test["points"] > 0:
                test["points"] *= factor
                test["reason"] = "; ".join(filter(None, [test["reason"], why]))

    def progress(self, text):
        if sys.stderr.isatty() and os.environ.get("LAB_PROGRESS"):
            print(f"\r\033[K{text[:100]}", end="", file=sys.stderr, flush=True)

    def all_else_ungraded(self, reason):
        """Gives each kernel that was not finished one outcome that says so."""
        done = {test["kernel"] for test in self.outcomes if test["kernel"] not in self.begun}
        self.outcomes = [test for test in self.outcomes if test["kernel"] in done]
        for kernel in self.kernels:
            if kernel["name"] not in done:
                self.outcome(kernel["name"], "cases", kernel.get("points", POINTS), "ungraded", reason)

    def grade(self):
        """Returns the results, whatever happens. Call it from the main thread: the deadline is a signal."""
        begin, unable, self.judge, self.begun = time.monotonic(), False, None, set()

        def late(number, frame):
            raise Late("the time for this grading was over" if number == signal.SIGALRM else "the grading was ended")

        old = {number: signal.signal(number, late) for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT)}
        try:
            signal.setitimer(signal.ITIMER_REAL, self.seconds)
            self.shop = workshop.Workshop()
            with tempfile.TemporaryDirectory(prefix="grading-", dir=self.shop.top, ignore_cleanup_errors=True) as name:
                self.folder = pathlib.Path(name)
                self.folder.chmod(0o711)
                self.secret = self.folder / "secret"
                self.secret.mkdir(mode=0o700)
                self.box = sandbox.Sandbox(self.shop.top / "users", self.mode)
                self.protection = self.box.protection
                self.take()
                self.judge = Judge(self.shop.base, self.secret, self.run)
                deadline = begin + 0.95 * self.seconds
                for number, kernel in enumerate(self.kernels):
                    now = time.monotonic()
                    self.kernel_deadline = now + max(deadline - now, 0) / (len(self.kernels) - number)
                    self.begun = {kernel["name"]}
                    self.grade_kernel(kernel)
                    self.begun = set()
        except Late as why:
            self.all_else_ungraded(str(why))
        except (Unable, OSError, subprocess.SubprocessError) as problem:
            unable = True
            self.all_else_ungraded(str(problem)[:600])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in old.items():
                signal.signal(number, handler)
            if self.judge:
                self.judge.close()
            self.progress("")
        return self.results(unable, time.monotonic() - begin)

    def results(self, unable, seconds):
        score, most = (round(sum(test[what] for test in self.outcomes), 2) for what in ("points", "max"))
        for test in self.outcomes:
            test["points"], test["max"] = round(test["points"], 3), round(test["max"], 3)
        return {"step": self.lab["step"], "title": self.lab["title"], "tests": self.outcomes, "unable": unable,
                "score": score, "max": most, "seed": self.seed, "cases": self.record,
                "seconds": round(seconds, 1), "timings": self.timings, "protection": self.protection,
                "not_judged": [] if self.on_gpu else ["speed (no GPU; its points are the cases')"]}


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
        if output != "-":
            pathlib.Path(output).parent.mkdir(parents=True, exist_ok=True)
            outfile.cleared(output)
        ladder = os.environ.get("LADDER") or "core"
        grading = Grading(step, submission, os.environ.get("LAB_SEED"), *arguments[4:5], ladder="" if ladder == "all" else ladder)
    except (Unable, outfile.Refused, OSError, ValueError) as problem:
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
        outfile.write(output, text)
        print(f"{results['step']}: {results['score']} of {results['max']} points in {results['seconds']} s, see {output}")
    if os.environ.get("LAB_LEADERBOARD"):
        write_leaderboard(os.environ["LAB_LEADERBOARD"], pathlib.Path(submission).resolve().name, results)
    if results["unable"]:
        return 3
    return 1 if form == "exit" and results["score"] < results["max"] else 0


if __name__ == "__main__":
    outfile.told(main)
