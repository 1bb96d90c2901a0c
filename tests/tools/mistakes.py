#!/usr/bin/env python3
"""Checks what a beginner is told: ten usual mistakes a step, each made in a fresh stub and judged as by `make learn`.

    tests/tools/mistakes.py [STEP ...]        01 .. 06, all

They are the faults in tests/faults whose detector is `told`. Of ten mistakes at least nine must get a message that names
the line or the right pattern. None may get an explanation of another mistake. Each message must fit on a screen.
"""
import re
import pathlib
import shutil
import sys

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "common/tools"
sys.path[:0] = [str(TOOLS / "learn"), str(TOOLS / "broken")]
import broken  # noqa: E402
import learn  # noqa: E402


def judged(rung, fault):
    """Puts our kernel with the mistake into the learner's files, and judges it."""
    shutil.rmtree(rung.folder, ignore_errors=True)
    rung.make_files()
    for name in {rung.about["file"], *rung.about["stubs"]}:  # the files that the kernel needs are right
        if name.endswith(".cuh") or name == rung.about["file"]:
            (rung.folder / name).write_text(broken.planted(fault, f"{rung.step}/{name}"))
    state, lines = rung.judge({"predicted": {}})
    return state, learn.clip(lines)


def test(number):
    """Returns what is wrong with the messages of a step."""
    problems, told = [], 0
    learn.make_ours(learn.STEPS[number])
    rungs = {rung.kernel: rung for rung in learn.rungs_of(learn.STEPS[number])}
    faults = [fault for fault in broken.read_faults(told=True) if fault.step == learn.STEPS[number]]
    for fault in faults:
        kernel, what = fault.kernel, fault.wrong
        state, lines = judged(rungs[kernel], fault)
        said = " ".join(" ".join(lines).split())
        right = bool(re.search(fault.says, said))
        told += right
        print(f"{'told' if right else 'SILENT':<7} {number} {kernel:<16} {what}", flush=True)
        if state == "passed":
            problems.append(f"{kernel}, {what}: passed")
        if not right and "Why: " in said:
            problems.append(f"{kernel}, {what}: misled by: {said}")
        if len(lines) > learn.LINES:
            problems.append(f"{kernel}, {what}: {len(lines)} lines")
        if not right:
            print("\n".join(f"        {line}" for line in lines))
    if len(faults) < 10 or told * 10 < len(faults) * 9:
        problems.append(f"step {number}: {told} of {len(faults)} are told")
    return problems


def main(steps):
    learn.WORK = learn.ROOT / "build/learn/mistakes"
    learn.BUILD = learn.WORK / "build"
    with learn.turns.of(learn.WORK):
        problems = [problem for number in steps or learn.STEPS for problem in test(number)]
    for problem in problems:
        print(f"FAILED  {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
