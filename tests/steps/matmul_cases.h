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

static inline void check_cases(const struct matmul_kernel *table, const struct matmul_case *cases,
                               size_t count_of_cases, uint64_t seed)
{
    for (size_t i = 0; i < count_of_cases; i++)
        check(table, cases[i].M, cases[i].N, cases[i].K, INPUTS_NORMAL, seed + i, 0);
}

/* A GPU gets more tiles along one side than gridDim.y can count; a CPU would take too long. */
static void check_long_sides(const struct matmul_kernel *table)
{
    const long long side = 2200000;
    if (!ladder_full_size_or_skip("more than 65535 tiles along a side"))
        return;
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
    ladder_older_errors(&matmul_problem, table, MATMUL_SIZES(33, 65, 17));
    ladder_launches(&matmul_problem, table, MATMUL_SIZES(300, 130, 20));
}

#endif
