#!/usr/bin/env python3
"""Random sizes, inputs and thread orders for the kernels of a step, until the time is over or one fails.

  fuzz.py PROGRAM ...          the steps' programs, build/cpu/02_tiled_matmul for instance

  --library FILE               libflashsteps.so: its kernels are compared with PyTorch in double precision, where this
                               Python has a PyTorch for the device; otherwise the programs judge their own kernels
  --device NAME                where the library's kernels run: cuda, or cpu
  --seconds N                  how long (60); 0 for one problem
  --seed N                     which problems (1)
  --kernel NAME                only this kernel (may be repeated)

Sizes lie around the multiples of tiles. What fails is printed as the command that shows it again. Python's standard library
suffices, but for --library.
"""
import argparse
import collections
import itertools
import json
import os
import random
import subprocess
import sys
import time

TIMEOUT_SECONDS = 300
# Products, elements: about a second of one core for a step. A judge on a GPU takes more of it.
MOST_WORK = {"matmul": 3e7, "softmax": 4e6, "attention": 3e6}
MOST_ELEMENTS = 6e7  # of an array, whatever the judge: it is there in double precision, too


class Draw:
    """
    Random sizes of each problem, up to about `reach` times those of a CPU: the sizes, the work, and the elements of the
    largest array.
    """

    def __init__(self, rng, reach):
        self.rng, self.reach = rng, reach

    def length(self, most):
        """Small, or next to a multiple of some tile."""
        tile = self.rng.choice((1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512, 1024))
        tiles = self.rng.randint(0, 6 * self.rng.choice((1, self.reach)))
        return max(0, min(most, tile * tiles + self.rng.choice((-1, 0, 0, 1, self.rng.randint(-tile, tile)))))

    def matmul(self, _):
        m, n, k = (self.length(4000 * self.reach) for _ in range(3))
        return {"m": m, "n": n, "k": k}, m * n * k, max(m * n, m * k, k * n)

    def softmax(self, _):
        rows, longest = self.length(2000 * self.reach), 400000 * self.reach
        cols = self.rng.choice((self.length(6000 * self.reach), self.length(6000), self.rng.randint(1, longest)))
        return {"rows": rows, "cols": cols}, rows * cols, rows * cols

    def attention(self, listing):
        rng, kernels = self.rng, listing["kernels"]
        kv_heads = rng.choice((1, 1, 2, 3))
        sizes = {"batch": rng.choice((1, 1, 2, 3)), "kv-heads": kv_heads, "heads": kv_heads * rng.choice((1, 1, 2, 3)),
                 "seq-q": self.length(700 * self.reach), "seq-kv": self.length(2500 * self.reach)}
        multiple = rng.choice([kernel["head_dim_multiple"] for kernel in kernels])
        most = max(kernel["max_head_dim"] for kernel in kernels)
        sizes["head-dim"] = max(multiple, self.length(most) // multiple * multiple)
        for flag in (size["name"] for size in listing["sizes"] if size["flag"]):
            sizes[flag] = rng.random() < 0.5
        heads, queries, keys = sizes["batch"] * sizes["heads"], sizes["seq-q"], sizes["seq-kv"]
        # A warp works on a score, however few its features are.
        return sizes, heads * queries * keys * max(32, sizes["head-dim"]), heads * max(queries, keys) * sizes["head-dim"]


def draw(seed, listing, judge):
    """What one problem is; the same for the same seed."""
    rng, problem = random.Random(seed), listing["problem"]
    while True:
        sizes, work, elements = getattr(Draw(rng, judge.reach), problem)(listing)
        if work <= MOST_WORK[problem] * judge.work and elements <= MOST_ELEMENTS:
            break
    types = sorted({name for kernel in listing["kernels"] for name in kernel["types"]})
    kinds, orders = listing["inputs"] + judge.inputs, ("inorder", "reversed", f"random:{rng.randint(1, 10 ** 6)}")
    return {"drawn by": seed, "sizes": sizes, "type": rng.choice(types), "inputs": rng.choice(kinds),
            "seed": rng.randint(1, 10 ** 6), "order": rng.choice(orders)}


class Programs:
    """The steps' programs compare each kernel with the reference in common/."""
    reach, work, inputs = 1, 1, []
    name = "the steps' own references"

    @staticmethod
    def options(listing, problem):
        sizes = dict(problem["sizes"])
        if "seq-q" in sizes:  # 0 stands for "as --seq" there
            sizes["seq"] = 0 if 0 in (sizes["seq-q"], sizes["seq-kv"]) else 1
        options = []
        for name, value in sizes.items():
            options += [f"--{name}"] if value is True else [] if value is False else [f"--{name}", str(value)]
        if any(len(kernel["types"]) > 1 for kernel in listing["kernels"]):
            options += ["--type", problem["type"]]
        return [*options, "--inputs", problem["inputs"], "--seed", str(problem["seed"]), "--repeat", "1"]

    def judge(self, program, listing, problem, kernels):
        """(kernel, "pass", "FAIL" or what else, why, the command that shows it) of these kernels, or of all."""
        order, named = {"SIMT_ORDER": problem["order"]}, [f"--kernel={name}" for name in kernels]
        options = self.options(listing, problem)
        command = " ".join((f"SIMT_ORDER={problem['order']}", program, *options))
        try:
            result = subprocess.run([program, "--json", *options, *named], env={**os.environ, **order}, text=True,
                                    capture_output=True, check=False, timeout=TIMEOUT_SECONDS)
            why = f"exit status {result.returncode}: {result.stderr.strip()[-300:]}"
        except subprocess.TimeoutExpired:
            result, why = None, f"no end after {TIMEOUT_SECONDS} s"
        # 2 is the status of a kernel that refuses these sizes, too.
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


def list_of(program):
    return json.loads(subprocess.run([program, "--list", "--json"], check=True, capture_output=True, text=True).stdout)


def seeds(first):
    """The first, and others that follow from it: each is a problem."""
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
    parser.add_argument("--seed", default="1")
    parser.add_argument("--kernel", action="append", default=[])
    options = parser.parse_args()
    listings = {program: list_of(program) for program in options.programs}
    judge = judge_of(options)
    print(f"compared with {judge.name}", flush=True)
    chosen = {program: [kernel["name"] for kernel in listing["kernels"] if kernel["name"] in options.kernel]
              for program, listing in listings.items()}
    passed, others = collections.Counter(), {}
    begin = time.monotonic()
    for runs, (program, seed) in enumerate(zip(itertools.cycle(options.programs), seeds(options.seed))):
        if runs > 0 and time.monotonic() - begin >= options.seconds:
            break
        problem = draw(seed, listings[program], judge)
        failed = False
        for kernel, status, why, command in judge.judge(program, listings[program], problem, chosen[program]):
            if status == "FAIL":
                print(f"{kernel}: {why}\n  {command}", flush=True)
                failed = True
            passed[program, kernel] += status == "pass"
            others[program, kernel] = why
        if failed:
            return 1
    for key in (key for key, count in passed.items() if count == 0):
        print(f"{key[1]} took none of the problems; the last one: {others[key]}")
    print(f"{runs} runs, {sum(passed.values())} kernels passed, seed {options.seed}, {time.monotonic() - begin:.0f} s")
    return 0 if sum(passed.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
