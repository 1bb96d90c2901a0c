/* The tests of step 06 share this: attention_cases.h in half precision. */
#ifndef TESTS_HALF_CASES_H
#define TESTS_HALF_CASES_H

#include "attention_cases.h"

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
