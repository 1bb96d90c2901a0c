#!/usr/bin/env python3
"""What the registers and the shared loads of a kernel's loops cost, estimated from its machine code, without a GPU.

    tests/bench/registers.py build/gpu/obj/02_tiled_matmul/13_sgemm_cluster.cu.o

prints for each loop of multiply-adds (FFMA) in each kernel of an object that `make gpu-build` made:

    instructions   of one pass through the loop
    FFMA           their share in %
    cost           cycles for each multiply-add: one for every instruction of the loop, and for a multiply-add as many as
                   the register bank has to deliver that is asked for most. There are two banks, even and odd registers;
                   what the instruction before has just read and marked .reuse is not asked for again
    late           16-byte shared loads whose result a multiply-add wants less than 28 multiply-adds later

The two banks are what is known of Volta and its successors; docs/results/worklog.md, step 02, has how well the estimate
did on an H200. cuobjdump comes with the CUDA Toolkit and wants nvdisasm beside it; CUOBJDUMP names another one.
"""
import argparse
import os
import re
import subprocess
import sys

IN_TIME = 28  # multiply-adds between a load and its first use, so that no warp waits when a scheduler has two


def kernels(path, architecture):
    """(name, [(address, instruction)]) of each kernel in the object."""
    program = os.environ.get("CUOBJDUMP") or "cuobjdump"
    try:
        text = subprocess.run([program, "-sass", "-arch", architecture, path], check=True, capture_output=True,
                              text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{program} did not read {path}: {getattr(error, 'stderr', None) or error}")
    for part in re.split(r"\n\s*Function : ", text)[1:]:
        yield (part.split("\n", 1)[0].strip(),
               [(int(address, 16), code) for address, code in re.findall(r"/\*([0-9a-f]{4,6})\*/\s+(.*?);", part)])


def loops(code):
    """The instructions of each loop that holds multiply-adds and no other loop, without their predicates."""
    at = {address: number for number, (address, _) in enumerate(code)}
    found = []
    for end, (address, text) in enumerate(code):
        target = re.search(r"\bBRA\b.*?0x([0-9a-f]+)", text)
        begin = at.get(int(target.group(1), 16)) if target else None
        if begin is not None and begin <= end:
            found.append((begin, end))
    for begin, end in found:
        inner = any((b, e) != (begin, end) and begin <= b and e <= end for b, e in found)
        body = [re.sub(r"^@!?U?P\w+\s+", "", text).strip() for _, text in code[begin:end + 1]]
        if not inner and sum(text.startswith("FFMA") for text in body) > 50:
            yield body


def operands(text):
    return [word.strip() for word in text.partition(" ")[2].split(",")]


def cost_of(body):
    """Cycles of one pass; the loop is gone through twice, because its end is before its beginning."""
    kept, cycles = [None] * 3, 0
    for turn in range(2):
        for text in body:
            asked = [0, 0]
            if text.startswith("FFMA"):
                for slot, word in enumerate(operands(text)[1:4]):
                    register = word.split(".")[0]
                    if kept[slot] != register and re.fullmatch(r"-?R\d+", register):
                        asked[int(register.lstrip("-R")) % 2] += 1
                    kept[slot] = register if ".reuse" in word else None
            cycles += turn * max(1, *asked)
    return cycles


def late_loads(body):
    late = 0
    for begin, text in enumerate(body):
        load = re.match(r"LDS\.128 R(\d+)", text)
        if not load:
            continue
        loaded = {f"R{int(load.group(1)) + word}" for word in range(4)}
        between = 0
        for later in body[begin + 1:] + body[:begin]:
            if later.startswith("FFMA"):
                if loaded & {word.split(".")[0] for word in operands(later)[1:3]}:
                    late += between < IN_TIME
                    break
                between += 1
    return late


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("object", help="an object with GPU code")
    parser.add_argument("--arch", default="sm_90a", help="whose code to read, of those it holds (default: %(default)s)")
    arguments = parser.parse_args()
    if sys.stdout is None:
        raise SystemExit("standard output is closed: there is nowhere to report to")
    print(f"{'instructions':>12} {'FFMA':>6} {'cost':>6} {'late':>5}  kernel")
    for name, code in kernels(arguments.object, arguments.arch):
        for body in loops(code):
            products = sum(text.startswith("FFMA") for text in body)
            print(f"{len(body):12} {100 * products / len(body):5.1f}% {cost_of(body) / products:6.3f} "
                  f"{late_loads(body):5}  {name}")


if __name__ == "__main__":
    main()
