#!/usr/bin/env python3
"""Grades a submission of a step's lab.

    tests/labs/grade.py STEP SUBMISSION RESULTS FORMAT

STEP is 01 .. 06. SUBMISSION is a folder that holds the step's kernel files, or the step's folder with them; nothing
else is taken from it. FORMAT is one of gradescope, classroom50, prairielearn, autolab, junit, table. A valid RESULTS
file is written whatever happens. Exit status: 0 when it was, even for a submission that scores nothing.

LAB_SEED chooses the hidden sizes and inputs: the same for everybody who is graded with the same one. Without it they
are drawn afresh. LAB_FEEDBACK=full tells in the results which case failed and where.
"""
import ast
import ctypes
import json
import math
import operator
import os
import pathlib
import random
import re
import secrets
import shutil
import signal
import stat
import statistics
import subprocess
import sys
import tempfile
import time

import formats
import handout
import workshop
from workshop import NotBuilt, Refused, Unable

RUN_SECONDS, RUN_MEGABYTES = 10, 4096
ROUNDS, LAPS = 5, 10  # of a timing: student and reference in turns
ORDERS = ("inorder", "reversed", "random:7")
KINDS = ("normal", "uniform", "large", "ascending", "descending", "outliers", "constant")
LIMIT = 1 << 20  # bytes of one submitted file


def load_lab(step):
    folder = handout.STEPS.get(step)
    if folder is None:
        raise Unable(f"STEP is '{step}'; it must be one of {', '.join(handout.STEPS)}")
    lab = json.loads((handout.ROOT / folder / "lab.json").read_text())
    lab["step"] = folder
    return lab


OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
             ast.Div: operator.truediv}


def formula(text, names):
    """The value of an arithmetic formula over sizes: + - * / // and ceil(a / b), min, max."""
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
    """Sizes and inputs that nobody outside this process knows."""

    def __init__(self, lab, sizes, kind, seed, offset=0):
        self.lab, self.kind, self.seed, self.offset = lab, kind, seed, offset
        self.sizes = {name: sizes.get(name, 0) for name in lab["sizes"]}
        for name, same in lab.get("same", {}).items():  # a size that follows another one where it is not given
            self.sizes[name] = self.sizes[name] or self.sizes[same]

    def __str__(self):
        return " ".join(f"{name}={value}" for name, value in self.sizes.items()) + f" inputs={self.kind}"

    @property
    def line(self):
        values = " ".join(str(value) for value in self.sizes.values())
        return f"case {self.lab['problem']} {self.kind} {self.seed} {self.offset} {values}"


def draw_cases(lab, chance):
    """Each entry of lab.json's "cases" has a range or a list of values for every size, and kinds of inputs."""
    for entry in lab["cases"]:
        sizes = {}
        for name in lab["sizes"]:
            allowed = entry.get(name, 0)
            sizes[name] = (chance.choice(allowed["one_of"]) if isinstance(allowed, dict) else
                           chance.randint(*allowed) if isinstance(allowed, list) else allowed)
        offset = chance.choice(entry["offsets"]) if "offsets" in entry else 0
        yield Case(lab, sizes, chance.choice(entry.get("inputs", KINDS)), chance.getrandbits(62), offset)


class Judge:
    """The process that knows references; this one talks to it in lines."""

    def __init__(self, base):
        self.process = subprocess.Popen([str(base / "labs/judge")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)

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
        self.process.stdin.close()
        self.process.wait()


class Grading:
    """One submission. `check_symbols` is false only where the tests try the second line of defence by itself."""

    def __init__(self, step, submission, seed=None, check_symbols=True):
        self.lab = load_lab(step)
        self.submission = pathlib.Path(submission)
        self.chance = random.Random(seed if seed else secrets.token_hex(16))
        self.check_symbols = check_symbols
        self.full = os.environ.get("LAB_FEEDBACK") == "full"
        self.not_built, self.refused, self.outcomes = {}, {}, []

    # ------------------------------------------------------------------------------------------------------------------
    # Building

    def take(self):
        """Copies the step's files, and nothing else, over the stubs of a fresh folder."""
        step = self.lab["step"]
        shutil.copytree(self.shop.base / step, self.folder / step)
        for name in self.lab["files"]:
            source = next((path for path in (self.submission / step / name, self.submission / name)
                           if path.exists() or path.is_symlink()), None)
            try:
                if source is None:
                    raise NotBuilt(f"{name} is not in the submission")
                status = source.lstat()
                inside = source.resolve().is_relative_to(self.submission.resolve())
                if not inside or not stat.S_ISREG(status.st_mode) or status.st_size > LIMIT:
                    raise NotBuilt(f"{name} is not a regular file of at most {LIMIT} bytes")
                text = source.read_bytes().decode(errors="replace")
                if self.check_symbols:
                    workshop.refuse_text(name, text)
                (self.folder / step / name).write_text(text)
            except NotBuilt as problem:
                self.not_built[name] = str(problem)
            except Refused as problem:
                self.refused[name] = str(problem)

    def build(self):
        step = self.lab["step"]
        sources = [path.name for path in sorted((self.shop.base / step).glob("*.cu"))]
        self.objects = {build: {} for build in workshop.BUILDS}
        for name in sources:
            for build in workshop.BUILDS:
                try:
                    self.objects[build][name] = self.shop.compile(self.folder, step, name, build, self.check_symbols)
                except NotBuilt as problem:
                    self.not_built.setdefault(name, str(problem))
                except Refused as problem:
                    self.refused.setdefault(name, str(problem))
        if self.check_symbols:
            for build in workshop.BUILDS:
                for name, reason in workshop.refuse_symbols(self.objects[build]):
                    self.refused.setdefault(name, reason)
        for name in {*self.not_built, *self.refused} & {*sources}:
            self.put_stub(name)
        for build in workshop.BUILDS:
            try:
                self.shop.link(step, build, self.lab["table"], self.objects[build].values(), self.folder / f"run.{build}")
            except Unable as problem:
                raise NotBuilt(f"the kernels do not link: {str(problem)[-300:]}") from None

    def put_stub(self, name):
        """A file that cannot be used must not keep the others from being graded."""
        clean = self.folder / "clean"
        if not clean.exists():
            (clean / "objects").mkdir(parents=True)
            (clean / "scratch").mkdir()
            for path in (clean / "objects", clean / "scratch"):
                path.chmod(0o1777)
            shutil.copytree(self.shop.base / self.lab["step"], clean / self.lab["step"])
        for build in workshop.BUILDS:
            self.objects[build][name] = self.shop.compile(clean, self.lab["step"], name, build)

    # ------------------------------------------------------------------------------------------------------------------
    # Running

    def run(self, case, kernel, runner, order="-", laps=0):
        """The judge's verdict on one run of one kernel in a process of its own. runner: cpu, check, gpu, reference."""
        request, answer = self.secret / "request", self.secret / "answer"
        if self.prepared is not case:
            self.judge.require(case.line)
            self.prepared = case
        workspace = int(formula(self.kernel(kernel).get("workspace", 0), case.sizes))
        size = self.judge.require(f"request {kernel} {order} {workspace} {laps} {request}")["bytes"]
        with open(answer, "wb") as file:
            file.truncate(size)
        ending = self.confined([str(self.folder / f"run.{runner}")], request, answer, size,
                               runner in ("gpu", "reference"))
        verdict = self.judge.ask(f"judge {answer}")
        if verdict["verdict"] == "crashed":
            verdict["reason"] = ending or verdict["reason"]
        elif ending:
            verdict.update(verdict="crashed", reason=ending)
        return verdict

    def confined(self, command, request, answer, size, on_device):
        """Empty for a program that ends by itself with status 0, else how it ended."""
        confine = [str(self.shop.base / "labs/confine"), str(RUN_SECONDS), str(RUN_MEGABYTES), str(size + 4096)]
        source, target = os.open(request, os.O_RDONLY), os.open(answer, os.O_RDWR)
        pids = {3: source, 4: target}

        def descriptors():
            high = {wanted: os.dup2(have, 100 + wanted) for wanted, have in pids.items()}
            for wanted, have in high.items():
                os.dup2(have, wanted, inheritable=True)
            os.closerange(5, 256)

        try:
            process = subprocess.Popen(confine + command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, env={"LABS_CONFINE": "device"} if on_device else {},
                                       close_fds=False, start_new_session=True,
                                       preexec_fn=descriptors)
        finally:
            os.close(source)
            os.close(target)
        try:
            status = process.wait(timeout=6 * RUN_SECONDS)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            workshop.end_group(process)
        if status is None or status == -signal.SIGXCPU:
            return f"time-out: more than {RUN_SECONDS} s of processor time, or six times that by the clock"
        if status < 0:
            return f"crash: {signal.Signals(-status).name}"
        if status == 125:
            raise Unable("the program could not be confined on this machine")
        return f"ended with exit status {status}" if status else ""

    # ------------------------------------------------------------------------------------------------------------------
    # Tests and points

    def kernel(self, name):
        return next(kernel for kernel in self.lab["kernels"] if kernel["name"] == name)

    def outcome(self, kernel, kind, points, status, reason="", earned=None):
        earned = earned if earned is not None else points if status == "passed" else 0
        self.outcomes.append({"name": f"{kernel}: {kind}", "kernel": kernel, "kind": kind.split(":")[0], "status": status,
                              "points": earned, "max": points, "reason": reason})

    def tests_of(self, kernel):
        """(kind, points, function) for every test that lab.json names."""
        yield "correctness", kernel["correctness"], self.test_correctness
        yield "sanitizer", kernel["sanitizer"], self.test_sanitizer
        for counter in kernel.get("counters", []):
            yield (f"counters: {counter['says']}", counter["points"],
                   lambda kernel, counter=counter: self.test_counter(kernel, counter))
        if "speed" in kernel:
            yield "speed", kernel["speed"]["points"], self.test_speed

    def told(self, verdict, case):
        if verdict["verdict"] == "workspace":
            return f"workspace of {verdict['workspace']} bytes; this kernel may have " + \
                f"{int(formula(self.kernel_now.get('workspace', 0), case.sizes))}"
        reason = verdict["reason"]
        if self.full:
            return f"{verdict['verdict']} at {case}: {reason}"
        if verdict["verdict"] == "fail":
            return f"failed in a hidden case: {reason.split(':')[0]}"
        return f"{verdict['verdict']} in a hidden case: {reason}"

    def small_of(self, kernel):
        """The lab's sizes for the checked build, or the kernel's own."""
        return Case(self.lab, kernel["small"], "normal", self.chance.getrandbits(62)) if "small" in kernel else self.small

    def test_correctness(self, kernel):
        """All hidden cases in the fast build, and one in the checked build, which counts who stored the outputs."""
        runs = [(case, "cpu", "-") for case in self.cases] + [(self.small_of(kernel), "check", "-")]
        for case, build, order in runs:
            verdict = self.run(case, kernel["name"], build, order)
            if verdict["verdict"] in ("skipped", "no device"):
                return "ungraded", verdict["reason"]
            if verdict["verdict"] != "pass":
                return "failed", self.told(verdict, case)
        return "passed", ""

    def test_sanitizer(self, kernel):
        for order in ORDERS:
            verdict = self.run(self.small_of(kernel), kernel["name"], "check", order)
            if verdict["verdict"] in ("skipped", "no device"):
                return "ungraded", verdict["reason"]
            if verdict["verdict"] != "pass":
                return "failed", f"threads {order}: " + self.told(verdict, self.small_of(kernel))
        return "passed", ""

    def test_counter(self, kernel, counter):
        case = Case(self.lab, counter["sizes"], "normal", self.chance.getrandbits(62))
        verdict = self.run(case, kernel["name"], "check")
        if verdict["verdict"] in ("skipped", "no device"):
            return "ungraded", verdict["reason"]
        if verdict["verdict"] != "pass":
            return "failed", self.told(verdict, case)
        most, counted = formula(counter["at_most"], case.sizes), verdict["counters"][counter["counter"]]
        return ("passed" if counted <= most else "failed",
                f"{counter['counter']} {counted}; at most {counter['at_most']} = {most:g} at {case}")

    def test_speed(self, kernel):
        """Student's and reference's runners in turns on the same inputs; the medians' ratio on a sliding scale."""
        if workshop.device() is None:
            return "ungraded", "speed is measured on a GPU only"
        self.build_for_gpu()
        speed = kernel["speed"]
        case = Case(self.lab, speed["sizes"], "normal", self.chance.getrandbits(62))
        times = {"gpu": [], "reference": []}
        for _ in range(ROUNDS):
            for runner, measured in times.items():
                verdict = self.run(case, kernel["name"], runner, laps=LAPS)
                if verdict["verdict"] in ("skipped", "no device") or (runner == "reference" and verdict["verdict"] != "pass"):
                    return "ungraded", f"{runner}: {verdict['verdict']}: {verdict['reason']}"
                if verdict["verdict"] != "pass" or verdict["milliseconds"] <= 0:
                    return "failed", "on the GPU: " + self.told(verdict, case)
                measured.append(verdict["milliseconds"])
        mine, reference = statistics.median(times["gpu"]), statistics.median(times["reference"])
        share = min(max((reference / mine - speed["zero"]) / (speed["full"] - speed["zero"]), 0.0), 1.0)
        self.earned = int(share * speed["points"])
        return ("passed" if share == 1.0 else "failed",
                f"{mine:.4g} ms, reference {reference:.4g} ms: ratio {reference / mine:.2f}; none at {speed['zero']}, "
                f"all points at {speed['full']}")

    def build_for_gpu(self):
        """Once per submission: run.gpu of the files as they are built here, run.reference of the project's own."""
        if (self.folder / "run.gpu").exists():
            return
        step, solution = self.lab["step"], self.secret / "solution"
        for name in {*self.not_built, *self.refused}:
            shutil.copyfile(self.shop.base / step / name, self.folder / step / name)
        self.shop.build_for_gpu(self.folder, step, self.lab["table"], self.folder / "run.gpu")
        for part in (solution, solution / "objects", solution / "scratch"):
            part.mkdir(exist_ok=True)
        shutil.copytree(handout.ROOT / step, solution / step)
        self.shop.build_for_gpu(solution, step, self.lab["table"], self.secret / "run.reference",
                                trusted=True)
        shutil.move(self.secret / "run.reference", self.folder / "run.reference")

    def grade_kernel(self, kernel):
        self.kernel_now = kernel
        files = [kernel["file"], *self.lab.get("shared", [])]
        cannot = next((self.not_built[name] for name in files if name in self.not_built), None)
        refused = next((self.refused[name] for name in files if name in self.refused), None)
        passed_so_far = True
        for kind, points, test in self.tests_of(kernel):
            if refused:
                self.outcome(kernel["name"], kind, points, "failed", "refused: " + refused)
            elif cannot:
                self.outcome(kernel["name"], kind, points, "ungraded", cannot)
            elif not passed_so_far and kind != "correctness":
                self.outcome(kernel["name"], kind, points, "failed", "only a correct kernel earns these points")
            else:
                self.earned = None
                try:
                    status, reason = test(kernel)
                except NotBuilt as problem:
                    status, reason = "ungraded", str(problem)
                self.outcome(kernel["name"], kind, points, status, reason, self.earned)
                if kind == "correctness" and status != "passed":
                    passed_so_far = status == "ungraded"

    def all_ungraded(self, reason):
        self.outcomes = []
        for kernel in self.lab["kernels"]:
            for kind, points, _ in self.tests_of(kernel):
                self.outcome(kernel["name"], kind, points, "ungraded", reason)

    def grade(self):
        """The results, whatever happens."""
        begin = time.monotonic()
        try:
            self.shop = workshop.Workshop()
            with tempfile.TemporaryDirectory(prefix="grading-", ignore_cleanup_errors=True) as name:
                top = pathlib.Path(name)
                top.chmod(0o711)
                self.folder, self.secret, self.prepared = top / "work", top / "secret", None
                for path, mode in ((self.folder, 0o755), (self.folder / "objects", 0o1777),
                                   (self.folder / "scratch", 0o1777), (self.secret, 0o700)):
                    path.mkdir()
                    path.chmod(mode)
                self.cases = list(draw_cases(self.lab, self.chance))
                self.small = Case(self.lab, self.lab["small"], "normal", self.chance.getrandbits(62))
                self.take()
                self.build()
                self.judge = Judge(self.shop.base)
                for kernel in self.lab["kernels"]:
                    self.grade_kernel(kernel)
                self.judge.close()
        except (Unable, NotBuilt, Refused, OSError, subprocess.SubprocessError) as problem:
            self.all_ungraded(str(problem)[:600])
        return {"step": self.lab["step"], "title": self.lab["title"], "tests": self.outcomes,
                "score": sum(test["points"] for test in self.outcomes), "max": sum(test["max"] for test in self.outcomes),
                "seconds": round(time.monotonic() - begin, 1)}


def hide():
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: nobody of the same user may look into this process


def main(arguments):
    if len(arguments) != 4 or arguments[3] not in formats.FORMATS:
        print(__doc__, file=sys.stderr)
        return 2
    step, submission, output, form = arguments
    hide()
    try:
        results = Grading(step, submission, os.environ.get("LAB_SEED")).grade()
    except Exception as problem:  # a results file is owed even where this program is wrong
        results = {"step": step, "title": f"Step {step}", "score": 0, "max": 0, "seconds": 0.0,
                   "tests": [{"name": "grading", "kernel": "", "kind": "correctness", "status": "ungraded", "points": 0,
                              "max": 0, "reason": f"the grader failed: {problem}"[:600]}]}
    pathlib.Path(output).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(output).write_text(formats.FORMATS[form](results))
    print(f"{results['step']}: {results['score']} of {results['max']} points in {results['seconds']} s, see {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
