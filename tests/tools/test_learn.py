#!/usr/bin/env python3
"""Drives the learner's loop in a copy of step 01: piped, in a terminal, and by the cells of docs/colab.ipynb.

    tests/tools/test_learn.py        needs build/cpu and build/check of step 01
"""
import contextlib
import io
import json
import os
import pathlib
import pty
import re
import select
import shutil
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/tools/learn"))
import add_kernel
import learn

STEP = add_kernel.STEP
FILE = f"work/{STEP}/1_uncoalesced.cu"
SECONDS = 120

failures = []


def expect(condition, what, said=""):
    print("ok     " if condition else "FAILED ", what, flush=True)
    if not condition:
        failures.append(what)
        print(said)


def once(top, *arguments):
    """Returns status and output without a terminal."""
    return add_kernel.run(sys.executable, "common/tools/learn/learn.py", *arguments, cwd=top)


def solution(edit=("", "")):
    return (ROOT / STEP / "1_uncoalesced.cu").read_text().replace(*edit)


def test_piped(top):
    status, said = once(top)
    expect(status == 1 and "still the stub" in said and FILE in said, "a stub is a stub, status 1", said)
    mine = top / FILE
    mine.write_text(mine.read_text() + "/* mine */\n")
    once(top)
    expect("/* mine */" in mine.read_text(), "what is mine is not overwritten")

    mine.write_text(solution(("N + col] = sum", "N + col] = 0.0f * sum")))
    status, said = once(top)
    expect(status == 1 and "every wrong element is 0" in said, "zeros are explained, status 1", said)
    mine.write_text(solution(("float sum = 0.0f", "float sum = nothing")))
    status, said = once(top)
    expect(status == 1 and "DOES NOT COMPILE" in said and re.search(r"1_uncoalesced\.cu:\d+", said) and "WRONG" not in said,
           "what does not compile is said with its line, and nothing old runs", said)
    expect(not (top / "build/learn" / STEP / "program").exists(), "no program is left of a build that failed")
    mine.write_text(solution(("row < M &&", "row <= M &&")))
    status, said = once(top)
    lines = said.splitlines()
    expect(status == 1 and "just past the end" in said and "sum +=" in said, "a bound is explained with its line", said)
    expect(len(lines) <= 25 + 3 and max(map(len, lines)) <= 100, "a verdict fits a screen", said)


def test_taken_over(_):
    """This was written before the ladders had folders."""
    learn.WORK = ROOT / "build/learn/test"
    shutil.rmtree(learn.WORK, ignore_errors=True)
    rung = next(rung for step in learn.STEPS.values() for rung in learn.rungs_of(step) if "/" in rung.about["file"])
    before = rung.folder / rung.file.name
    rung.folder.mkdir(parents=True)

    def made(text):
        before.write_text(text)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            rung.make_files()
        return out.getvalue()
    said = made("mine")
    expect(rung.file.read_text() == "mine" and not before.exists() and said.count("\n") == 1 and "moved to" in said,
           "a file from before the move is where its stub would be, in one line", said)
    said = made("older")
    expect(rung.file.read_text() == "mine" and before.read_text() == "older" and not said, "what is there stays", said)


def test_renamed(top):
    """What was written, and done, of a kernel that has another name now."""
    learn.WORK = ROOT / "build/learn/test"
    shutil.rmtree(learn.WORK, ignore_errors=True)
    rungs = [rung for step in learn.STEPS.values() for rung in learn.rungs_of(step) if "/" in rung.about["file"]]
    rung = next(rung for rung in rungs if " " in rung.about["was"])
    caller = next(other for other in rungs if other.step == rung.step and other is not rung)
    new, old, older = rung.kernel, *rung.about["was"].split()[:2]
    rung.file.parent.mkdir(parents=True)
    mine, stub = rung.file.parent / f"87_{old}.cu", rung.file.parent / f"88_{older}.cu"
    mine.write_text(f"flash_{old}(); {rung.problem}_{old}(); {old}_too(); {old}")
    stub.write_text(f"{{ {learn.handout.UNUSED} }}")
    (rung.file.parent / f"89_{caller.kernel}.cu").write_text(f"{rung.problem}_{older}();")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        rung.make_files()
    expect(rung.file.read_text() == f"flash_{new}(); {rung.problem}_{new}(); {old}_too(); {old}" and not mine.exists(),
           "a file of a kernel's old name is where its stub would be, with its functions' new names", rung.file.read_text())
    expect(caller.file.read_text() == f"{rung.problem}_{new}();", "a file with an old number, too, and it calls the new name")
    expect(stub.exists() and out.getvalue().count("\n") == 1 and rung.about["file"] in out.getvalue(), "one line says so",
           out.getvalue())
    learn.PROGRESS = top / "progress.json"
    step = rung.step[:2]
    learn.PROGRESS.write_text(json.dumps({"step": step, "rungs": {f"{step}/{old}": {"state": "passed"}, f"{step}/{older}": {"state": "new"}}}))
    rungs = learn.Progress().all["rungs"]
    expect(rungs == {f"{step}/{new}": {"state": "passed"}}, "what was done under the old name is done", rungs)


def test_terminal(top):
    """A learner types a wrong attempt, a hint, a right attempt, and the next rung."""
    (top / FILE).unlink()
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(top)
        os.execvp("make", ["make", "learn"])
    said = ""

    def wait_for(words):
        nonlocal said
        end = time.monotonic() + SECONDS
        while words not in said:
            if time.monotonic() > end or not select.select([terminal], [], [], SECONDS)[0]:
                break
            try:
                said += os.read(terminal, 65536).decode(errors="replace")
            except OSError:
                break
        expect(words in said, f"the terminal says '{words}'", said)
        said = said.partition(words)[2]

    def save(text):
        time.sleep(0.5)
        (top / FILE).write_text(text)

    wait_for("how many loads from global memory")
    os.write(terminal, b"1234\n")
    wait_for("waiting for you to save")
    save(solution(("k < K; k++", "k < K - 1; k++")))
    wait_for("only the first 15 of 16 products")
    wait_for("runs in")
    os.write(terminal, b"h\n")
    wait_for("What it costs")
    save(solution())
    wait_for("RIGHT")
    wait_for("1,234     1,048,576     1,048,576")
    wait_for("rung 2 of 2: coalesced")
    os.write(terminal, b"\n")
    wait_for("waiting for you to save")
    os.write(terminal, b"q\n")
    wait_for("goes on from here")
    _, status = os.waitpid(process, 0)
    expect(os.waitstatus_to_exitcode(status) == 0, "it ends well")
    progress = json.loads((top / "work/progress.json").read_text())["rungs"]["01/uncoalesced"]
    expect(progress["state"] == "passed" and progress["hints"] == 1 and progress["predicted"]["global_loads"] == 1234,
           "progress is kept", progress)


def test_broken(top):
    status, said = once(top, "--broken")
    path = re.search(r"repair\s+(\S+)", said)[1]
    expect(status == 1 and "Symptom: " in said and "transposed" not in said, "a broken kernel: the symptom, not the cause", said)
    source = ROOT / STEP / pathlib.Path(path).name
    (top / path).write_text(source.read_text())
    status, said = once(top, "--broken")
    expect(status == 0 and "REPAIRED" in said and "It was: " in said, "a repair is judged, and the cause told", said)
    expect((top / path).read_text() == source.read_text(), "the repair is kept")
    said = once(top, "--status")[1]
    expect(re.search(r"broken kernels +#", said), "the status has it", said)


def run_cells(path):
    """Returns what the code cells of a notebook print. Lines that begin with ! go to the shell."""
    names, printed = {}, ""
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = "".join(cell["source"])
        if source.startswith("!"):
            script = "\n".join(line.removeprefix("!") for line in source.splitlines())
            printed += add_kernel.run("bash", "-c", script)[1]
        else:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(source, names)  # pylint: disable=exec-used
            printed += out.getvalue()
    return printed


def test_notebook(top):
    (top / FILE).unlink()
    (top / "work/progress.json").unlink()
    os.chdir(top)
    os.environ["BACKEND"] = "cpu"
    said = run_cells(ROOT / "docs/colab.ipynb")
    os.chdir(ROOT)
    for words in ("still the stub", "B, or a tile of it, is read as if", "0 of 2  <- here", "coalesced    pass"):
        expect(words in said, f"the notebook says '{words}'", said)


def main():
    for name in (*learn.MAKES_OWN, "STEP"):
        os.environ.pop(name, None)  # a STEP given to this test is not meant for the loop that it drives
    with tempfile.TemporaryDirectory() as directory:
        top = pathlib.Path(directory)
        add_kernel.copy_tree(top)
        for test in (test_piped, test_taken_over, test_renamed, test_terminal, test_broken, test_notebook):
            test(top)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
