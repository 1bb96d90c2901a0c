#!/usr/bin/env python3
"""Feeds rungs bodies that must not be called RIGHT by make learn, and their own, which must.

    tests/tools/test_bodies.py [--ladder core] [--sample N --seed S] [KERNEL ...]      needs build/check of the steps

A rung gets nothing at all, the same constant everywhere, the body of the rung before (of its problem's naive kernel where it
begins), each fault of its own that leaves results right and undoes its idea, and last its own. The naive kernels follow none.
A rung whose row claims nothing is judged by values alone, so it gets only the first two and its own.
"""
import argparse
import pathlib
import random
import re
import secrets
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "common/tools"), str(ROOT / "common/tools/labs"), str(ROOT / "common/tools/learn"),
                str(ROOT / "common/tools/broken")]
import broken
import facts
import learn

MEMORY = {"predicted": {}}
# What a launcher does that fills each output with one value, by the problem's arguments.
CONSTANT = {
    "matmul": ("const float *A, const float *B, float *C, int M, int N, int K, cudaStream_t stream",
               "(void)A; (void)B; (void)K; fill<<<64, 64, 0, stream>>>(C, (size_t)M * N);"),
    "softmax": ("const float *input, float *output, int rows, int cols, cudaStream_t stream",
                "(void)input; fill<<<64, 64, 0, stream>>>(output, (size_t)rows * cols);"),
    "attention": ("const struct attention *call",
                  "const size_t rows = (size_t)call->batch * call->heads * call->seq_q;"
                  "if (call->type == TENSOR_F32) fill<<<64, 64, 0, call->stream>>>((float *)call->O, rows * call->head_dim);"
                  "else fill<<<64, 64, 0, call->stream>>>((unsigned short *)call->O, rows * call->head_dim);"
                  "if (call->LSE) fill<<<64, 64, 0, call->stream>>>(call->LSE, rows);"),
    "attention_backward": ("const struct attention_backward *call",
                           "const size_t d = call->head_dim, queries = attention_backward_query_rows(call) * d;"
                           "const size_t keys = attention_backward_key_rows(call) * d;"
                           "if (call->type == TENSOR_F32) {"
                           "fill<<<64, 64, 0, call->stream>>>((float *)call->dQ, queries);"
                           "fill<<<64, 64, 0, call->stream>>>((float *)call->dK, keys);"
                           "fill<<<64, 64, 0, call->stream>>>((float *)call->dV, keys); } else {"
                           "fill<<<64, 64, 0, call->stream>>>((unsigned short *)call->dQ, queries);"
                           "fill<<<64, 64, 0, call->stream>>>((unsigned short *)call->dK, keys);"
                           "fill<<<64, 64, 0, call->stream>>>((unsigned short *)call->dV, keys); }"),
}
FILL = """template <class T> __global__ void fill(T *output, size_t count)
{
    for (size_t i = blockIdx.x * 64 + threadIdx.x; i < count; i += 64 * 64)
        output[i] = 42;
}
"""


def header(rung):
    return f'#include "{rung.step}/{rung.step[:2]}_step.h"\n'


def launcher(rung, statements):
    arguments, fills = CONSTANT[rung.problem]
    body = fills if statements is None else statements
    return f'extern "C" cudaError_t {rung.about["function"]}({arguments})\n{{\n{body}\nreturn cudaGetLastError();\n}}\n'


def unused(rung):
    names = re.findall(r"(\w+)(?:,|$)", CONSTANT[rung.problem][0])
    return " ".join(f"(void){name};" for name in names)


def renamed(rung, row):
    """Returns the text of another kernel of the rung's problem under this rung's name."""
    source = ROOT / row["step"] / row["file"]
    text = source.read_text()
    # Both are in one program, and this one is in another folder.
    plain = re.sub(r"__launch_bounds__\((?:[^()]|\([^()]*\))*\)", "", text)
    for kernel in set(re.findall(r"__global__\s+(?:static\s+)?void\s+(\w+)\s*\(", plain)):
        text = re.sub(rf"\b{kernel}\b", f"{kernel}_again", text)
    text = re.sub(r'#include "([^"]+)"', lambda found: f'#include "{source.parent.relative_to(ROOT)}/{found[1]}"'
                  if (source.parent / found[1]).exists() else found[0], text)
    return re.sub(rf"\b{row['function']}\b", rung.about["function"], text)


def naive(rung):
    """Returns the first kernel of the step, or for attention of the first step of its kind, that takes the rung's types."""
    return next(row for row in facts.kernels().values() if row["problem"] == rung.problem and row["types"][0] in rung.about["types"]
                and (row["step"] == rung.step or not rung.problem.startswith("attention")))


def before(rung):
    """Returns the text of the rung before, or of the naive kernel, under this rung's name; None for a naive kernel."""
    row = facts.kernels()[rung.about["after"]] if rung.about["after"] else naive(rung)
    # tests/steps/test_claims.c has both a kernel of another step and the one that follows it
    other_step = rung.about["after"] and row["step"] != rung.step
    return None if row["name"] == rung.kernel or other_step else renamed(rung, row)


def serial(rung):
    """Returns one thread that does everything, under the rung's name."""
    return renamed(rung, {"step": "tests", "file": "steps/serial.cu", "name": "serial"})


def undone(rung):
    """Yields the texts of the rung's own kernel with a fault that only its claims show."""
    for fault in broken.read_faults():
        if fault.kernel == rung.kernel and fault.detector == "claims" and fault.file == f"{rung.step}/{rung.about['file']}":
            yield fault.name, broken.planted(fault, fault.file)


def bodies(rung):
    """Yields what is tried: its name, the text, and whether only the claims can tell."""
    yield "nothing", header(rung) + launcher(rung, unused(rung)), False
    yield "a constant", header(rung) + FILL + launcher(rung, None), False
    if rung.about["claims"]:
        text = before(rung)
        if text:
            yield "the rung before", text, True
            for name, text in undone(rung):
                yield name, text, True


def verdict(rung, text, only_claims):
    """Returns the state and the lines that learn gives this body. Values that are right are not judged again by every case."""
    rung.file.parent.mkdir(parents=True, exist_ok=True)
    rung.file.write_text(text)
    program, lines = rung.build()
    if program is None:
        return "no program", lines
    results = learn.judge_cases(program, rung.kernel, "quick")
    if any(row["check"] != "pass" for _, _, row in results):
        return "tried", learn.failure(results, [])
    return rung.compare(program, MEMORY, len(results)) if only_claims else rung.judge(MEMORY)


def try_rung(rung):
    failures = 0
    for name, text, only_claims in bodies(rung):
        state, lines = verdict(rung, text, only_claims)
        wanted = ("right",) if only_claims else ("tried",)
        good = state in wanted or (name == "the rung before" and state == "tried")
        failures += not good
        print("ok     " if good else "FAILED ", f"{rung.kernel}: {name}: {state}", *([] if good else lines), sep="\n    " if not good else " ",
              flush=True)
    state, lines = verdict(rung, (ROOT / rung.step / rung.about["file"]).read_text(), False)
    print("ok     " if state == "passed" else "FAILED ", f"{rung.kernel}: its own: {state}", *([] if state == "passed" else lines), flush=True)
    return failures + (state != "passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ladder", help="rungs of this ladder only")
    parser.add_argument("--sample", type=int, default=0, help="so many of them, drawn")
    parser.add_argument("--seed", type=int)
    parser.add_argument("kernels", nargs="*")
    arguments = parser.parse_args()
    learn.WORK = ROOT / "build/bodies"
    learn.BUILD = ROOT / "build/bodies/built"
    rungs = [rung for step in learn.STEPS.values() for rung in learn.rungs_of(step)]
    rungs = [rung for rung in rungs if arguments.ladder in (None, rung.about["ladder"])]
    rungs = [rung for rung in rungs if not arguments.kernels or rung.kernel in arguments.kernels]
    if arguments.sample and arguments.sample < len(rungs):
        seed = secrets.randbelow(1 << 32) if arguments.seed is None else arguments.seed
        print(f"{arguments.sample} of {len(rungs)} rungs, seed {seed}")
        rungs = random.Random(seed).sample(rungs, arguments.sample)
    with learn.turns.of(learn.WORK):
        shutil.rmtree(learn.WORK, ignore_errors=True)
        failures = sum(try_rung(rung) for rung in rungs)
    print(f"{len(rungs)} rungs, {failures} wrong verdicts")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
