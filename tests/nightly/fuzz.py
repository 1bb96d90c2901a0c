#!/usr/bin/env python3
"""Runs a step's kernels at random sizes, on random inputs and in random thread orders, until the time is over or one fails.

  fuzz.py PROGRAM ...          the steps' programs, build/cpu/02_tiled_matmul for instance

  --library FILE               libflashsteps.so: its kernels are compared with PyTorch in double precision, where this
                               Python has a PyTorch for the device; otherwise the programs judge their own kernels
  --device NAME                where the library's kernels run: cuda, or cpu
  --seconds N                  how long (60)
  --seed N                     which problems; a new one each time, which is printed, unless this says which
  --kernel NAME                only this kernel (may be repeated)
  --problem JSON               only these sizes and inputs, as what failed is printed

Cases that failed once, from tests/steps/failed_once.txt, are tried first. Further sizes lie around multiples and sums of tiles,
and around the limits between which kernels choose: the numbers in the step's own sources, whatever they are. A failure is printed
as the command that shows it again, and as the line that keeps it. Only --library needs more than Python's standard library.
"""
import argparse
import collections
import itertools
import json
import math
import os
import random
import re
import secrets
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests/steps/failed_once.txt"
TIMEOUT_SECONDS = 300
# Products and elements are limited to about a second of one core for a step. A judge on a GPU takes more.
MOST_WORK = {"matmul": 3e7, "softmax": 4e6, "attention": 3e6, "attention_backward": 3e6}
MOST_ELEMENTS = 6e7  # for an array, whatever the judge: it also exists in double precision


def numbers_of(folder):
    """
    Returns the numbers in a step's kernels, and products of them: sides of tiles, and limits where one choice gives way to
    another. When a kernel chooses by a new limit, later runs try sizes around it.
    """
    numbers = set()
    for path in (path for path in folder.rglob("*") if path.suffix in (".cu", ".cuh", ".h")):
        code = re.sub(r"/\*.*?\*/|//[^\n]*|\"[^\"\n]*\"", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for product in re.findall(r"(?<![\w.])\d+(?: \* \d+)*(?![\w.])", code):
            numbers.add(math.prod(map(int, product.split(" * "))))
    return sorted(number for number in numbers if number > 1)


class Draw:
    """
    Draws random sizes for each problem, up to about `reach` times those for a CPU. Returns the sizes, the work, and the elements
    of the largest array.
    """

    def __init__(self, rng, reach, numbers):
        self.rng, self.reach, self.numbers = rng, reach, numbers

    def length(self, most):
        """Draws a length up to `most`: around one of the numbers, or around several times one number and a few times another."""
        rng = self.rng
        fitting = [number for number in self.numbers if number <= most] or [1]
        tile, other = rng.choice(fitting), rng.choice(fitting)
        if rng.random() < 0.2:
            length = tile * rng.choice((1, 1, 2, 3, 4))
        else:
            length = rng.randint(0, most) // tile * tile + rng.choice((0, other * rng.randint(0, 3)))
        return max(0, min(most, length + rng.choice((-1, 0, 0, 1, rng.randint(-other, other)))))

    def matmul(self, _):
        m, n = (self.length(self.rng.choice((300, 1000, 3000)) * self.reach) for _ in range(2))
        k = self.length(self.rng.choice((100, 300, 1000)) * self.reach)
        return {"m": m, "n": n, "k": k}, m * n * k, max(m * n, m * k, k * n)

    def softmax(self, _):
        rows = self.length(self.rng.choice((8, 300, 2000)) * self.reach)
        cols = self.length(self.rng.choice((2000, 40000, 400000)))
        return {"rows": rows, "cols": cols}, rows * cols, rows * cols

    def attention(self, listing):
        rng, kernels = self.rng, listing["kernels"]
        kv_heads = rng.choice((1, 1, 2, 3))
        sizes = {"batch": rng.choice((1, 1, 2, 3)), "kv-heads": kv_heads, "heads": kv_heads * rng.choice((1, 1, 2, 3)),
                 "seq-q": self.length(rng.choice((20, 300, 1200)) * self.reach),
                 "seq-kv": self.length(rng.choice((300, 1200, 2500)) * self.reach)}
        multiple = rng.choice([kernel["head_dim_multiple"] for kernel in kernels])
        most = max(kernel["max_head_dim"] for kernel in kernels)
        sizes["head-dim"] = max(multiple, self.length(most) // multiple * multiple)
        # Features are drawn that one kernel has, so at least that one takes them.
        one = rng.choice(kernels)
        has = {"causal": one["causal"], "alibi": one["variants"], "lengths": one["lengths"]}
        for flag in (size["name"] for size in listing["sizes"] if size["flag"]):
            sizes[flag] = has[flag] and rng.random() < 0.5
        if one["paged"]:
            sizes["page"] = rng.choice((0, 16, 32, 64, 128, 256))
        if one["lengths"] and rng.random() < 0.5:
            sizes["seq-q"] = rng.randint(1, 16)
        heads, queries, keys = sizes["batch"] * sizes["heads"], sizes["seq-q"], sizes["seq-kv"]
        # A score takes a whole warp, however few features there are.
        return sizes, heads * queries * keys * max(32, sizes["head-dim"]), heads * max(queries, keys) * sizes["head-dim"]

    attention_backward = attention


def naming(kernels):
    return [f"--kernel={name}" for name in kernels]


def loads_of(listing, problem):
    """Returns what each chosen kernel says that it loads, {name: instructions}; nothing when the sizes are refused."""
    result = subprocess.run([listing["program"], "--list", "--json", *Programs.options(listing, problem),
                             *naming(listing["chosen"])], check=False, text=True, capture_output=True)
    listed = json.loads(result.stdout)["kernels"] if result.returncode == 0 else []
    return {kernel["name"]: kernel["global_loads"] for kernel in listed}


def near_a_change(listing, problem):
    """Returns whether some smaller problem costs a chosen kernel more, because the kernel takes another path there."""
    here = loads_of(listing, problem)
    for name in ("m", "n", "k", "rows", "cols", "seq-q", "seq-kv"):
        value = problem["sizes"].get(name, 0)
        if value > 1:
            smaller = {**problem, "sizes": {**problem["sizes"], name: value - max(1, value // 16)}}
            there = loads_of(listing, smaller)
            if any(there.get(kernel, 0) > here.get(kernel, 0) for kernel in listing["chosen"]):
                return True
    return False


def draw(seed, listing, judge):
    """
    Draws sizes and inputs of a problem. They are the same for the same seed, problem and chosen kernels. Most lie near a change of
    path, if a few tries find one. With few kernels, each may have more of the work.
    """
    rng = random.Random(seed)
    tries = rng.choice((0, judge.tries, judge.tries))
    problem = draw_any(rng, listing, judge)
    for _ in range(tries):
        if near_a_change(listing, problem):
            break
        problem = draw_any(rng, listing, judge)
    return problem


def draw_any(rng, listing, judge):
    problem, share = listing["problem"], len(listing["chosen"]) / len(listing["kernels"])
    while True:
        sizes, work, elements = getattr(Draw(rng, judge.reach, listing["numbers"]), problem)(listing)
        if work * share <= MOST_WORK[problem] * judge.work and elements <= MOST_ELEMENTS:
            break
    types = sorted({name for kernel in listing["kernels"] for name in kernel["types"]})
    kinds, orders = listing["inputs"] + judge.inputs, ("inorder", "reversed", f"random:{rng.randint(1, 10 ** 6)}")
    return {"sizes": sizes, "type": rng.choice(types), "inputs": rng.choice(kinds),
            "seed": rng.randint(1, 10 ** 6), "order": rng.choice(orders)}


class Programs:
    """The steps' programs compare each kernel with the reference in common/."""
    reach, work, inputs, tries = 1, 1, [], 30
    name = "the steps' own references"

    @staticmethod
    def options(listing, problem):
        sizes = dict(problem["sizes"])
        if "seq-q" in sizes:  # there 0 means "as --seq"
            sizes["seq"] = 0 if 0 in (sizes["seq-q"], sizes["seq-kv"]) else 1
        options = []
        for name, value in sizes.items():
            options += [f"--{name}"] if value is True else [] if value is False else [f"--{name}", str(value)]
        if any(len(kernel["types"]) > 1 for kernel in listing["kernels"]):
            options += ["--type", problem["type"]]
        return [*options, "--inputs", problem["inputs"], "--seed", str(problem["seed"]), "--repeat", "1"]

    def judge(self, listing, problem, kernels):
        """Returns (kernel, "pass", "FAIL" or other outcome, why, the command that shows it) for these kernels."""
        program, options = listing["program"], self.options(listing, problem)
        order, named = {"SIMT_ORDER": problem["order"]}, naming(kernels)
        command = " ".join((f"SIMT_ORDER={problem['order']}", program, *options))
        try:
            result = subprocess.run([program, "--json", *options, *named], env={**os.environ, **order}, text=True,
                                    capture_output=True, check=False, timeout=TIMEOUT_SECONDS)
            why = f"exit status {result.returncode}: {result.stderr.strip()[-300:]}"
        except subprocess.TimeoutExpired:
            result, why = None, f"no end after {TIMEOUT_SECONDS} s"
        # A kernel that refuses these sizes also gives status 2.
        if result is None or result.returncode not in (0, 1, 2) or not result.stdout:
            return [(program, "FAIL", why, " ".join((command, *named)))]
        return [(kernel["name"], kernel["check"], kernel["reason"], f"{command} --kernel={kernel['name']}")
                for kernel in json.loads(result.stdout)["kernels"]]


def judge_of(options):
    if options.shared_object is None:
        return Programs()
    try:
        from torch_judge import PyTorch
        return PyTorch(options.shared_object, options.device)
    except ImportError as error:
        why = str(error)
    print(f"not compared with PyTorch: {why} (pip install torch)")
    return Programs()


def listings_of(program, wanted):
    """Yields what the program says of each problem that it solves, and which of its kernels are chosen: those that are wanted, or
    all."""
    def run(*options):
        return subprocess.run([program, "--list", *options], check=True, capture_output=True, text=True).stdout
    # In JSON it names one problem at a time, and a further one only where kernels of it are named.
    text = run("--json", *naming(line.split()[0] for line in run().splitlines() if line))
    numbers = numbers_of(ROOT / Path(program).name)
    while text:
        listing, end = json.JSONDecoder().raw_decode(text)
        text = text[end:].lstrip()
        names = [kernel["name"] for kernel in listing["kernels"]]
        yield {**listing, "program": program, "number": listing["step"][:2], "numbers": numbers,
               "chosen": [name for name in names if name in wanted or not wanted]}


def failed_once(step):
    """Reads (kernel, problem) from the lines of the list that are this step's."""
    for line in CASES.read_text(encoding="utf-8").splitlines():
        words = line.partition("#")[0].split()
        if words[:1] != [step]:
            continue
        options = [part.split() for part in " ".join(words[2:]).split("--")[1:]]
        sizes = {name: int(value[0]) if value and value[0].isdigit() else value[0] if value else True for name, *value in options}
        kind, element = sizes.pop("inputs", "normal"), sizes.pop("type", "f32")
        yield words[1], {"sizes": sizes, "type": element, "inputs": kind, "seed": 1, "order": "inorder"}


def line_of(kernel, listing, problem):
    """Returns the failure as a line of the list."""
    words = [listing["number"], kernel, *(f"--{name}" if value is True else f"--{name} {value}" for name, value in problem["sizes"].items()
                             if value is not False)]
    if problem["type"] != "f32":
        words.append(f"--type {problem['type']}")
    if problem["inputs"] in listing["inputs"] and problem["inputs"] != "normal":
        words.append(f"--inputs {problem['inputs']}")
    return " ".join(words)


def work_of(sizes):
    """Returns the work as Draw does, for sizes that were not drawn."""
    if "heads" in sizes:
        return sizes["batch"] * sizes["heads"] * sizes["seq-q"] * sizes["seq-kv"] * max(32, sizes["head-dim"])
    return math.prod(sizes.values())


def problems(listings, judge, first):
    """Yields (listing, kernels, problem) without end: first what failed once, as far as this judge has the time, then what is
    drawn."""
    owners = {(listing["number"], kernel["name"]): listing for listing in listings for kernel in listing["kernels"]}
    for number in dict.fromkeys(listing["number"] for listing in listings):
        for kernel, problem in failed_once(number):
            listing = owners.get((number, kernel)) or sys.exit(f"{CASES.relative_to(ROOT)}: no kernel of step {number} is {kernel}")
            # One kernel runs once here, so it may take ten times what is drawn for all kernels.
            if kernel in listing["chosen"] and work_of(problem["sizes"]) <= 10 * MOST_WORK[listing["problem"]] * judge.work:
                yield listing, [kernel], problem
    drawn_from = [listing for listing in listings if listing["chosen"]]
    for listing, seed in zip(itertools.cycle(drawn_from), seeds(first)):
        yield listing, listing["chosen"], draw(seed, listing, judge)


def seeds(first):
    """Yields the first seed, then others that follow from it. Each is a problem."""
    yield first
    rng = random.Random(first)
    while True:
        yield str(rng.getrandbits(40))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--library", dest="shared_object")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed")
    parser.add_argument("--kernel", action="append", default=[])
    parser.add_argument("--problem", type=json.loads)
    options = parser.parse_args()
    again = shlex.join([Path(sys.executable).name, *sys.argv])
    if options.seed is None:
        options.seed = str(secrets.randbelow(10 ** 6))
        again += f" --seed {options.seed}"
    listings = [listing for program in options.programs for listing in listings_of(program, options.kernel)]
    judge = judge_of(options)
    print(f"compared with {judge.name}; seed {options.seed}, again by:\n  {again}", flush=True)
    passed, others = collections.Counter(), {}
    begin = time.monotonic()
    if options.problem:
        tried = [(listing, listing["chosen"], options.problem) for listing in listings if listing["chosen"]]
    else:
        tried = problems(listings, judge, options.seed)
    runs = 0
    for listing, kernels, problem in tried:
        if runs > 0 and time.monotonic() - begin >= options.seconds:
            break
        runs += 1
        failed = False
        for kernel, status, why, command in judge.judge(listing, problem, kernels):
            if status == "FAIL":
                print(f"{kernel}: {why}\n  {command}", flush=True)
                line = line_of(kernel, listing, problem)
                print(f"  a line for {CASES.relative_to(ROOT)}, which the step's tests read, too:\n  {line}", flush=True)
                failed = True
            passed[kernel] += status == "pass"
            others[kernel] = why
        if failed:
            print(f"after {runs} runs, {time.monotonic() - begin:.0f} s, seed {options.seed}")
            return 1
    for kernel in (kernel for kernel, count in passed.items() if count == 0):
        print(f"{kernel} took none of the problems; the last one: {others[kernel]}")
    print(f"{runs} runs, {sum(passed.values())} kernels passed, seed {options.seed}, {time.monotonic() - begin:.0f} s")
    return 0 if sum(passed.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
