#!/usr/bin/env python3
"""Random sizes, inputs and thread orders for the kernels of a step, until the time is over or one fails.

  fuzz.py PROGRAM ...          the steps' programs, build/cpu/02_tiled_matmul for instance

  --seconds N                  how long (60)
  --seed N                     which sizes (1)
  --kernel NAME                only this kernel (may be repeated)

Sizes lie around the multiples of tiles. What fails is printed as the command that shows it again. Python's standard library
suffices.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import time

MOST_WORK = {"matmul": 3e7, "softmax": 4e6, "attention": 3e6}  # products, elements: about a second of one core for a step
TIMEOUT_SECONDS = 300


def length(rng, most):
    """Small, or next to a multiple of some tile."""
    tile = rng.choice((1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512, 1024))
    return max(0, min(most, tile * rng.randint(0, 6) + rng.choice((-1, 0, 0, 1, rng.randint(-tile, tile)))))


def matmul_sizes(rng, _):
    sizes = {side: length(rng, 4000) for side in "mnk"}
    return sizes, sizes["m"] * sizes["n"] * sizes["k"]


def softmax_sizes(rng, _):
    sizes = {"rows": length(rng, 2000), "cols": rng.choice((length(rng, 6000), length(rng, 6000), rng.randint(1, 400000)))}
    return sizes, sizes["rows"] * sizes["cols"]


def attention_sizes(rng, listing):
    kv_heads = rng.choice((1, 1, 2, 3))
    sizes = {"batch": rng.choice((1, 1, 2, 3)), "kv-heads": kv_heads, "heads": kv_heads * rng.choice((1, 1, 2, 3)),
             "seq-q": length(rng, 700), "seq-kv": length(rng, 2500)}
    multiple = rng.choice([kernel["head_dim_multiple"] for kernel in listing["kernels"]])
    sizes["head-dim"] = max(multiple, min(128, length(rng, 128)) // multiple * multiple)
    # 0 stands for "as --seq" there.
    sizes["seq"] = 0 if 0 in (sizes["seq-q"], sizes["seq-kv"]) else 1
    for flag in (size["name"] for size in listing["sizes"] if size["flag"]):
        sizes[flag] = rng.random() < 0.5
    # A warp works on a score, however few its features are.
    work = sizes["batch"] * sizes["heads"] * sizes["seq-q"] * sizes["seq-kv"] * max(32, sizes["head-dim"])
    return sizes, work


SIZES = {"matmul": matmul_sizes, "softmax": softmax_sizes, "attention": attention_sizes}


def list_of(program):
    return json.loads(subprocess.run([program, "--list", "--json"], check=True, capture_output=True, text=True).stdout)


def draw(rng, listing, kernels):
    """(environment, options) of one run."""
    problem = listing["problem"]
    while True:
        sizes, work = SIZES[problem](rng, listing)
        if work <= MOST_WORK[problem]:
            break
    options = []
    for name, value in sizes.items():
        if value is True:
            options.append(f"--{name}")
        elif value is not False:
            options += [f"--{name}", str(value)]
    types = sorted({name for kernel in listing["kernels"] for name in kernel["types"]})
    if len(types) > 1:
        options += ["--type", rng.choice(types)]
    options += ["--inputs", rng.choice(listing["inputs"]), "--seed", str(rng.randint(1, 10 ** 6)), "--repeat", "1"]
    for kernel in kernels:
        options += ["--kernel", kernel]
    order = rng.choice(("inorder", "reversed", f"random:{rng.randint(1, 10 ** 6)}"))
    return {"SIMT_ORDER": order}, options


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--kernel", action="append", default=[])
    options = parser.parse_args()
    rng = random.Random(options.seed)
    listings = {program: list_of(program) for program in options.programs}
    begin, runs, checked = time.monotonic(), 0, 0
    while time.monotonic() - begin < options.seconds:
        program = options.programs[runs % len(options.programs)]
        names = [kernel["name"] for kernel in listings[program]["kernels"]]
        environment, arguments = draw(rng, listings[program], [name for name in options.kernel if name in names])
        command = " ".join((*(f"{name}={value}" for name, value in environment.items()), program, *arguments))
        try:
            result = subprocess.run([program, "--json", *arguments], env={**os.environ, **environment}, check=False,
                                    capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"no end after {TIMEOUT_SECONDS} s: {command}")
            return 1
        runs += 1
        try:
            kernels = json.loads(result.stdout)["kernels"]
        except (ValueError, KeyError):
            print(f"exit status {result.returncode}, {result.stderr.strip()[-300:]}\n  {command}")
            return 1
        failed = [kernel for kernel in kernels if kernel["check"] == "FAIL"]
        checked += sum(kernel["check"] == "pass" for kernel in kernels)
        for kernel in failed:
            print(f"{kernel['name']}: {kernel['detector']}: {kernel['reason']}\n  {command} --kernel {kernel['name']}")
        if failed or result.returncode not in (0, 1):
            return 1
    if checked == 0:
        print("no kernel took any of the sizes")
        return 1
    print(f"{runs} runs, {checked} kernels passed, seed {options.seed}, {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
