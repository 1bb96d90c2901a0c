/* What all rungs of this step agree on: which arguments they take, and which keys a query sees. */
#ifndef HALF_PROBLEM_CUH
#define HALF_PROBLEM_CUH

#include "attention.h"
#include "backend.h"
#include "refusal.h"
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

/*
 * Refuses what attention_check_arguments() refuses, and for the rungs that copy 16 bytes at a time
 * (element_copies false) a head_dim that is not a multiple of 8, a Q, K, V or O that is not aligned
 * to 16 bytes, and a scale that is not positive: most of these rungs take the maximum of the
 * unscaled scores.
 */
static inline cudaError_t
check_half_arguments(const uint16_t *Q, const uint16_t *K, const uint16_t *V, const uint16_t *O,
                     const float *LSE, const struct attention_shape *shape, bool element_copies)
{
    const struct attention_limits limits = {128, element_copies ? 1 : 8, true};
    cudaError_t status =
        attention_check_arguments(Q, K, V, O, LSE, NULL, 0, shape, sizeof *Q, &limits);
    if (status != cudaSuccess || element_copies)
        return status;
    if (shape->scale <= 0.0f)
        return refuse(cudaErrorInvalidValue, "scale is %g; this kernel takes positive scales",
                      (double)shape->scale);

    const struct {
        const char *name;
        const uint16_t *pointer;
    } array[] = {{"Q", Q}, {"K", K}, {"V", V}, {"O", O}};
    for (int a = 0; a < 4 && status == cudaSuccess; a++)
        if (array[a].pointer != NULL)
            status = require_pointer(array[a].name, array[a].pointer, 1, 16);
    return status;
}

/* A kernel that needs nothing more than the problem; one block computes BM queries of one head. */
typedef void half_kernel(const __half *Q, const __half *K, const __half *V, __half *O, float *LSE,
                         struct attention_shape shape);

/* The kernels for head_dim up to 64 and up to 128, without and with a causal mask. */
struct half_kernels {
    half_kernel *full_64, *causal_64, *full_128, *causal_128;
};

/* Launches the one that fits, after the arguments have been found good and unless O is empty. */
static inline cudaError_t launch_half(const struct half_kernels *kernels, int BM, int threads,
                                      const uint16_t *Q, const uint16_t *K, const uint16_t *V,
                                      uint16_t *O, float *LSE, const struct attention_shape *shape,
                                      cudaStream_t stream)
{
    if (attention_query_rows(shape) == 0)
        return cudaSuccess;
    half_kernel *full = shape->head_dim <= 64 ? kernels->full_64 : kernels->full_128;
    half_kernel *causal = shape->head_dim <= 64 ? kernels->causal_64 : kernels->causal_128;
    half_kernel *kernel = shape->causal ? causal : full;
    const int blocks = shape->batch * shape->heads * ceil_div(shape->seq_q, BM);
    kernel<<<blocks, threads, 0, stream>>>((const __half *)Q, (const __half *)K, (const __half *)V,
                                           (__half *)O, LSE, *shape);
    return cudaGetLastError();
}

#endif
