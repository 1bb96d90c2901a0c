/* Step 05's ladder of gradients. */
#include "harness/ladder.h"
#include "05_flash_v2/05_step.h"
#include "backward_cases.h"

#define PROBLEM &attention_backward_problem

static const struct attention_backward_kernel *kernels(void)
{
    return step_rows(&step_05, PROBLEM);
}

CALL_TEST(cases, part_1, ladder_cases(PROBLEM, kernels(), 0, 4))
CALL_TEST(cases, part_2, ladder_cases(PROBLEM, kernels(), 1, 4))
CALL_TEST(cases, part_3, ladder_cases(PROBLEM, kernels(), 2, 4))
CALL_TEST(cases, part_4, ladder_cases(PROBLEM, kernels(), 3, 4))
CALL_TEST(cases, own, ladder_own_cases(PROBLEM, kernels()))
CALL_TEST(shapes, failed_once, ladder_failed_once(&step_05, PROBLEM))
CALL_TEST(shapes, more_than_65535_backward_blocks,
          check_many_backward_blocks(kernels(), TENSOR_F32))
CALL_TEST(shapes, backward_past_2_to_the_31_elements,
          check_backward_past_2_to_the_31(kernels(), TENSOR_F32))

CALL_TEST(contract, nan_gradients,
          check_nan_gradients(kernels(), (struct size){1, 2, 1, 37, 70, 20}))
CALL_TEST(contract, refused_backward_pointers,
          ladder_refused_arrays(PROBLEM, kernels(), SIZES(((struct size){1, 2, 1, 5, 9, 16})), 9))

TEST(contract, same_bits_in_ten_runs)
{
    static const char *const names[] = {"backward_standard", "backward_two_pass", NULL};
    check_same_bits(kernels(), names, (struct size){1, 4, 2, 45, 70, 40});
}

/* Only the first kernel may have room for the N × N scores: the others get one float a query. */
TEST(contract, backward_workspace_is_linear)
{
    struct attention_backward call = {
        .batch = 1, .heads = 1, .kv_heads = 1, .head_dim = 64, .seq_q = 4096, .seq_kv = 1 << 20};
    const struct attention_backward_kernel *row = kernels();
    cr_expect(row->workspace(&call) > (size_t)call.seq_q * (size_t)call.seq_kv);
    while ((++row)->about.name)
        cr_expect(row->workspace(&call) <= call.seq_q * sizeof(float), "%s: %zu bytes",
                  row->about.name, row->workspace(&call));
}

/* The first kernel has a thread per score. Asked directly, with no arrays, it must not launch. */
TEST(refusals, more_backward_blocks_than_a_grid_has)
{
    const struct attention_backward call = {
        .batch = 1, .heads = 1, .kv_heads = 1, .head_dim = 1, .seq_q = 1 << 20, .seq_kv = 1 << 20};
    const struct attention_backward_kernel *row = kernels();
    if (!ladder_runs(&row->about))
        return;
    refusal_clear();
    const cudaError_t status = row->launch(&call);
    cr_expect(status == cudaErrorInvalidValue, "%s: %s", row->about.name, cudaGetErrorName(status));
    cr_expect(strstr(refusal(), " blocks") != NULL, "%s: '%s'", row->about.name, refusal());
}

TEST(counters, backward_costs)
{
    static const struct size counted[] = {{1, 1, 1, 128, 64, 16}, {1, 1, 1, 66, 70, 64},
                                          {1, 4, 2, 17, 33, 20},  {1, 1, 1, 3, 129, 128},
                                          {1, 1, 1, 1, 530, 37},  {2, 1, 1, 70, 37, 90}};
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        ladder_costs(PROBLEM, kernels(), SIZES(counted[i]));
}

/* The tiles and their copies are such that no thread waits for a bank, and D is made once. */
TEST(counters, no_backward_bank_conflicts)
{
    const struct size size = {1, 1, 1, 130, 70, 64};
    EACH_COUNTED (kernel, kernels()) {
        struct counters counters;
        if (!ladder_count(PROBLEM, kernels(), kernel->about.name, SIZES(size), &counters))
            continue;
        cr_expect(counters.shared_wavefronts == counters.shared_wavefronts_ideal,
                  "%s: %llu wavefronts, ideally %llu", kernel->about.name,
                  counters.shared_wavefronts, counters.shared_wavefronts_ideal);
    }
}

TEST(devices, backward_on_several)
{
    static const struct size cases[] = {
        {1, 2, 1, 9, 70, 30}, {1, 2, 1, 70, 40, 64}, {1, 2, 1, 9, 40, 90}, {1, 2, 1, 19, 40, 128}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ladder_devices(PROBLEM, kernels(), SIZES(cases[i]));
}

TEST(launches, backward_errors_and_streams)
{
    static const struct size cases[] = {
        {1, 2, 1, 17, 35, 64}, {1, 2, 2, 9, 35, 30}, {1, 1, 1, 17, 20, 128}, {2, 1, 1, 5, 35, 90}};
    check_backward_launches(kernels(), cases, sizeof cases / sizeof *cases);
    ladder_launches(PROBLEM, kernels(), SIZES(((struct size){1, 3, 1, 7, 30, 16})));
}

/* The numbers are what the kernels did when they were judged: a faster way changes them. */
TEST(counters, backward_work)
{
    static const struct work expected[] = {
        {"backward_standard", 176, 45056, 0, 0},
        {"backward_recompute", 24, 6144, 8847360, 162},
        {"backward_two_pass", 34, 8704, 12989952, 342},
        {"backward_registers", 20, 4864, 779136, 18},
        {"backward_async", 20, 4864, 764928, 18},
        {"backward_vector_adds", 20, 4864, 764928, 18},
        {NULL, 0, 0, 0, 0},
    };
    ladder_work(PROBLEM, kernels(), SIZES(((struct size){1, 2, 1, 70, 90, 64})), expected);
}
