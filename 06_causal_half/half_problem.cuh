/* What rungs of this step agree on: the base of exponentials, which keys a query sees, and the
 * instance of a kernel that a call gets. */
#ifndef HALF_PROBLEM_CUH
#define HALF_PROBLEM_CUH

#include "problems/attention.h"
#include "device/tiles.cuh"
#include "visible.h"

#include <cuda_fp16.h>
#include <math_constants.h>

/* The hardware's exponential has base 2: e^x = 2^(x · log2 e), and ln x = log2 x · ln 2. */
static const float LOG2_E = 1.4426950408889634f;
static const float LN_2 = 0.6931471805599453f;

/* A row that has seen no key has maximum -inf, and so does one whose scores all overflowed. Its
 * exponents are shifted by 0 instead: 2^(-inf - 0) = 0 comes out, not the NaN of 2^(-inf + inf). */
static __device__ __forceinline__ float shift_of(float maximum)
{
    return maximum == -CUDART_INF_F ? 0.0f : maximum;
}

/* Query `row` sees the first so many keys. Rows past seq_q, which fill the last tile, see all. */
template <bool CAUSAL>
static __device__ __forceinline__ int visible_keys(int row, int seq_q, int seq_kv)
{
    return keys_seen(CAUSAL, row, seq_q, seq_kv);
}

/* launch<T, HEAD_DIM, CAUSAL>(call) of a rung, for the call's type, head_dim and mask. */
#define LAUNCH(call)                                                                               \
    ((call)->type == TENSOR_BF16 ? LAUNCH_TYPE(__nv_bfloat16, call) : LAUNCH_TYPE(__half, call))
#define LAUNCH_TYPE(T, call)                                                                       \
    ((call)->head_dim <= 64 ? LAUNCH_HEAD_DIM(T, 64, call) : LAUNCH_HEAD_DIM(T, 128, call))
#define LAUNCH_HEAD_DIM(T, HEAD_DIM, call)                                                         \
    ((call)->causal ? launch<T, HEAD_DIM, true>(call) : launch<T, HEAD_DIM, false>(call))

#endif
