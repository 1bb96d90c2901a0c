#!/usr/bin/env python3
"""Proves what an instructor relies on, for every handout or for the named steps.

    tests/tools/check_handout.py [STEP ...]        01 .. 06, all

A handout contains no line of a solution and no answer. It compiles without a warning for the CPU and, where nvcc is installed,
for the GPU. In the untouched folder every test of the step that lab.json does not call "given" fails, including those of counters
where there are any. It fails by a check: no crash, no time-out, none missing. `make run`, `make test` and `make sanitize` say so,
and `make learn` names the first stub. With the solutions put in, puzzles' too, every test passes, and `make learn` goes on from
the first puzzle or kernel. The grader gives no point for the untouched folder and all points for the solutions, and the handout's own grader gives a
kernel all of its points.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "common/tools/labs"))
import grade  # noqa: E402
import handout  # noqa: E402

SHORT = 12  # characters: shorter lines of code ("} else {") prove nothing
# With solutions the sanitizer sees the same files as in the project, where `make sanitize` checks them all. So two steps suffice.
SANITIZED = ("01", "03")


def code_lines(text):
    return [re.sub(r"\s+", " ", line.strip()) for line in text.splitlines()]


def telling(line):
    return len(line) >= SHORT and re.search(r"[A-Za-z]", line) and not line.startswith(("/*", "*", "#"))


def check_no_solution(steps, folder):
    """
    Compares file by file: no line of a file's solutions may appear in it, except lines that also stand outside them. In the whole
    handout no two consecutive lines of a solution may appear, and no answer.
    """
    texts = {path: path.read_text(errors="replace") for path in sorted(folder.rglob("*"))
             if path.is_file() and "build" not in path.relative_to(folder).parts}
    everything = {path: [line for line in code_lines(text) if line] for path, text in texts.items()}
    pairs = {path: set(zip(lines, lines[1:])) for path, lines in everything.items()}
    found = []
    for step in handout.STEPS.values():
        for source in (pathlib.Path(step) / name for lab in [handout.lab_of(step)] for name in [*lab["files"], *lab["puzzles"]]):
            text = (handout.ROOT / source).read_text()
            regions = handout.regions(source)
            given = set(code_lines(handout.stub(source)))
            for region in regions:
                lines = [line for line in code_lines(region.body) if line]
                shown = folder / source
                if shown in texts:
                    outside = set(code_lines("".join(without_regions(text, regions))))
                    found += [f"{shown.relative_to(folder)}: {line}" for line in lines
                              if telling(line) and line in everything[shown] and line not in outside]
                for pair in zip(lines, lines[1:]):
                    if all(map(telling, pair)) and not all(line in given for line in pair):
                        found += [f"{path.relative_to(folder)}: {pair[0]} / {pair[1]}" for path in texts
                                  if pair in pairs[path] and step in steps]
    for path, text in texts.items():
        if path.suffix == ".md":
            found += [f"{path.relative_to(folder)}: an answer"] if "<details>" in text else []
            found += [f"{path.relative_to(folder)}: {link[0]} leads nowhere" for link in handout.dead_links(path)]
    names = {path.name for path in texts} | {part for path in texts for part in path.relative_to(folder).parts}
    found += [f"{name} is in the handout" for name in (".git", "broken", "errata.md", "instructor.md") if name in names]
    return found


def without_regions(text, regions):
    position = 0
    for region in regions:
        yield text[position:region.begin]
        position = region.end
    yield text[position:]


def lend_objects(folder):
    """The project has already compiled what does not depend on the kernels."""
    for name in ("simt", *(f"{build}/{part}" for build in ("cpu", "check") for part in ("obj/common", "flags", "libcommon.a"))):
        source, target = handout.ROOT / "build" / name, folder / "build" / name
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if source.is_dir() else shutil.copy2
            copy(source, target)


def make(folder, *targets, **more):
    """Returns the output and the status of make on the CPU. The tests' own time-outs are shorter than this one."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"} | more
    done = subprocess.run(["make", *targets], cwd=folder, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=1500, check=False)
    return done.stdout.decode(errors="replace"), done.returncode


def compile_everything(step, folder):
    name = handout.STEPS[step]
    targets = [f"build/{build}/tests/test_{step}" for build in ("cpu", "check")]
    targets += [f"build/{build}/{name}" for build in ("cpu", "check")]
    output, status = make(folder, "BACKEND=cpu", *targets)
    if status == 0 and (shutil.which("nvcc") or pathlib.Path("/usr/local/cuda/bin/nvcc").exists()):
        more, status = make(folder, "BACKEND=gpu", "ARCH=sm_80", f"build/gpu/{name}")
        output += more
    if status != 0:
        return [f"does not compile: {output[-1500:]}"]
    return [f"a warning: {line}" for line in output.splitlines() if re.search(r"\bwarning\b", line)]


def compile_all(folder):
    targets = [f"build/cpu/tests/test_{step}" for step in handout.STEPS] + [f"build/cpu/{name}" for name in handout.STEPS.values()]
    output, status = make(folder, "BACKEND=cpu", *targets)
    return [f"does not compile: {output[-1500:]}"] if status != 0 else []


def run_tests(folder, program, *arguments):
    """Returns {suite.test: "PASS" or "FAIL"}, and what else went wrong."""
    done = subprocess.run([program, "--verbose", *arguments], cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=1500, check=False)
    text = done.stdout.decode(errors="replace")
    results = {f"{suite}.{test}": word for word, suite, test in
               re.findall(r"^\[(PASS|FAIL)\] (\w+)::(\w+)", text, re.M)}
    problems = []
    if "Crashing: 0" not in text or re.search(r"CRASH!|[Tt]imed out|[Uu]nexpected signal", text):
        problems.append(f"{program}: a crash or a time-out: {text[-800:]}")
    return results, problems


def check_stub(step, folder):
    lab = json.loads((handout.ROOT / handout.STEPS[step] / "lab.json").read_text())
    source = (folder / f"tests/steps/test_{step}.c").read_text()
    declared = {f"{suite}.{test}" for suite, test in re.findall(r"^(?:CALL_|CONDITIONAL_)?TEST\((\w+),\s*(\w+)", source, re.M)}
    given = set(lab["given"])
    problems = [f"lab.json gives a test that there is not: {name}" for name in given - declared]
    results, wrong = run_tests(folder, f"build/cpu/tests/test_{step}")
    problems += wrong
    if set(results) != declared:
        problems.append(f"not reported: {sorted(declared - set(results))}")
    counters = {name for name in declared - given if name.startswith("counters.")}  # the fast build counts nothing
    for name, word in sorted(results.items()):
        if name not in counters and (word == "PASS") != (name in given):
            problems.append(f"{name}: {word} in the untouched handout")
    results, wrong = run_tests(folder, f"build/check/tests/test_{step}", "--filter", "counters/*")
    problems += wrong
    problems += [f"{name} does not fail in the checked build" for name in counters if results.get(name) != "FAIL"]
    for target in (f"run-{step}", f"test-{step}", f"sanitize-{step}"):
        output, status = make(folder, "BACKEND=cpu", target)
        if status == 0 or "FAIL" not in output:
            problems.append(f"make {target} in the untouched handout: status {status}")
        if "Crashing" in output and "Crashing: 0" not in output:
            problems.append(f"make {target} in the untouched handout: a crash: {output[-800:]}")
    output, status = make(folder, f"STEP={step}", "learn")
    if status == 0 or "is still the stub" not in output:
        problems.append(f"make learn in the untouched handout: status {status}: {output[-800:]}")
    return problems + check_grade(step, folder, solved=False)


def check_grade(step, folder, solved):
    """Expects no point, or all points that exist where speed is not measured."""
    what = "the solutions" if solved else "the untouched handout"
    results = grade.Grading(step, folder, f"handout {step}", ladder="").grade()
    problems = []
    for test in results["tests"]:
        if (test["status"] == "passed", test["points"]) != ((True, test["max"]) if solved else (False, 0)):
            problems.append(f"{what}: {test['points']} of {test['max']} for {test['name']}, "
                            f"{test['status']}: {test['reason']}")
    print(f"  {step}: {what}: {results['score']} of {results['max']} points, graded in {results['seconds']} s", flush=True)
    return problems


def put_solutions(step, folder):
    """Copies the solutions, and the project's objects of them: the same flags would give the same objects."""
    name = handout.STEPS[step]
    files = handout.lab_of(name)["files"]
    for file in [*files, *handout.lab_of(name)["puzzles"]]:
        shutil.copyfile(handout.ROOT / name / file, folder / name / file)
    objects = [f"build/cpu/obj/{name}/{file}.o" for file in files if file.endswith(".cu")]
    output, status = make(handout.ROOT, "BACKEND=cpu", *objects)
    if status != 0:
        return [f"the project's own kernels do not compile: {output[-1500:]}"]
    for path in objects:
        for form in (".o", ".d"):
            shutil.copyfile((handout.ROOT / path).with_suffix(form), (folder / path).with_suffix(form))
    return []


def second_unit(lab):
    """Returns what `make learn` goes on to from its first puzzle or kernel: a puzzle comes before the kernel that it leads to."""
    puzzles = {pathlib.Path(file).stem: puzzle["before"] for file, puzzle in lab["puzzles"].items()}
    rungs = [kernel["name"] for kernel in lab["kernels"] if kernel["ladder"] == "core"]
    return [unit for rung in rungs for unit in [*(name for name, before in puzzles.items() if before == rung), rung]][1]


def check_solution(step, folder):
    problems = put_solutions(step, folder)
    for target in ("test", "run", "sanitize")[:3 if step in SANITIZED else 2]:
        output, status = make(folder, "BACKEND=cpu", f"{target}-{step}")
        if status != 0:
            problems.append(f"make {target}-{step} with the solutions: {output[-1500:]}")
    lab = handout.lab_of(handout.STEPS[step])
    follows = rf"RIGHT (?s:.*)(, rung|Puzzle) \d+ of [^:]*: {second_unit(lab)}\b"
    for chosen, says in ((f"STEP={step}", follows), (f"KERNEL={lab['kernels'][0]['name']}", "RIGHT in all")):
        output, status = make(folder, chosen, "learn")
        if status != 0 or not re.search(says, output):
            problems.append(f"make learn {chosen} with the solutions: status {status}: {output[-1500:]}")
    # The handout's grader is this one, so one kernel shows that it works there. What it keeps is deleted with the folder.
    kernel = handout.lab_of(handout.STEPS[step])["kernels"][-1]["name"]
    output, status = make(folder, f"STEP={step}", f"KERNEL={kernel}", "grade-local", TMPDIR=str(folder.parent))
    if status != 0:
        problems.append(f"make grade-local with the solutions: status {status}: {output[-1500:]}")
    return problems + check_grade(step, folder, solved=True)


def check(step, folder):
    """Returns problems with the handout of a step, or of all."""
    handout.make(step, folder)
    problems = check_no_solution(handout.selected(step), folder)
    lend_objects(folder)
    if step == "all":  # its parts are those of the steps; only their fit is left to check
        return problems or compile_all(folder)
    for part in (compile_everything, check_stub, check_solution):
        problems += part(step, folder)
        if problems:
            break
    return problems


def check_named(step):
    """Returns (step, problems, seconds)."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="handout-") as name:
        os.chmod(name, 0o755)  # the grader compiles as another user
        return step, check(step, pathlib.Path(name) / "lab"), time.monotonic() - begin


def main(steps):
    """Two steps run at a time: much of each is a single compiler or test."""
    failed = False
    os.environ["BACKEND"] = "cpu"  # the grader then gives no points for speed, on any machine
    longest_first = steps or [*reversed(handout.STEPS), "all"]
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        for future in concurrent.futures.as_completed([pool.submit(check_named, step) for step in longest_first]):
            step, problems, seconds = future.result()
            print(f"handout {step}: {'FAILED' if problems else 'ok'}, {seconds:.0f} s", flush=True)
            for problem in problems:
                print(f"    {problem}", flush=True)
            failed = failed or bool(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
