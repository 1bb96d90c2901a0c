/* Lists of cases: how families are read, and what a placement asks of a kernel. */
#include "harness/cases.h"
#include "harness/refusal.h"
#include "problems/attention.h"
#include "problems/matmul.h"
#include "problems/softmax.h"
#include "tests/support/harness.h"
#include "tests/support/ladder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct problem *const problems[] = {&matmul_problem, &softmax_problem,
                                                 &attention_problem};

/* A list that cannot be read would end a walk early, and every test that walks over it. */
TEST(lists, all_can_be_read)
{
    for (size_t p = 0; p < sizeof problems / sizeof *problems; p++) {
        int counts[CASE_LEVELS];
        for (int level = 0; level < CASE_LEVELS; level++) {
            struct case_walk walk;
            struct test_case one;
            cases_begin(&walk, problems[p], NULL, (enum case_level)level, 1);
            for (counts[level] = 0; cases_next(&walk, &one); counts[level]++)
                cr_expect(*one.wrong != '\0', "%s", case_options(problems[p], &one));
            cr_expect(!walk.unreadable, "%s: %s", problems[p]->name, refusal());
        }
        cr_expect(counts[CASES_FIRST] >= 1 && counts[CASES_QUICK] > counts[CASES_FIRST] &&
                      counts[CASES_USUAL] > 2 * counts[CASES_QUICK] &&
                      counts[CASES_FULL] > counts[CASES_USUAL],
                  "%s: %d, %d, %d, %d cases", problems[p]->name, counts[0], counts[1], counts[2],
                  counts[3]);
    }
}

/* What a case says of itself leads back to it. */
TEST(lists, options_make_the_case_again)
{
    for (size_t p = 0; p < sizeof problems / sizeof *problems; p++) {
        struct case_walk walk;
        struct test_case one;
        cases_begin(&walk, problems[p], NULL, CASES_FULL, 7);
        while (cases_next(&walk, &one)) {
            struct test_case again;
            case_default(problems[p], &again);
            const char *options = case_options(problems[p], &one);
            cr_expect(case_read(problems[p], options, &again), "%s", refusal());
            cr_expect(case_same(&again, &one), "%s", options);
        }
    }
}

TEST(families, values_advance_together)
{
    static const long long expected[][3] = {{1, 7, 4}, {2, 7, 5}, {3, 7, 6}, {8, 9, 10}};
    const struct kernel kernel = {.name = "none",
                                  .edges = "--m 1,2,3 --n 7 --k 4,5,6;--sizes 8x9x10 --offset 4"};
    struct case_walk walk;
    struct test_case one;
    cases_begin(&walk, &matmul_problem, &kernel, CASES_USUAL, 1);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        cr_assert(cases_next(&walk, &one), "%s", refusal());
        cr_expect(memcmp(one.sizes, expected[i], sizeof expected[i]) == 0, "case %zu is %s", i,
                  case_options(&matmul_problem, &one));
        cr_expect(one.placement.offset == (i == 3 ? 4u : 0u));
    }
}

/* A hidden case is drawn from its family's ranges, the same for a seed and a kernel whatever other
 * families there are. */
TEST(hidden, drawn_from_ranges)
{
    static const char alone[] = "--m 20..40/5,3 --n 7 --k 100..900";
    const struct kernel with = {.name = "one", .own_sizes = "--m 4 --n 4 --k 4", .edges = alone},
                        without = {.name = "one", .edges = alone},
                        other = {.name = "another", .edges = alone};
    const struct kernel *const kernels[] = {&with, &without, &other};
    int different = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct test_case drawn[3];
        for (int i = 0; i < 3; i++) {
            struct case_walk walk;
            cases_begin(&walk, &matmul_problem, kernels[i], CASES_HIDDEN, seed);
            if (i == 0)
                cr_assert(cases_next(&walk, &drawn[i]) && drawn[i].sizes[0] == 4);
            cr_assert(cases_next(&walk, &drawn[i]), "%s", refusal());
        }
        const long long *sizes = drawn[0].sizes;
        cr_expect(case_same(&drawn[0], &drawn[1]));
        cr_expect((sizes[0] == 3 || (sizes[0] >= 20 && sizes[0] <= 40 && sizes[0] % 5 == 0)) &&
                      sizes[1] == 7 && sizes[2] >= 100 && sizes[2] <= 900,
                  "%s", case_options(&matmul_problem, &drawn[0]));
        different += sizes[2] != drawn[2].sizes[2] && drawn[0].seed != drawn[2].seed;
    }
    cr_expect(different > 40, "two kernels have the same sizes in %d of 50", 50 - different);
}

/* Each problem hides enough, and no case that a learner has seen twice in a row. */
TEST(hidden, every_problem_has_them)
{
    for (size_t p = 0; p < sizeof problems / sizeof *problems; p++) {
        struct case_walk walk, again;
        struct test_case one, two;
        int count = 0, same = 0;
        cases_begin(&walk, problems[p], NULL, CASES_HIDDEN, 1);
        cases_begin(&again, problems[p], NULL, CASES_HIDDEN, 2);
        for (; cases_next(&walk, &one) && cases_next(&again, &two); count++)
            same += memcmp(one.sizes, two.sizes, sizeof one.sizes) == 0;
        cr_expect(count >= 10 && 2 * same < count, "%s: %d of %d have the same sizes",
                  problems[p]->name, same, count);
    }
}

TEST(families, what_is_not_understood)
{
    static const struct {
        const char *options, *says;
    } cases[] = {{"--rows 3", "'--rows' is no size of matmul"},
                 {"--m -3", "--m does not take '-3'"},
                 {"--m", "--m does not take ''"},
                 {"--m 3x", "--m does not take '3x'"},
                 {"--m 9..3", "--m does not take '9..3'"},
                 {"--m 3..9/0", "--m does not take '3..9/0'"},
                 {"--m 3..", "--m does not take '3..'"},
                 {"--sizes 1x2x3x4", "--sizes does not take '1x2x3x4'"},
                 {"--inputs odd", "--inputs does not take 'odd'"},
                 {"--null D", "--null does not take 'D'"},
                 {"--offset-of D", "--offset-of does not take 'D'"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct test_case one;
        case_default(&matmul_problem, &one);
        refusal_clear();
        cr_expect(!case_read(&matmul_problem, cases[i].options, &one) &&
                      strstr(refusal(), cases[i].says),
                  "'%s': '%s' does not say '%s'", cases[i].options, refusal(), cases[i].says);
    }
}

TEST(families, all_inputs)
{
    const struct kernel kernel = {.name = "none", .edges = "--inputs all"};
    struct case_walk walk;
    struct test_case one;
    cases_begin(&walk, &matmul_problem, &kernel, CASES_USUAL, 1);
    for (int kind = 0; kind < INPUT_KINDS; kind++) {
        cr_assert(cases_next(&walk, &one), "%s", refusal());
        cr_expect((int)one.inputs == kind);
    }
}

static int calls;

/* This one does its work only when it is called for the first time. */
static cudaError_t only_once(const float *A, const float *B, float *C, int M, int N, int K,
                             cudaStream_t stream)
{
    const size_t bytes = sizeof(float) * (size_t)M * (size_t)N;
    (void)A, (void)B, (void)K, (void)stream;
    if (calls++ > 0)
        return cudaSuccess;
    float *zeros = calloc(bytes, 1);
    cr_assert(zeros && cudaMemcpy(C, zeros, bytes, cudaMemcpyHostToDevice) == cudaSuccess);
    free(zeros);
    return cudaSuccess;
}

/* K = 0 makes C = 0. What the first of several launches wrote does not count. */
TEST(placements, the_last_launch_is_judged)
{
    const struct matmul_kernel kernel = {.about.name = "only_once", .launch = only_once};
    for (int launches = 1; launches <= 3; launches += 2) {
        struct test_case one;
        struct trial trial;
        case_default(&matmul_problem, &one);
        cr_assert(case_read(&matmul_problem, "--sizes 5x7x0", &one));
        one.placement.launches = launches;
        calls = 0;
        cr_assert(case_trial(&trial, &matmul_problem, &one) == cudaSuccess);
        const struct verdict verdict = trial_run(&trial, &kernel.about);
        cr_expect((verdict.status == VERDICT_PASS) == (launches == 1), "%d launches: %s", launches,
                  verdict.reason);
        trial_destroy(&trial);
    }
}
