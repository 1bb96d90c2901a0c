/* ex2.approx and a multiplication under a predicate. */
#include "finished.cuh"
#include "ptx_kernels.h"
#include "ptx.cuh"

__global__ void powers_of_two(const float *in, float *out)
{
    for (int i = threadIdx.x; i < EXP2_COUNT; i += 32)
        out[i] = exp2_approximate(in[i]);
}

cudaError_t ptx_exp2(const uint32_t *in, uint32_t *out)
{
    powers_of_two<<<1, 32>>>((const float *)in, (float *)out);
    return finished();
}

/* x and factor in turn. */
__global__ void products(const float *in, float *out)
{
    for (int i = threadIdx.x; i < EXP2_COUNT / 2; i += 32)
        out[i] = multiply_unless_one(in[2 * i], in[2 * i + 1]);
}

cudaError_t ptx_multiply_unless_one(const uint32_t *in, uint32_t *out)
{
    products<<<1, 32>>>((const float *)in, (float *)out);
    return finished();
}
