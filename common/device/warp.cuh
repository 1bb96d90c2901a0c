/* A warp has a size, a mask of all its lanes, and reductions between lanes. */
#ifndef COMMON_WARP_CUH
#define COMMON_WARP_CUH

#include <cuda_runtime.h>

static const int WARP = 32;
static const unsigned FULL_MASK = 0xffffffffu;

/*
 * Returns the maximum, or the sum, over each run of `lanes` neighbouring lanes (a power of two).
 * All lanes of a run get the same bits. Every lane of the warp takes part. A maximum ignores NaN.
 */
static inline __device__ float warp_max(float value, int lanes = WARP)
{
#pragma unroll
    for (int distance = lanes / 2; distance > 0; distance /= 2)
        value = fmaxf(value, __shfl_xor_sync(FULL_MASK, value, distance));
    return value;
}

static inline __device__ float warp_sum(float value, int lanes = WARP)
{
#pragma unroll
    for (int distance = lanes / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(FULL_MASK, value, distance);
    return value;
}

#endif
