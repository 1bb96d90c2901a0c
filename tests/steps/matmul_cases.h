/* test_01 and test_02 share these tests: their two tables have one problem, so the same shapes,
 * inputs and refusals. */
#ifndef TESTS_MATMUL_CASES_H
#define TESTS_MATMUL_CASES_H

#include "tests/support/harness.h"
#include "tests/support/ladder.h"
#include "problems/matmul.h"
#include "harness/refusal.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void check(const struct matmul_kernel *table, long long M, long long N, long long K,
                  enum input_kind kind, uint64_t seed, size_t offset)
{
    ladder_check(&matmul_problem, table, MATMUL_SIZES(M, N, K), kind, seed, offset);
}

static bool count(const struct matmul_kernel *table, const char *name, long long M, long long N,
                  long long K, struct counters *counters)
{
    return ladder_count(&matmul_problem, table, name, MATMUL_SIZES(M, N, K), counters);
}

struct matmul_case {
    int M, N, K;
};

/* Checks each row's costs, where accesses are counted. */
static void check_costs(const struct matmul_kernel *table, const struct matmul_case *cases,
                        size_t count_of_cases)
{
    for (size_t i = 0; i < count_of_cases; i++) {
        ladder_costs(&matmul_problem, table, MATMUL_SIZES(cases[i].M, cases[i].N, cases[i].K));
    }
}

static void check_cases(const struct matmul_kernel *table, const struct matmul_case *cases,
                        size_t count_of_cases, uint64_t seed)
{
    for (size_t i = 0; i < count_of_cases; i++)
        check(table, cases[i].M, cases[i].N, cases[i].K, INPUTS_NORMAL, seed + i, 0);
}

/* The sides are below and above each tile size of the two steps. */
static void check_cubes(const struct matmul_kernel *table)
{
    static const int sides[] = {1,  2,  3,  7,  15, 16,  17,  31,  32,
                                33, 63, 64, 65, 80, 100, 127, 128, 129};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        check(table, sides[i], sides[i], sides[i], INPUTS_NORMAL, 100 + i, 0);
}

/* The three sides differ, so that a swapped pair of sizes cannot pass. */
static void check_rectangles(const struct matmul_kernel *table)
{
    static const struct matmul_case cases[] = {
        {37, 53, 71},  {71, 37, 53},  {53, 71, 37},  {131, 67, 19},  {19, 131, 67},  {67, 19, 131},
        {257, 263, 9}, {1, 515, 33},  {515, 1, 33},  {1, 1, 203},    {3, 5, 300},    {1000, 3, 5},
        {3, 1000, 5},  {64, 128, 24}, {128, 64, 24}, {129, 127, 25}, {127, 129, 95}, {128, 128, 96},
    };
    check_cases(table, cases, sizeof cases / sizeof *cases, 200);
}

/* The last tile along K has every length, alone or after two full tiles. */
static void check_depths(const struct matmul_kernel *table)
{
    for (int K = 1; K <= 48; K += K < 16 ? 1 : K == 16 ? 17 : 3)
        check(table, 20, 24, K, INPUTS_NORMAL, 300 + (uint64_t)K, 0);
}

/* A GPU gets more tiles along one side than gridDim.y can count; a CPU would take too long. */
static void check_long_sides(const struct matmul_kernel *table)
{
    const long long side = ladder_full_size() ? 2200000 : 5000;
    check(table, side, 2, 3, INPUTS_NORMAL, 350, 0);
    check(table, 2, side, 3, INPUTS_NORMAL, 351, 0);
}

/*
 * A, B and C have more than 2^31 elements in turn. A large matrix is 0.747 everywhere but at its
 * end. The last row of C is checked; of a long B only the last row counts for it, because the last
 * row of A is 0 before its end.
 */
static inline void check_past_2_to_the_31_elements(const struct matmul_kernel *table)
{
    enum { LONG = 65552, SHORT = 32768, FEW = 8 };
    static const struct matmul_case cases[] = {
        {LONG, FEW, SHORT}, {FEW, SHORT, LONG}, {LONG, SHORT, FEW}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int M = cases[i].M, N = cases[i].N, K = cases[i].K;
        const int kept = K == LONG ? 1 : K; /* where the last row of A is not 0 */
        ladder_past_2_to_the_31(&matmul_problem, table, MATMUL_SIZES(M, N, K),
                                MATMUL_SIZES(1, N, kept), (int[]){K == LONG ? 0 : 0x3f, 0x3f});
    }
}

static void check_empty(const struct matmul_kernel *table)
{
    static const struct matmul_case cases[] = {{20, 30, 0}, {1, 1, 0}, {200, 150, 0}, {0, 7, 9},
                                               {7, 0, 9},   {0, 0, 9}, {0, 0, 0},     {0, 7, 0}};
    check_cases(table, cases, sizeof cases / sizeof *cases, 400);
}

static void check_kinds(const struct matmul_kernel *table)
{
    for (int kind = 0; kind < INPUT_KINDS; kind++) {
        check(table, 33, 65, 70, (enum input_kind)kind, 500, 0);
        check(table, 130, 20, 140, (enum input_kind)kind, 502, 0);
    }
}

/* Pointers are aligned to 4 bytes only, and some of the row lengths suit a vector access. */
static void check_misaligned(const struct matmul_kernel *table)
{
    for (size_t offset = 4; offset < 16; offset += 4) {
        check(table, 64, 64, 64, INPUTS_NORMAL, 600, offset);
        check(table, 130, 132, 20, INPUTS_NORMAL, 601, offset);
        check(table, 33, 35, 37, INPUTS_NORMAL, 602, offset);
    }
}

/*
 * IEEE arithmetic must hold to the end: an infinity in A or B makes its row or column infinite, and
 * NaN where it meets a zero (0 * inf) or an infinity of the other sign. Nothing may spread beyond.
 * A kernel that multiplies what lies past an edge by the zeros of the other tile makes NaN there.
 */
static void check_infinities(const struct matmul_kernel *table)
{
    /* Some cases have whole tiles, some have ragged ones in each direction, and one has a row and a
     * column that the last rungs replace by others. */
    static const struct matmul_case cases[] = {{128, 256, 64}, {35, 37, 19}, {130, 261, 70}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t M = (size_t)cases[i].M, N = (size_t)cases[i].N, K = (size_t)cases[i].K;
        const long long *const sizes = MATMUL_SIZES(cases[i].M, cases[i].N, cases[i].K);
        struct trial trial = ladder_trial(&matmul_problem, sizes, INPUTS_NORMAL, 950 + i, 0);
        float *const A = trial.host[0], *const B = trial.host[1];
        A[(M - 1) * K] = INFINITY;     /* row M - 1 */
        A[5 * K + K - 1] = -INFINITY;  /* row 5 */
        B[N - 1] = 0.0f;               /* 0 * inf at [M - 1][N - 1] */
        B[(K - 1) * N + 3] = INFINITY; /* column 3; -inf at [5][3], not NaN */
        A[7 * K + K - 1] = 0.0f;       /* 0 * inf at [7][3] */
        ladder_check_inputs(&trial, table, "infinities");
        int unusual = 0;
        for (size_t at = 0; at < M * N; at++)
            unusual += !isfinite(trial.value[2][at]);
        cr_assert(unusual > (int)(2 * N));
        cr_assert(isnan(trial.value[2][7 * N + 3]) && isfinite(trial.value[2][8 * N + 4]));
        trial_destroy(&trial);
    }
}

static void check_refusals(const struct matmul_kernel *table)
{
    const long long *const good = MATMUL_SIZES(16, 16, 16);
    ladder_refused_size(&matmul_problem, table, good, MATMUL_M, -1, "M is -1");
    ladder_refused_size(&matmul_problem, table, good, MATMUL_N, -7, "N is -7");
    ladder_refused_size(&matmul_problem, table, good, MATMUL_K, INT_MIN, "K is -2147483648");
    ladder_refused_size(&matmul_problem, table, good, MATMUL_N, INT_MAX, "N is 2147483647");
    ladder_refused_arrays(&matmul_problem, table, good, 3);

    float *C = NULL;
    cr_assert(cudaMalloc((void **)&C, 100 * sizeof *C) == cudaSuccess);
    EACH_KERNEL (kernel, table) {
        cr_expect(matmul_run(kernel, NULL, NULL, NULL, 0, 10, 10, NULL) == cudaSuccess);
        cr_expect(matmul_run(kernel, NULL, NULL, C, 10, 10, 0, NULL) == cudaSuccess);
    }
    cudaFree(C);
}

/* A launcher must, whatever the numbers, return its launch's error, keep to its stream, and leave
 * nothing over from one launch to the next. */
static inline void check_launches(const struct matmul_kernel *table,
                                  const struct matmul_case *cases, size_t count_of_cases)
{
    for (size_t i = 0; i < count_of_cases; i++) {
        const struct matmul_case c = cases[i], other = cases[(i + 1) % count_of_cases];
        const long long *const sizes = MATMUL_SIZES(c.M, c.N, c.K);
        ladder_returns_errors(&matmul_problem, table, sizes);
        ladder_streams(&matmul_problem, table, sizes, MATMUL_SIZES(other.M, other.N, other.K));
    }
    ladder_launches(&matmul_problem, table, MATMUL_SIZES(1, 2, 3));
}

/* One of A, B and C is off its alignment, with rows that would suit a vector access. */
static inline void check_one_off(const struct matmul_kernel *table)
{
    static const struct matmul_case cases[] = {{36, 40, 20}, {132, 260, 64}, {64, 128, 256}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ladder_one_off(&matmul_problem, table, MATMUL_SIZES(cases[i].M, cases[i].N, cases[i].K),
                       sizeof(float));
    }
}

#endif
