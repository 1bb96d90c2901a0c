/* The tests of step 06 share this: attention_cases.h in half precision. */
#ifndef TESTS_HALF_CASES_H
#define TESTS_HALF_CASES_H

#include "attention_cases.h"
#include "harness/ladder.h"
#include "06_causal_half/06_step.h"

static inline const struct attention_kernel *causal_half_kernels(void)
{
    return step_rows(&step_06, &attention_problem);
}

/* Defines a table of the kernels for whose row the condition holds. */
#define KERNELS_WHERE(table_of, condition)                                                         \
    static inline const struct attention_kernel *table_of(void)                                    \
    {                                                                                              \
        static struct attention_kernel table[32];                                                  \
        size_t count = 0;                                                                          \
        for (const struct attention_kernel *row = causal_half_kernels(); row->about.name; row++)   \
            if (condition)                                                                         \
                table[count++] = *row;                                                             \
        return table;                                                                              \
    }
KERNELS_WHERE(of_two_types, row->types & 1 << TENSOR_BF16)

static inline struct size in_half(struct size size, bool causal)
{
    size.causal = causal;
    size.type = TENSOR_F16;
    return size;
}

static inline struct trial half_trial(struct size size, bool causal, enum input_kind kind,
                                      uint64_t seed)
{
    return trial_with(in_half(size, causal), kind, seed);
}

#endif
