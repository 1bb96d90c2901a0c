#!/usr/bin/env python3
"""Checks what a beginner is told: ten usual mistakes a step, each made in a fresh stub and judged as by `make learn`.

    tests/tools/mistakes.py [STEP ...]        01 .. 06, all

Of ten mistakes at least nine must get a message that names the line or the right pattern. None may get an explanation of another
mistake. Each message must fit on a screen.
"""
import re
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "common/tools/learn"))
import learn  # noqa: E402

BARRIER = r"race on .* is missing (between|after) line"
BEYOND = r"out of bounds|just past the end|past its end"

# Step: [(kernel, what was done, file or None for the kernel's, text, its replacement, what must be said)].
MISTAKES = {
    "01": [
        ("coalesced", "<= for the rows", None, "row < M &&", "row <= M &&", BEYOND),
        ("coalesced", "no test of the edge", None, "if (row < M && col < N)", "if (true)", BEYOND),
        ("coalesced", "the sum ends too early", None, "k < K; k++", "k < K - 1; k++", "only the first 15 of 16 products"),
        ("coalesced", "B along its columns", None, "B[(size_t)k * N + col]", "B[(size_t)col * K + k]", "B, or a tile of it, is read as if it were transposed"),
        ("coalesced", "A along its columns", None, "A[(size_t)row * K + k]", "A[(size_t)k * M + row]", "A, or a tile of it, is read as if it were transposed"),
        ("coalesced", "rows of A as long as B's", None, "A[(size_t)row * K + k]", "A[(size_t)row * N + k]", f"N elements long|{BEYOND}"),
        ("coalesced", "stored transposed", None, "C[(size_t)row * N + col]", "C[(size_t)col * M + row]", "C is stored transposed"),
        ("coalesced", "added to C", None, "N + col] = sum", "N + col] += sum", "C as it was before the kernel wrote it"),
        ("coalesced", "blocks rounded down", None, "<<<ceil_div(M, TILE)", "<<<(M / TILE)", "never written|a grid of 0"),
        ("coalesced", "rows by threadIdx.y", None, "threadIdx.x / TILE;", "threadIdx.y;", "as if threadIdx.y were always 0"),
        ("coalesced", "walking down", None, "threadIdx.x / TILE;\n    const int col = blockIdx.x % tiles_across * TILE + threadIdx.x % TILE",
         "threadIdx.x % TILE;\n    const int col = blockIdx.x % tiles_across * TILE + threadIdx.x / TILE", "at most 38,400, yours"),
    ],
    "02": [
        ("shared_tile", "no barrier after the loads", None, "__syncthreads(); /* the tiles are complete", "/* the tiles are complete", BARRIER),
        ("shared_tile", "no barrier after the products", None, "__syncthreads(); /* every thread has read", "/* every thread has read", BARRIER),
        ("shared_tile", "the first barrier too late", None, """        __syncthreads(); /* the tiles are complete before any thread reads them */

        for (int k = 0; k < T; k++)
            sum += As[y][k] * Bs[k][x];
""", """        for (int k = 0; k < T; k++)
            sum += As[y][k] * Bs[k][x];
        __syncthreads();
""", "stands in the wrong place: it must come between line"),
        ("async", "a wait for an older copy", None, "cp_async_wait<STAGES - 2>", "cp_async_wait<STAGES - 1>", "is not for this copy"),
        ("shared_tile", "whole tiles of K only", None, "k0 < K; k0 += T", "k0 + T <= K; k0 += T", "products are missing from the sums: the last tile"),
        ("shared_tile", "all of K from each tile", None, "k < T; k++", "k < K; k++", f"{BEYOND}|uninitialised"),
        ("shared_tile", "the tile of B transposed", None, "Bs[k][x]", "Bs[x][k]", "B, or a tile of it, is read as if"),
        ("shared_tile", "k0 forgotten in A", None, "A[(size_t)row * K + k0 + x]", "A[(size_t)row * K + x]", "k0, is missing in A's index"),
        ("shared_tile", "an int sum", None, "float sum = 0.0f;", "int sum = 0;", "kept in an int"),
        ("shared_tile", "no zeros past the edge", None, "row < M && k0 + x < K ? A[(size_t)row * K + k0 + x] : 0.0f",
         "A[(size_t)row * K + k0 + x]", BEYOND),
        ("shared_tile", "leaves before the barriers", None, "    float sum = 0.0f;", "    if (row >= M || col >= N)\n        return;\n    float sum = 0.0f;",
         r"barrier .*(returned|never|not all)|uninitialised"),
        ("shared_tile", "a semicolon forgotten", None, "float sum = 0.0f;", "float sum = 0.0f", r"error: expected .*;"),
        ("column_tile", "other rows in the sum than in the store", None, "As[y + i * THREADS_DOWN][k]", "As[y * TM + i][k]", "rows of C have changed places"),
        ("shared_tile", "a tile that is not shared", None, "__shared__ float As", "float As", "should be __shared__"),
        ("shared_tile", "two tiles that are not shared", None, "__shared__ float As[T][T];\n    __shared__ float", "float As[T][T];\n    float", "should be __shared__"),
        ("column_tile", "sums that do not begin at 0", None, "sum[TM] = {};", "sum[TM];", "does not begin at 0"),
        ("column_tile", "the store is not bounded", None, "if (row < M && col < N)", "if (row < M)", f"race on global memory|{BEYOND}"),
    ],
    "03": [
        ("three_pass", "the maximum begins at 0", None, "float m = -CUDART_INF_F", "float m = 0.0f", "NaN"),
        ("three_pass", "not divided", None, "scale = 1.0f / l;", "scale = 1.0f + 0.0f * l;", "without the division by the row's sum"),
        ("three_pass", "powers of 2", None, "expf(", "exp2f(", "the exponentials have base 2"),
        ("three_pass", "the maximum is missing in the sum", None, "l_piece += expf(input[col] - m)", "l_piece += expf(input[col])", "a factor of its own"),
        ("three_pass", "the last column is not in the sum", None, "min(piece + PIECE, cols)", "min(piece + PIECE, cols - 1)", "only the first 31 of 32 columns"),
        ("three_pass", "one row too many", None, "if (row >= rows)", "if (row > rows)", BEYOND),
        ("three_pass", "every row into the first", None, "output += (size_t)row * cols;", "", "race on global memory"),
        ("online", "the sum is not rescaled", "running_softmax.cuh", "a.l * expf(a.m - shift)", "a.l", "a sum that is not rescaled"),
        ("online_warp", "idle lanes leave", None, "if (row >= rows)", "if (row >= rows || lane >= cols)", "lane|warp operation"),
        ("online_warp", "the merge shuffles down", None, "const float l = warp_sum(state.l * expf(state.m - running_softmax_shift(m)));",
         "float l = state.l * expf(state.m - running_softmax_shift(m));\n    for (int i = 16; i > 0; i /= 2)\n        l += __shfl_down_sync(FULL_MASK, l, i);",
         "only the columns of lane 0 are right"),
        ("online_warp", "lanes are not merged", None, "whole = merge_warp(state)", "whole = state", "the lanes of a warp are not merged"),
    ],
    "04": [
        ("row_per_thread", "the sum is not rescaled", None, "old = l * expf(m - top)", "old = l", "is not multiplied by e"),
        ("row_per_thread", "not scaled", None, "shape.scale * sum", "sum", "not multiplied by the scale"),
        ("row_per_thread", "every head reads the first K and V", None, "(size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv * d", "0 * (size_t)head",
         "K and V of the first head"),
        ("row_per_thread", "as many heads of K as of Q", None, "(size_t)(head / (shape.heads / shape.kv_heads))", "(size_t)head", BEYOND),
        ("row_per_thread", "K for V", None, "*v = V + first_key", "*v = K + first_key", "K is read where V should be"),
        ("row_per_thread", "O does not begin at 0", None, "O[first_query + c] = 0.0f;", ";", "O as it was before the kernel wrote it"),
        ("row_parallel", "lanes keep their parts of the score", None, "shape.scale * warp_sum(sum)", "shape.scale * sum", r"race|of O are wrong|of O is wrong"),
        ("row_per_thread", "no logarithm", None, "m + logf(l)", "m + l", "elements of LSE are wrong"),
        ("flash_v1", "a mean rescaled as a sum", None, "rescale[row] = l_kept * weight[row]", "rescale[row] = expf(m_old - top)",
         "divided by l at each tile but rescaled by e"),
        ("flash_v1", "no barrier after the scores", None, "__syncthreads(); /* every score", "/* every score", BARRIER),
        ("flash_v1", "no barrier after P", None, "__syncthreads(); /* P and", "/* P and", f"{BARRIER}|uninitialised shared memory .rescale"),
    ],
    "05": [
        ("flash_v2", "no barrier before the loads", None, "__syncthreads(); /* every thread is done", "/* every thread is done", BARRIER),
        ("flash_v2", "no barrier after the loads", None, "__syncthreads(); /* the tiles are complete", "/* the tiles are complete", BARRIER),
        ("flash_v2", "no __syncwarp", None, "__syncwarp(); /* the warp", "/* the warp", f"{BARRIER}|uninitialised shared memory .P_tile"),
        ("flash_v2", "keys past the end score 0", None, ": -CUDART_INF_F; /* no key", ": 0.0f; /* no key", "keys past the end count"),
        ("flash_v2", "l is not rescaled", None, "l = l * rescale +", "l = l +", "the sum so far, l, is not multiplied"),
        ("flash_v2", "O is not rescaled", None, "o[n] = rescale * o[n] + sum", "o[n] = o[n] + sum", "the output so far is not multiplied"),
        ("flash_v2", "not divided", None, "o[n] * weight", "o[n]", "not divided by l"),
        ("flash_v2", "powers of 2", None, "expf(", "exp2f(", "the exponentials have base 2"),
        ("flash_v2", "the store is not bounded", None, "if (row < queries && n * Bc + col < d)", "if (n * Bc + col < d)", f"race on global memory|{BEYOND}"),
        ("flash_v2", "blocks rounded down", None, "ceil_div(call->seq_q, Br)", "(call->seq_q / Br)", "never written|a grid of 0"),
    ],
    "06": [
        ("half", "no barrier after the loads", None, "__syncthreads(); /* the tiles are complete", "/* the tiles are complete", BARRIER),
        ("half", "no barrier before the next loads", None, "__syncthreads(); /* all threads are done", "/* all threads are done", BARRIER),
        ("half", "no __syncwarp", None, "__syncwarp(); /* a row", "/* a row", f"{BARRIER}|uninitialised shared memory .tile_P"),
        ("half", "a key too many", None, "masked && key >= visible[i]", "masked && key > visible[i]", "one key too many|key past the end counts"),
        ("half", "no mask", None, "masked && key >= visible[i]", "false", "keys past the end count|mask is not applied"),
        ("half", "base 2 without log2 e", None, "shape.scale * LOG2_E", "shape.scale", "the exponentials have base 2"),
        ("half", "l is not rescaled", None, "l[i] *= rescale;", "", "the sum so far, l, is not multiplied"),
        ("half", "O is not rescaled", None, "acc[i][c] *= rescale;", ";", "the output so far is not multiplied"),
        ("half", "not divided", None, "acc[i][c] * inverse", "acc[i][c]", "not divided by l"),
        ("half", "LSE in base 2", None, "(m[i] + log2f(l[i])) * LN_2", "m[i] + log2f(l[i])", "log2.e. = 1.44|= log2.e.: base 2"),
    ],
}


def planted(rung, file, text, replacement):
    """Puts our kernel with the mistake into the learner's files."""
    for name in {rung.about["file"], *rung.about["stubs"]}:  # the files that the kernel needs are right
        if name.endswith(".cuh") or name == rung.about["file"]:
            source = (learn.ROOT / rung.step / name).read_text()
            if name == (file or rung.about["file"]):
                if text not in source:
                    raise SystemExit(f"{rung.step}/{name} has no '{text}'")
                source = source.replace(text, replacement) if text == "expf(" else source.replace(text, replacement, 1)
            (rung.folder / name).write_text(source)


def judged(rung, *mistake):
    shutil.rmtree(rung.folder, ignore_errors=True)
    rung.make_files()
    planted(rung, *mistake)
    state, lines = rung.judge({"predicted": {}})
    return state, learn.clip(lines)


def test(number):
    """Returns what is wrong with the messages of a step."""
    problems, told = [], 0
    learn.make_ours(learn.STEPS[number])
    rungs = {rung.kernel: rung for rung in learn.rungs_of(learn.STEPS[number])}
    for kernel, what, file, text, replacement, expected in MISTAKES[number]:
        state, lines = judged(rungs[kernel], file, text, replacement)
        said = " ".join(" ".join(lines).split())
        right = bool(re.search(expected, said))
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
    if told * 10 < len(MISTAKES[number]) * 9:
        problems.append(f"step {number}: {told} of {len(MISTAKES[number])} are told")
    return problems


def main(steps):
    learn.WORK = learn.ROOT / "build/learn/mistakes"
    learn.BUILD = learn.WORK / "build"
    problems = [problem for number in steps or MISTAKES for problem in test(number)]
    for problem in problems:
        print(f"FAILED  {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
