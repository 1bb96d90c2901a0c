/* These kernels execute ex2.approx, and a multiplication under a predicate. */
#include "launches.cuh"
#include <ptx.cuh>

__global__ void powers_of_two(const float *in, float *out)
{
    for (int i = threadIdx.x; i < EXP2_COUNT; i += 32)
        out[i] = exp2_approximate(in[i]);
}

PTX_KERNEL(exp2, powers_of_two<<<1, 32>>>((const float *)in, (float *)out))

/* x and factor take turns in the input. */
__global__ void products(const float *in, float *out)
{
    for (int i = threadIdx.x; i < EXP2_COUNT / 2; i += 32)
        out[i] = multiply_unless_one(in[2 * i], in[2 * i + 1]);
}

PTX_KERNEL(multiply_unless_one, products<<<1, 32>>>((const float *)in, (float *)out))
