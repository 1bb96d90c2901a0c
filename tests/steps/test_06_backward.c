/* Step 06's ladder of gradients. */
#include "harness/ladder.h"
#include "06_causal_half/06_step.h"
#include "backward_cases.h"

#define PROBLEM &attention_backward_problem

static const struct attention_backward_kernel *kernels(void)
{
    return step_rows(&step_06, PROBLEM);
}

CALL_TEST(cases, part_1, ladder_cases(PROBLEM, kernels(), 0, 4))
CALL_TEST(cases, part_2, ladder_cases(PROBLEM, kernels(), 1, 4))
CALL_TEST(cases, part_3, ladder_cases(PROBLEM, kernels(), 2, 4))
CALL_TEST(cases, part_4, ladder_cases(PROBLEM, kernels(), 3, 4))
CALL_TEST(cases, own, ladder_own_cases(PROBLEM, kernels()))
CALL_TEST(shapes, failed_once, ladder_failed_once(&step_06, PROBLEM))
CALL_TEST(shapes, more_than_65535_backward_blocks,
          check_many_backward_blocks(kernels(), TENSOR_F16))
CALL_TEST(shapes, backward_past_2_to_the_31_elements,
          check_backward_past_2_to_the_31(kernels(), TENSOR_F16))

/* More tiles of keys than the largest device has multiprocessors, and so many heads that some must
 * wait for another's place: alone, in groups, and with a mask, so that several begin together. */
TEST(shapes, heads_that_wait_for_a_place)
{
    static const struct size size[] = {{1, 60, 60, 30, 1300, 128, false, TENSOR_F16},
                                       {1, 600, 300, 40, 129, 64, false, TENSOR_BF16},
                                       {1, 300, 300, 1100, 129, 128, true, TENSOR_BF16}};
    if (!ladder_full_size_or_skip("heads that wait for a place"))
        return;
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        ladder_check(PROBLEM, kernels(), SIZES(size[i]), INPUTS_NORMAL, 921 + i, 0);
}

CALL_TEST(contract, nan_gradients,
          check_nan_gradients(kernels(), (struct size){1, 2, 1, 37, 70, 24, false, TENSOR_BF16}))
CALL_TEST(contract, refused_backward_pointers,
          ladder_refused_arrays(PROBLEM, kernels(),
                                SIZES(((struct size){1, 2, 1, 5, 9, 16, false, TENSOR_F16})), 9))

TEST(contract, same_half_bits_in_ten_runs)
{
    static const char *const names[] = {"backward_in_turn", "backward_in_order", NULL};
    check_same_bits(kernels(), names, (struct size){1, 2, 1, 70, 400, 72, false, TENSOR_F16});
    check_same_bits(kernels(), names, (struct size){1, 2, 2, 300, 270, 40, true, TENSOR_BF16});
}

TEST(counters, backward_costs)
{
    static const struct size counted[] = {{1, 1, 1, 128, 64, 16, false, TENSOR_F16},
                                          {1, 1, 1, 66, 70, 64, true, TENSOR_BF16},
                                          {1, 4, 2, 17, 133, 24, true, TENSOR_F16},
                                          {1, 1, 1, 200, 129, 128, true, TENSOR_BF16},
                                          {2, 1, 1, 130, 37, 88, true, TENSOR_F16}};
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        ladder_costs(PROBLEM, kernels(), SIZES(counted[i]));
}

/* Tiles that lie wholly above the diagonal are not multiplied: of four by four tiles, which are 256
 * or 512 queries and keys, ten are left. */
TEST(counters, masked_backward_tiles)
{
    EACH_COUNTED (kernel, kernels()) {
        bool ten_of_sixteen = false, counted = true;
        for (int seq = 256; counted && !ten_of_sixteen && seq <= 512; seq *= 2) {
            struct counters full, masked;
            struct size size = {1, 1, 1, seq, seq, 64, false, TENSOR_F16};
            counted = ladder_count(PROBLEM, kernels(), kernel->about.name, SIZES(size), &full);
            size.causal = true;
            counted = counted &&
                      ladder_count(PROBLEM, kernels(), kernel->about.name, SIZES(size), &masked);
            ten_of_sixteen =
                counted && masked.matrix_multiplies * 16 == full.matrix_multiplies * 10;
        }
        cr_expect(!counted || ten_of_sixteen, "%s", kernel->about.name);
    }
}

static void judge_bank_conflicts(struct size size)
{
    EACH_COUNTED (kernel, kernels()) {
        struct counters counters;
        if (!ladder_count(PROBLEM, kernels(), kernel->about.name, SIZES(size), &counters))
            continue;
        cr_expect(counters.shared_wavefronts == counters.shared_wavefronts_ideal,
                  "%s: head_dim %lld: %llu wavefronts, ideally %llu", kernel->about.name,
                  size.head_dim, counters.shared_wavefronts, counters.shared_wavefronts_ideal);
    }
}

TEST(counters, no_backward_bank_conflicts)
{
    judge_bank_conflicts((struct size){1, 1, 1, 130, 70, 64, false, TENSOR_F16});
    judge_bank_conflicts((struct size){1, 1, 1, 70, 130, 128, false, TENSOR_F16});
}

/* Among the devices is an sm_86, where a block has 99 KB of shared memory: each rung fits. */
TEST(devices, backward_on_several)
{
    static const struct size cases[] = {{1, 2, 1, 70, 45, 64, false, TENSOR_F16},
                                        {1, 3, 1, 200, 145, 104, true, TENSOR_F16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ladder_devices(PROBLEM, kernels(), SIZES(cases[i]));
}

TEST(launches, backward_errors_and_streams)
{
    static const struct size cases[] = {{1, 2, 1, 17, 35, 64, false, TENSOR_F16},
                                        {1, 2, 2, 9, 35, 128, true, TENSOR_BF16}};
    check_backward_launches(kernels(), cases, sizeof cases / sizeof *cases);
    ladder_launches(PROBLEM, kernels(),
                    SIZES(((struct size){1, 3, 1, 7, 30, 16, true, TENSOR_F16})));
}
