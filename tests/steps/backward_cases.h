/* Tests of gradients share these, in whichever step. */
#ifndef TESTS_BACKWARD_CASES_H
#define TESTS_BACKWARD_CASES_H

#include "attention_cases.h"
#include "problems/attention_backward.h"

/* Returns the outputs of a passing run, one behind the other. */
static inline char *outputs_of(struct trial *trial, const struct kernel *kernel, size_t *bytes)
{
    const struct verdict verdict = trial_run(trial, kernel);
    char *all = NULL;
    *bytes = 0;
    cr_assert(verdict.status == VERDICT_PASS, "%s: %s", kernel->name, verdict.reason);
    for (int t = trial->input_count; t < trial->tensor_count; t++) {
        const size_t more = trial->device[t].bytes;
        all = realloc(all, *bytes + more);
        memcpy(all + *bytes, trial->host[t], more);
        *bytes += more;
    }
    return all;
}

/* Kernels that say so must leave the same bits in ten runs, whatever the order of blocks and
 * threads. */
static inline void check_same_bits(const struct attention_backward_kernel *table,
                                   const char *const *names, struct size size)
{
    enum { RUNS = 10 };
    for (; *names; names++) {
        const struct kernel *kernel = ladder_find(&attention_backward_problem, table, *names);
        if (!ladder_runs(kernel))
            continue;
        struct trial trial =
            ladder_trial(&attention_backward_problem, SIZES(size), INPUTS_NORMAL, 3, 0);
        size_t bytes;
        char *first = outputs_of(&trial, kernel, &bytes);
        for (int run = 1; run < RUNS; run++) {
            setenv(ORDER_VARIABLE, thread_orders[run % 3], 1);
            char *again = outputs_of(&trial, kernel, &bytes);
            cr_expect(memcmp(first, again, bytes) == 0, "%s: run %d has other bits", kernel->name,
                      run);
            free(again);
        }
        unsetenv(ORDER_VARIABLE);
        free(first);
        trial_destroy(&trial);
    }
}

/* A NaN in an element of a query or of a key must reach what the reference says, and nothing
 * else. */
static inline void check_nan_gradients(const struct attention_backward_kernel *table,
                                       struct size size)
{
    for (int t = 0; t < 2; t++) {
        struct trial trial =
            ladder_trial(&attention_backward_problem, SIZES(size), INPUTS_NORMAL, 9, 0);
        const struct tensor *tensor = &trial.tensors[t];
        tensor_store(trial.host[t], tensor->type, tensor->cols * 4 + 3, (double)NAN);
        ladder_check_inputs(&trial, table, t == 0 ? "a NaN in Q" : "a NaN in K");
        trial_destroy(&trial);
    }
}

static inline void check_backward_launches(const struct attention_backward_kernel *table,
                                           const struct size *cases, size_t count)
{
    const struct problem *problem = &attention_backward_problem;
    for (size_t i = 0; i < count; i++) {
        const long long *const sizes = SIZES(cases[i]);
        ladder_returns_errors(problem, table, sizes);
        ladder_streams(problem, table, sizes, SIZES(another(cases[i], table->causal)));
    }
    ladder_older_errors(problem, table, SIZES(cases[0]));
}

/* The calls need more blocks than gridDim.y and gridDim.z can count. */
static inline void check_many_backward_blocks(const struct attention_backward_kernel *table,
                                              enum tensor_type type)
{
    static const struct size size[] = {
        {70000, 1, 1, 3, 5, 8}, {1, 70000, 35000, 3, 5, 16}, {1, 1, 1, 3, 1200000, 8}};
    if (!ladder_full_size_or_skip("more than 65535 blocks"))
        return;
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        struct size typed = size[i];
        typed.type = type;
        ladder_check(&attention_backward_problem, table, SIZES(typed), INPUTS_NORMAL, 901 + i, 0);
    }
}

/* All arrays but LSE have more than 2^31 elements. The last sequence is checked. */
static inline void check_backward_past_2_to_the_31(const struct attention_backward_kernel *table,
                                                   enum tensor_type type)
{
    enum { SEQ = 4, HEAD_DIM = 128 };
    const struct size last = {1, 1, 1, SEQ, SEQ, HEAD_DIM, false, type};
    struct size whole = last;
    whole.batch = (1ll << 31) / (SEQ * HEAD_DIM) + 9;
    ladder_past_2_to_the_31(&attention_backward_problem, table, SIZES(whole), SIZES(last),
                            (int[]){0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c});
}

#endif
