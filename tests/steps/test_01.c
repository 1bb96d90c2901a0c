/* Step 01: the naive matmul, read down columns and along rows. */
#include "harness/ladder.h"
#include "01_naive_matmul/01_step.h"
#include "matmul_cases.h"

static const struct matmul_kernel *naive_matmul_kernels(void)
{
    return step_rows(&step_01, &matmul_problem);
}

CALL_TEST(cases, part_1, ladder_cases(&matmul_problem, naive_matmul_kernels(), 0, 2))
CALL_TEST(cases, part_2, ladder_cases(&matmul_problem, naive_matmul_kernels(), 1, 2))
CALL_TEST(shapes, failed_once, ladder_failed_once(&step_01, &matmul_problem))
CALL_TEST(shapes, long_sides, check_long_sides(naive_matmul_kernels()))
CALL_TEST(shapes, past_2_to_the_31_elements,
          check_past_2_to_the_31_elements(naive_matmul_kernels()))
CALL_TEST(arguments, refused, check_refusals(naive_matmul_kernels()))

TEST(counters, costs)
{
    static const struct matmul_case cases[] = {
        {64, 64, 64}, {50, 70, 33}, {1, 100, 9}, {100, 1, 9}, {7, 9, 0}};
    check_costs(naive_matmul_kernels(), cases, sizeof cases / sizeof *cases);
}

/* With whole tiles, a request of 32 lanes touches 32 sectors where the lanes walk down a column, 4
 * along a row, and 1 where all read one element. */
static void check_sectors(const char *name, unsigned long long per_A, unsigned long long per_B,
                          unsigned long long per_C)
{
    enum { M = 64, N = 96, K = 32 };
    const unsigned long long warps = M * N / 32;
    struct counters counters;
    if (!ladder_counts(ladder_find(&matmul_problem, naive_matmul_kernels(), name)) ||
        !count(naive_matmul_kernels(), name, M, N, K, &counters))
        return;
    cr_expect(counters.global_load_requests == 2 * warps * K, "%s: %llu load requests", name,
              counters.global_load_requests);
    cr_expect(counters.global_load_sectors == (per_A + per_B) * warps * K,
              "%s: %llu load sectors, not %llu", name, counters.global_load_sectors,
              (per_A + per_B) * warps * K);
    cr_expect(counters.global_store_requests == warps, "%s: %llu store requests", name,
              counters.global_store_requests);
    cr_expect(counters.global_store_sectors == per_C * warps, "%s: %llu store sectors, not %llu",
              name, counters.global_store_sectors, per_C * warps);
}

TEST(counters, sectors)
{
    check_sectors("uncoalesced", 32, 1, 32);
    check_sectors("coalesced", 1, 4, 4);
}

static cudaError_t crash(const float *A, const float *B, float *C, int M, int N, int K,
                         cudaStream_t stream)
{
    (void)A;
    return matmul_coalesced((const float *)(uintptr_t)64, B, C, M, N, K, stream);
}

/*
 * A crash takes all of the device's memory along. The kernels after it get their memory back, or do
 * not run where the driver gives a process that crashed no device again. They are never blamed.
 */
TEST(refusals, crashes)
{
    static const struct matmul_kernel crashing = {.about.name = "crashing", .launch = crash};
    /* compute-sanitizer would report the crash, which is intended. */
    if (backend_has_timing() && !ladder_full_size_or_skip("a crash"))
        return;
    struct trial trial =
        ladder_trial(&matmul_problem, MATMUL_SIZES(33, 65, 17), INPUTS_NORMAL, 1, 0);
    for (int round = 0; round < 2; round++) {
        struct verdict verdict = trial_run(&trial, &crashing.about);
        cr_expect(verdict.status == VERDICT_FAIL && verdict.detector == DETECTOR_LAUNCH,
                  "a crash is no failed launch: %s", verdict.reason);
        verdict = trial_run(&trial, &naive_matmul_kernels()[1].about);
        if (backend_has_timing() && verdict.status == VERDICT_REFUSED &&
            strstr(verdict.reason, "the device could not be set up again"))
            break;
        cr_expect(verdict.status == VERDICT_PASS, "coalesced, after a crash: %s", verdict.reason);
    }
    trial_destroy(&trial);
}

TEST(launches, errors_and_streams)
{
    static const struct matmul_case cases[] = {{33, 65, 17}, {70, 20, 40}};
    check_launches(naive_matmul_kernels(), cases, 2);
}

/* The numbers are what the kernels did when they were judged: a faster way changes them. */
TEST(counters, work_whole)
{
    static const struct work expected[] = {
        {"uncoalesced", 70, 71680, 0, 0},
        {"coalesced", 70, 71680, 0, 0},
        {NULL, 0, 0, 0, 0},
    };
    ladder_work(&matmul_problem, naive_matmul_kernels(), MATMUL_SIZES(300, 200, 20), expected);
}
