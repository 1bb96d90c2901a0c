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
PUZZLE = f"work/{STEP}/puzzles/copy.cu"
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


def answer(name):
    return (ROOT / STEP / f"puzzles/{name}.cu").read_text()


def write_puzzles(top):
    """Writes all that stand before the first kernel."""
    for path in (top / PUZZLE).parent.iterdir():
        path.write_text(answer(path.stem))


def saved(top):
    return json.loads((top / "work/progress.json").read_text())


def test_puzzles(top):
    """They come first, and are judged by values and by counts."""
    status, said = once(top)
    expect(status == 1 and "Puzzle 1 of 5 of step 01: copy" in said and "still the stub" in said and PUZZLE in said,
           "a puzzle comes first, and its stub is a stub", said)
    (top / PUZZLE).write_text(answer("copy").replace("if (i < n)", ""))
    status, said = once(top)
    expect(status == 1 and "WRONG at n = 1\n" in said and "just past the end" in said and "copy.cu:14:  to[i] = from[i];" in said and
           "SIMT" not in said, "a wrong answer is told with its line", said)
    expect(saved(top)["rungs"]["01/puzzles/copy"]["kinds"] == ["bounds"], "what was wrong is kept, for a hint")
    (top / PUZZLE).write_text(answer("copy"))
    status, said = once(top)
    expect(status == 0 and "RIGHT at all sizes" in said and "Puzzle 2 of 5 of step 01: outer" in said, "the next one follows", said)
    (top / PUZZLE).with_name("coalesce.cu").write_text(answer("coalesce").replace("EACH + threadIdx.x", "EACH + threadIdx.x * EACH")
                                                       .replace("e * blockDim.x", "e"))
    status, said = once(top, "--kernel", "coalesce")
    expect(status == 1 and "COSTS TOO MUCH" in said and "512 sectors loaded, and 128 are enough" in said, "costs are judged", said)
    said = once(top, "--status")[1]
    expect(re.search(r"01 puzzles +#\.\.\.\+ +1 of 5", said), "the status has puzzles", said)
    status, said = add_kernel.run("make", "learn", "KERNEL=coalesce", cwd=top)
    expect("Puzzle 5 of 5" in said, "make knows a puzzle's name", said)
    write_puzzles(top)
    for name in ("outer", "transpose", "row_sum"):
        once(top)
    status, said = once(top, "--kernel", "nothing")
    expect(status == 2 and "no kernel that has a stub, and no puzzle" in said, "an unknown name is refused", said)
    status, said = once(top, "--kernel", "coalesed")
    expect(status == 2 and "coalesced" in said, "with a name that is near", said)


def test_words(_):
    """What is said of predictions."""
    for counter, predicted, counted, says in (
            ("global_loads", 512, 512, r"right$"), ("global_loads", 500, 512, "within 10 %"), ("global_loads", 256, 512, "2 times too few; .*two"),
            ("global_loads", 16400, 512, "32 times too many; .*warp"), ("global_loads", 1, 1000, "1,000 times too few; count again"),
            ("barriers", 8, 16, "2 times too few; .*barriers"), ("barriers", 0, 4, "too few: it makes some"),
            ("barriers", 4, 0, "too many: it makes none")):
        said = learn.word_on(counter, predicted, counted)
        expect(re.match(says, said), f"{predicted} for {counted} {counter}: {says}", said)


def test_hints(_):
    """The one that fits comes first; the answer is named, not told, when there are no more."""
    rung = learn.find("coalesced")
    hints = dict(enumerate(learn.written_hints(rung.step)["coalesced"]))
    fits = next(number for number, (kinds, _) in hints.items() if "transposed" in kinds)
    memory = {"kinds": ["transposed"]}
    title, _ = rung.hint(memory)
    expect(fits > 0 and memory["given"] == [fits] and "for what went wrong just now" in title, "the hint that fits comes first", title)
    title, _ = rung.hint(memory)
    expect(memory["given"] == [fits, 0] and "just now" not in title, "then the others in order", title)
    rung.hint(memory)
    expect(sorted(memory["given"]) == [0, 1, 2], "each once", memory)
    title, lines = rung.hint(memory)
    expect("No more hints" in title and rung.hint(memory) is None and "if (" not in " ".join(lines), "then where it is written", lines)
    for said, kind in (("race on shared memory", "race"), ("4 bytes past the end of", "bounds"), ("a divergent barrier (not", "barrier"),
                       ("uninitialised shared memory", "uninitialised"), ("did not end within 30 s", "time")):
        expect(learn.kinds_of(said) == [kind], f"'{said}' is of the kind {kind}", learn.kinds_of(said))
    expect(learn.kinds_of("C[0][1] is 3", "transposed") == ["transposed"], "a pattern is a kind")


def test_order(_):
    """Puzzles stand before the kernels that they lead to; core ladders have no others' rungs."""
    names = [unit.kernel for unit in learn.path_of("02_tiled_matmul", "core")]
    expect(names[:3] == ["reverse", "lost_barrier", "shared_tile"] and names.index("pad") + 1 == names.index("vectorized") and
           "warp_tile" not in names, "puzzles and core rungs in order", names)
    names = [unit.kernel for unit in learn.path_of("02_tiled_matmul", "limit")]
    expect(names[0] == "warp_tile" and "pad" not in names, "another ladder has its own rungs alone", names)


def test_progress_of_builds(top):
    """The first build says what it builds, n of m."""
    shutil.rmtree(top / "build/check", ignore_errors=True)
    status, said = once(top, "--kernel", "uncoalesced")
    steps = [(int(n), int(m)) for n, m in re.findall(r"^  (\d+) of (\d+)  build/check", said, re.M)]
    expect(status == 1 and len(steps) > 4 and steps == sorted(steps) and steps[-1][0] <= steps[-1][1] and len({m for _, m in steps}) == 1,
           "the first build counts up to what there is", said)
    said = once(top, "--kernel", "uncoalesced")[1]
    expect(" of " not in said.split("Step")[0], "a later one is silent", said)


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


def test_prints(top):
    """What a kernel prints is not taken for a report, and does no harm to it."""
    launch = "    uncoalesced<<<"
    body = "    if (row < M &&"
    for what, *edit in (("a kernel that prints", body, f'    if (row == 0 && col == 0) printf("hello %d\\n", K);\n{body}'),
                        ("a launcher that ends no line", launch, f'    printf("{{}}"); std::cout << "hello" << std::flush;\n{launch}')):
        (top / FILE).write_text("#include <cstdio>\n#include <iostream>\n" + solution(edit))
        status, said = once(top, "--kernel", "uncoalesced")
        expect(status == 0 and "RIGHT in all" in said and "ours" in said, f"{what} is right", said)
    shown = add_kernel.run(f"build/learn/{STEP}/program", "--kernel", "uncoalesced", cwd=top)[1]
    expect("{}hello" in shown, "a run shows what it prints", shown)


def test_judged(top):
    """A program that ends before it has judged every case, and every claim, is not believed."""
    ends = """#include <cstdio>
#include <fstream>
#include <sstream>
#include <unistd.h>
static const int ended = [] {
    std::stringstream words;
    words << std::ifstream("/proc/self/cmdline").rdbuf();
    if (words.str().find("ENDS") == std::string::npos)
        return 0;
    fputs("SAYS", stdout);
    fflush(stdout);
    _exit(0);
}();
"""
    passes = '{"case": "--m 1", "check": "pass", "reason": ""}\\n'
    for kernel, option, says, wanted in (("uncoalesced", "--cases", passes, "WRONG at m "),
                                         ("coalesced", "--claims", "", "its claims could not be checked")):
        path = ROOT / STEP / learn.find(kernel).about["file"]
        initialiser = ends.replace("ENDS", option).replace("SAYS", says.replace('"', '\\"'))
        (top / FILE).with_name(path.name).write_text(initialiser + path.read_text())
        status, said = once(top, "--kernel", kernel)
        expect(status == 1 and wanted in said and "ended with status 0" in said and "Traceback" not in said,
               f"{kernel} that ends at {option}, saying '{says}', is not believed", said)


def test_endless(top):
    """What prints without end is ended, by its time, by that of all its lines, or by its bytes."""
    program = top / "prints"
    limits = learn.RUN_SECONDS, learn.TOTAL_SECONDS, learn.REPORT_BYTES
    learn.RUN_SECONDS, learn.TOTAL_SECONDS, learn.REPORT_BYTES = 2, 4, 1 << 20
    for what, script, within in (
            ("one line, slowly", "while printf x; do sleep 0.1; done", "2 s"), ("lines, slowly", "while echo x; do sleep 0.1; done", "4 s"),
            ("one line", "exec tr '\\0' x </dev/zero", "1 MiB of output"), ("on stderr", "exec yes >&2", "2 s")):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        begin = time.monotonic()
        (sizes, _, row), = learn.run_cases(program, "uncoalesced", "quick", learn.ORDERS[0], "1/1")
        told = row["detector"] == "time" and f"did not end within {within}:" in row["reason"] and "--m" in sizes
        expect(told and time.monotonic() - begin < 6, f"without end, {what}: ended", row)
    learn.RUN_SECONDS, learn.TOTAL_SECONDS, learn.REPORT_BYTES = limits


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


def test_two_sessions(top):
    """What either has done is kept, whichever saves last."""
    learn.PROGRESS = top / "progress.json"
    learn.PROGRESS.unlink(missing_ok=True)
    one, other = learn.Progress(), learn.Progress()
    one.of("01/uncoalesced")["state"], other.of("02/tiled")["state"] = "passed", "tried"
    for session in (one, other, one):
        session.save()
    states = {key: rung["state"] for key, rung in learn.Progress().all["rungs"].items()}
    expect(states == {"01/uncoalesced": "passed", "02/tiled": "tried"}, "two sessions keep each other's progress", states)


def test_terminal(top):
    """A learner types a wrong attempt, a hint, a right attempt, and the next rung."""
    (top / FILE).unlink()
    (top / PUZZLE).with_name("coalesce.cu").write_text("what was left has no comment at its top")
    progress = saved(top)
    progress["rungs"]["01/puzzles/coalesce"]["state"] = "right"
    (top / "work/progress.json").write_text(json.dumps(progress))
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

    def save(text, name=pathlib.Path(FILE).name):
        time.sleep(0.5)
        (top / FILE).with_name(name).write_text(text)

    def type_in(line):
        time.sleep(0.3)
        os.write(terminal, f"{line}\n".encode())

    wait_for("how many loads from global memory")
    os.write(terminal, b"1234\n")
    wait_for("waiting for you to save")
    save(solution(("k < K; k++", "k < K - 1; k++")))
    wait_for("only the first 15 of 16 products")
    wait_for("runs in")
    os.write(terminal, b"h\n")
    wait_for("Hint 1 of 3, for what went wrong just now")
    wait_for("How many products has one element of C")
    save(solution())
    wait_for("RIGHT")
    wait_for("1,234     1,048,576     1,048,576")
    wait_for("Your prediction of loads: 850 times too few; count again")
    wait_for("Puzzle 5 of 5")  # it was left as one that costs too much
    wait_for("waiting for you to save")
    type_in("n")
    wait_for("coalesce is left out; b goes back to it")
    wait_for("rung 2 of 2: coalesced")
    wait_for("how many loads from global memory")
    save((ROOT / STEP / "2_coalesced.cu").read_text().replace("sum += A", "sum -= A"), "2_coalesced.cu")
    wait_for("You saved, so this is checked first")
    wait_for("WRONG at")
    wait_for("runs in")
    type_in("b")
    wait_for("Puzzle 5 of 5")
    wait_for("This one is left out")
    type_in("g outer")
    wait_for("Puzzle 2 of 5 of step 01: outer")
    type_in("g nowhere")
    wait_for("'nowhere' is no kernel")
    type_in("g coalesced")
    wait_for("how many loads from global memory")
    type_in("g row_sum")  # a command where a number was asked for
    wait_for("Puzzle 4 of 5")
    wait_for("waiting for you to save")
    type_in("s")
    wait_for("left out: coalesce")
    type_in("q")
    wait_for("goes on from here")
    _, status = os.waitpid(process, 0)
    expect(os.waitstatus_to_exitcode(status) == 0, "it ends well")
    progress = saved(top)["rungs"]
    rung = progress["01/uncoalesced"]
    expect(rung["state"] == "passed" and rung["hints"] == 1 and rung["predicted"]["global_loads"] == 1234, "progress is kept", rung)
    expect(progress["01/puzzles/coalesce"]["state"] == "skipped", "what was left out is left out", progress)


def test_the_end(top):
    """Nothing is left, but something was left out."""
    names = {unit.key: unit.kernel for step in learn.STEPS.values() for unit in learn.path_of(step, "core")}
    progress = saved(top)
    passed = {"state": "passed", "tries": 1, "hints": 0, "predicted": {}}
    progress["rungs"] = {key: dict(passed, state="skipped" if name == "pad" else "passed") for key, name in names.items()}
    (top / "work/progress.json").write_text(json.dumps(progress))
    said = once(top)[1]
    expect("Everything is done" not in said and "left out 1:" in said and re.search(r"^  pad$", said, re.M) and "LADDER=limit" in said,
           "what was left out is said at the end, and the other ladders", said)
    progress["rungs"]["02/puzzles/pad"]["state"] = "passed"
    (top / "work/progress.json").write_text(json.dumps(progress))
    said = once(top)[1]
    expect("Everything is done" in said and "left out" not in said, "all is done when nothing was left out", said)
    progress["rungs"]["01/puzzles/outer"]["state"] = "new"
    (top / "work/progress.json").write_text(json.dumps(dict(progress, step="06", at="")))
    said = once(top)[1]
    expect("2 of 5 of step 01: outer" in said, "what is open in an earlier step comes after the last", said)
    (top / "work/progress.json").unlink()


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
    (top / "work/progress.json").unlink(missing_ok=True)
    os.chdir(top)
    os.environ["BACKEND"] = "cpu"
    said = run_cells(ROOT / "docs/colab.ipynb")
    os.chdir(ROOT)
    for words in ("still the stub", "B, or a tile of it, is read as if", "0 of 2  <- here", "coalesced    pass"):
        expect(words in said, f"the notebook says '{words}'", said)


def main():
    for name in (*learn.MAKES_OWN, "STEP"):
        os.environ.pop(name, None)  # a STEP given to this test is not meant for the loop that it drives
    with tempfile.TemporaryDirectory() as directory, learn.turns.of(ROOT / "build/learn/test"):
        top = pathlib.Path(directory)
        add_kernel.copy_tree(top)
        for test in (test_words, test_hints, test_order, test_puzzles, test_progress_of_builds, test_piped, test_terminal, test_the_end,
                     test_taken_over, test_renamed, test_two_sessions, test_broken, test_notebook, test_prints, test_judged, test_endless):
            test(top)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
