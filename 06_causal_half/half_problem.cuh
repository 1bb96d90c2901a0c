/* What all rungs of this step agree on: which keys a query sees. */
#ifndef HALF_PROBLEM_CUH
#define HALF_PROBLEM_CUH

#include "attention.h"
#include "tiles.cuh"

#include <cuda_fp16.h>
#include <math_constants.h>

/* The hardware's exponential has base 2: e^x = 2^(x * log2 e), and ln x = log2 x * ln 2. */
static const float LOG2_E = 1.4426950408889634f;
static const float LN_2 = 0.6931471805599453f;

/* A fully masked row has maximum -inf. Its exponents are shifted by 0 instead, so that 2^(-inf - 0)
 * = 0 comes out and not 2^(-inf + inf), which is NaN. */
static __device__ __forceinline__ float shift_of(float maximum)
{
    return maximum == -CUDART_INF_F ? 0.0f : maximum;
}

/* Query `row` sees the first so many keys. Rows past seq_q, which fill the last tile, see all. */
template <bool CAUSAL>
static __device__ __forceinline__ int visible_keys(int row, int seq_q, int seq_kv)
{
    return CAUSAL ? max(0, min(seq_kv, row - seq_q + 1 + seq_kv)) : seq_kv;
}

/* A kernel that needs nothing more than the problem; one block computes BM queries of one head. */
typedef void half_kernel(const __half *Q, const __half *K, const __half *V, __half *O, float *LSE,
                         struct attention shape);

/* The kernels for head_dim up to 64 and up to 128, without and with a causal mask. */
struct half_kernels {
    half_kernel *full_64, *causal_64, *full_128, *causal_128;
};

/* Launches the one that fits the call. */
static inline cudaError_t launch_half(const struct half_kernels *kernels, int BM, int threads,
                                      const struct attention *call)
{
    half_kernel *full = call->head_dim <= 64 ? kernels->full_64 : kernels->full_128;
    half_kernel *causal = call->head_dim <= 64 ? kernels->causal_64 : kernels->causal_128;
    half_kernel *kernel = call->causal ? causal : full;
    const int blocks = call->batch * call->heads * ceil_div(call->seq_q, BM);
    kernel<<<blocks, threads, 0, call->stream>>>((const __half *)call->Q, (const __half *)call->K,
                                                 (const __half *)call->V, (__half *)call->O,
                                                 call->LSE, *call);
    return cudaGetLastError();
}

#endif
