/*
 * State of a softmax that has seen some numbers: their maximum m and the sum l of their e^(x - m).
 *
 * Two states merge into the state of both sets together. The merge is associative and commutative,
 * and the empty state changes nothing, so a row may be cut into pieces anywhere and the pieces
 * merged in any order: that is what makes it parallel. docs/mathematics.md proves it,
 * tests/steps/test_03.c tries it. Plain C as well as CUDA, so that it can.
 */
#ifndef RUNNING_SOFTMAX_CUH
#define RUNNING_SOFTMAX_CUH

#include <cuda_runtime.h>
#include <math.h>

struct running_softmax {
    float m; /* maximum of the numbers seen */
    float l; /* sum of e^(x - m) over them */
};

/* The state that has seen nothing. */
static inline __host__ __device__ struct running_softmax running_softmax_empty(void)
{
    const struct running_softmax empty = {-INFINITY, 0.0f};
    return empty;
}

/* The state that has seen one number. */
static inline __host__ __device__ struct running_softmax running_softmax_of(float x)
{
    const struct running_softmax one = {x, 1.0f};
    return one;
}

/*
 * What to subtract in an exponent: m, but 0 where m is -inf, because (-inf) - (-inf) is NaN and
 * what is meant is e^(-inf) = 0. A maximum of +inf needs no such care: e^(inf - inf) is NaN, and so
 * must the result be.
 */
static inline __host__ __device__ float running_softmax_shift(float m)
{
    return m == -INFINITY ? 0.0f : m;
}

/* The operator (m, l) of docs/mathematics.md: one of the two exponentials is e^0 = 1. */
static inline __host__ __device__ struct running_softmax
running_softmax_merge(struct running_softmax a, struct running_softmax b)
{
    const float m = fmaxf(a.m, b.m);
    const float shift = running_softmax_shift(m);
    const struct running_softmax both = {m, a.l * expf(a.m - shift) + b.l * expf(b.m - shift)};
    return both;
}

#endif
