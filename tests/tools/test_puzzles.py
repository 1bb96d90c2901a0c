#!/usr/bin/env python3
"""Proves the puzzles of `make learn`, and its hints.

    tests/tools/test_puzzles.py [NAME ...]

The stub of every puzzle fails, its answer passes, and each typical wrong answer gets a message that says what is wrong and fits
on a screen. nvcc compiles the answers where it is installed. Every kernel of a core ladder has three hints, every puzzle two;
they ask before they tell, and each mistake that one is for is one that a judge can name.
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/tools/learn"))
import learn

RACE = r"race on shared memory .* a (__syncwarp\(\) or )?__syncthreads\(\) is missing"
# What a beginner writes, as changes to the answer, and what must be said.
WRONG = {
    "copy": [({"    if (i < n)\n    ": ""}, r"WRONG at n = 1 .*out of bounds: .* just past the end|past the end"),
             ({"from[i]": "from[0]"}, r"to\[1\] is -?[\d.]+ and should be"),
             ({"blockIdx.x * blockDim.x + ": ""}, r"WRONG at n = 1000 .*to\[256\] is not a number: nothing was written there"),
             ({"to[i] = from[i]": "to[i] = from[i"}, r"DOES NOT COMPILE .*copy\.cu:\d+")],
    "outer": [({"row * cols + col": "col * rows + row"}, r"to\[1\] is .* and should be"),
              ({"row < rows && ": ""}, r"WRONG at rows = 5, .*out of bounds: .* of a"),
              ({" && col < cols": ""}, r"WRONG at rows = 16, cols = 53 .*(out of bounds|race)")],
    "transpose": [({"col * rows + row": "row * cols + col"}, r"to\[1\] is .* and should be"),
                  ({"col * rows + row": "col * cols + row"}, r"WRONG at rows = 16, cols = 53 .*(out of bounds|not a number)")],
    "row_sum": [({"col < cols": "col < cols - 1"}, r"sum\[0\] is 0 and should be"),
                ({"if (row < rows)": ""}, r"WRONG at rows = 37, .*out of bounds"),
                ({"total += from": "sum[row] += from", "sum[row] = total;": ""}, r"uninitialised|not a number")],
    "coalesce": [({"EACH + threadIdx.x;": "EACH + threadIdx.x * EACH;", "first + e * blockDim.x": "first + e"},
                  r"COSTS TOO MUCH 512 sectors loaded, and 128 are enough"),
                 ({"if (i < n)": ""}, r"WRONG at n = 1000 .*past the end")],
    "reverse": [({"    __syncthreads();\n": ""}, RACE), ({"TILE - 1 - ": "TILE - "}, "out of bounds|uninitialised")],
    "lost_barrier": [({"        __syncthreads(); /* cut */\n": "        if (i < 64)\n            __syncthreads();\n"},
                      RACE),
                     ({"        tile[i] = from": "        __syncthreads();\n        __syncthreads();\n        tile[i] = from",
                       "        __syncthreads(); /* cut */\n": ""}, r"COSTS TOO MUCH 3 barriers, and 2 are enough")],
    "stride": [({"i += gridDim.x * blockDim.x": "i += blockDim.x"}, r"COSTS TOO MUCH|race on global"),
               ({"for (int i =": "if (int i =", "; i < n; i += gridDim.x * blockDim.x)": "; i < n)"}, r"WRONG at n = 513 "
                r".*y\[512\] is not a number")],
    "pad": [({"TILE + 1": "TILE"}, r"COSTS TOO MUCH 1056 wavefronts of shared memory, and 64 are enough"),
            ({"    __syncthreads();\n": ""}, RACE),
            ({"    __shared__ float tile[TILE][TILE + 1];\n": "", "    tile[y][x] = from[(row + y) * n + col + x];\n": "",
              "    __syncthreads();\n": "", "tile[x][y]": "from[(row + x) * n + col + y]"}, r"COSTS TOO MUCH \d+ sectors loaded")],
    "two_buffers": [({"buffer[t % 2]": "buffer[0]"}, RACE),
                    ({"        __syncthreads();\n": "        __syncthreads();\n        __syncthreads();\n"},
                     r"COSTS TOO MUCH 4 barriers, and 3 are enough")],
    "merge": [({"    if (m == -INFINITY)\n        return a;\n": ""}, r"merged\[17\] is not a number"),
              ({"a.l * expf(a.m - m)": "a.l"}, r"merged\[\d+\] is [\d.]+ and should be"),
              ({"expf(a.m - m)": "expf(m - a.m)"}, r"merged\[\d+\] is .* and should be|not a number")],
    "warp_max": [({"distance = 16": "distance = 8"}, r"to\[\d+\] is .* and should be"),
                 ({"= from[i];": "= fmaxf(0.0f, from[i]);"}, r"to\[\d+\] is 0 and should be -"),
                 ({"__shfl_xor_sync": "__shfl_down_sync"}, r"to\[\d+\] is .* and should be")],
    "tree_sum": [({"        __syncthreads();\n": ""}, RACE),
                 ({"        if (i < half)\n": "        if (i < half) {\n",
                   "        __syncthreads();\n    }\n": "        __syncthreads();\n        }\n    }\n"}, r"divergent barrier"),
                 ({"half > 0": "half > 1"}, r"sum\[0\] is .* and should be")],
    "histogram": [({"atomicAdd(&counts[(int)from[i]], 1.0f)": "counts[(int)from[i]] += 1.0f"}, r"race on global memory"),
                  ({"if (i < n)": ""}, r"WRONG at n = 7 .*out of bounds")],
    "group_sum": [({"COLS / 2": "16"}, r"to\[0\] is .* and should be"), ({"distance > 0": "distance > 1"}, r"to\[0\] is .* and should be")],
    "fragment": [({"lane % 4 * 2": "lane % 4"}, r"race on global memory|not a number"),
                 ({"e / 2 * 8": "e / 2"}, r"race on global memory|not a number")],
    "swizzle": [({"(chunk ^ row)": "chunk"}, r"COSTS TOO MUCH 72 wavefronts of shared memory, and 16 are enough"),
                ({"(chunk ^ row)": "(chunk & row)"}, r"race on shared memory|and should be|uninitialised")],
}

failures = []


def expect(condition, what, said=""):
    if not condition:
        failures.append(what)
        print(f"FAILED  {what}\n{said}", flush=True)


def judged(puzzle, text):
    puzzle.file.parent.mkdir(parents=True, exist_ok=True)
    puzzle.file.write_text(text)
    state, lines = puzzle.verdict({})
    return state, lines, " ".join(" ".join(lines).split())


def test(puzzle):
    source = pathlib.Path(puzzle.step, puzzle.name_of(puzzle.file))
    answer, stub = (ROOT / source).read_text(), learn.handout.stub(source)
    state, _, said = judged(puzzle, stub)
    expect(state != "passed" and puzzle.judge({})[0] == "new", f"the stub of {puzzle.kernel} fails and is known to be one", said)
    state, _, said = judged(puzzle, answer)
    expect(state == "passed", f"the answer of {puzzle.kernel} passes", said)
    expect(len(puzzle.introduce()) <= 10, f"{puzzle.kernel} is told in a few lines")
    for changes, says in WRONG.get(puzzle.kernel, ()):
        text, main_too, rest = answer.partition("int main(void)")
        for old, new in changes.items():
            expect(old in text, f"{puzzle.kernel} has: {old}")
            text = text.replace(old, new)
        text += main_too + rest
        state, lines, said = judged(puzzle, text)
        expect(state != "passed" and re.search(says, said) and len(lines) <= 10, f"{puzzle.kernel} with {changes}: '{says}'", said)
        if state != "passed":
            print(f"told    {puzzle.kernel:<14} {said[:110]}", flush=True)


def test_nvcc():
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not pathlib.Path(nvcc).exists():
        return
    folder = learn.WORK / "nvcc"
    folder.mkdir(parents=True, exist_ok=True)
    files = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("0?_*/puzzles/*.cu"))
    done = subprocess.run([nvcc, "-std=c++17", "-arch=sm_80", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra", "-I.",
                           "-Icommon/device/gpu", "-t", "2", "-odir", str(folder), "-c", *files], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    expect(done.returncode == 0, "nvcc compiles every puzzle without a warning", done.stderr[-2000:])


def test_hints():
    sources = [ROOT / "common/harness/explain.c", *(ROOT / "common/problems").glob("*.c")]
    patterns = {name for path in sources for name in re.findall(r'"([A-Za-z0-9]+(?:-[A-Za-z0-9]+)*)"', path.read_text())}
    known = patterns | set(learn.KINDS) | {"costs", ""}
    for step in learn.STEPS.values():
        hints = learn.written_hints(step)
        wanted = {rung.hinted: 3 for rung in learn.rungs_of(step) if rung.ladder == "core" or rung.hinted in hints}
        wanted |= {puzzle.hinted: 2 for puzzle in learn.puzzles_of(step)}
        expect({name: len(under) for name, under in hints.items()} == wanted, f"{step}: three hints a kernel and two a puzzle",
               set(hints) ^ set(wanted))
        for name, under in hints.items():
            for kinds, text in under:
                expect("?" in text, f"{name}: this hint asks nothing: {text}")
                expect(set(kinds) <= known, f"{name}: nothing is called {set(kinds) - known}")
                expect(not text.startswith("["), f"{name}: brackets that are not closed: {text}")


def main(names):
    learn.WORK = ROOT / "build/learn/puzzles"
    learn.BUILD = learn.WORK / "build"
    puzzles = [puzzle for step in learn.STEPS.values() for puzzle in learn.puzzles_of(step)]
    kernels = {kernel for step in learn.STEPS.values() for kernel in [rung.kernel for rung in learn.rungs_of(step)]}
    if not names:
        files = {f"{path.parts[0]}/{path.stem}" for path in (file.relative_to(ROOT) for file in ROOT.glob("0?_*/puzzles/*.cu"))}
        expect(files == {f"{puzzle.step}/{puzzle.kernel}" for puzzle in puzzles}, "every file is a puzzle of lab.json", files)
        expect(len({puzzle.kernel for puzzle in puzzles} - kernels) == len(puzzles), "a puzzle has a name of its own")
        expect(all(puzzle.before in kernels for puzzle in puzzles), "every puzzle leads to a kernel")
        expect(set(WRONG) == {puzzle.kernel for puzzle in puzzles}, "every puzzle has wrong answers")
        test_hints()
        test_nvcc()
    for puzzle in puzzles:
        if not names or puzzle.kernel in names:
            test(puzzle)
    print(f"{len(puzzles)} puzzles, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
