#!/usr/bin/env python3
"""Runs the steps' tests with the kernels in work/ in place of the project's: make test MINE=1 [STEP=03] [KERNEL=name]

The tests run in the checked build, for the kernels that are written; those that still are stubs are named. Exit status 0 when
there are kernels and all tests passed, 1 otherwise, 2 when that cannot be found out.
"""
import argparse
import contextlib
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import learn  # it knows where the other tools are
import broken
import turns

TESTS = learn.ROOT / "build/mine/tests"  # where tests/run looks for them


def written(step, kernels):
    """Returns the step's rungs that are written, and the names of those that are not."""
    rungs = [rung for rung in learn.rungs_of(step) if not kernels or rung.kernel in kernels]
    done = [rung for rung in rungs if rung.file.exists() and rung.file not in rung.unwritten()]
    return done, [rung.kernel for rung in rungs if rung not in done]


def compiled(rungs):
    """Returns the objects of these kernels and of their helpers by the names of the sources that they replace."""
    made = {}
    for rung in rungs:
        for path in (rung.file, *(helper for helper in rung.helpers() if helper.exists() and not rung.untouched(helper))):
            target = learn.BUILD / rung.step / f"{rung.name_of(path)}.o"
            output, status = rung.compile(path, target)
            if status:
                raise learn.Unable("\n".join(learn.compiler_lines(output)))
            made[f"{rung.step}/{rung.name_of(path)}"] = target
    return made


def test_step(step, kernels):
    """Returns whether the step has kernels of yours, and whether they pass."""
    rungs, stubs = written(step, kernels)
    if stubs:
        print(f"{step}: not written yet: {', '.join(stubs)}", flush=True)
    if not rungs:
        return False, True
    made = compiled(rungs)
    fault = broken.Fault(step, "", f"{step}/", [])  # says which step is linked
    programs = [f"test_{step[:2]}"] + (["test_claims"] if any(rung.about["claims"] for rung in rungs) else [])
    TESTS.mkdir(parents=True, exist_ok=True)
    for program in programs:
        broken.link_test(fault, "check", program, made, TESTS / program, "0?_*" if program == "test_claims" else None)
    runs = [f"mine/{program}" + (f":step_{step[:2]}" if program == "test_claims" else "") for program in programs]
    command = ["tests/run", *(f"--kernel={rung.kernel}" for rung in rungs), *runs]
    return True, subprocess.run(command, cwd=learn.ROOT, check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", action="append", default=[])
    parser.add_argument("steps", nargs="+", help="their numbers")
    arguments = parser.parse_args()
    try:
        outcomes = []
        for step in (learn.STEPS[number] for number in arguments.steps):
            with turns.of(TESTS), turns.of(learn.BUILD / step):
                outcomes.append(test_step(step, arguments.kernel))
    except (learn.Unable, broken.Broken) as error:
        print(f"test MINE=1: {error}", file=sys.stderr)
        return 2
    if not any(there for there, _ in outcomes):
        print("work/ has no kernel that is written; make learn begins one")
        return 1
    return 0 if all(passed for _, passed in outcomes) else 1


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
