/*
 * The element type T of Q, K, V and O, from mma on: __half or __nv_bfloat16. Both are two bytes, so
 * tiles, copies and layouts are the same; the products and the rounding of a float differ.
 */
#ifndef ELEMENT_CUH
#define ELEMENT_CUH

#include "half_problem.cuh"
#include <ptx.cuh>

/* Two elements in a register, the first in the lower half. */
template <typename T>
static __device__ __forceinline__ uint32_t pack_pair(float low, float high)
{
    if constexpr (is_bfloat16<T>) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return *(const uint32_t *)&pair;
    } else {
        const __half2 pair = __floats2half2_rn(low, high);
        return *(const uint32_t *)&pair;
    }
}

/* launch<T, HEAD_DIM, CAUSAL>(call) of a rung, for the call's type, head_dim and mask. */
#define LAUNCH(call)                                                                               \
    ((call)->type == TENSOR_BF16 ? LAUNCH_TYPE(__nv_bfloat16, call) : LAUNCH_TYPE(__half, call))
#define LAUNCH_TYPE(T, call)                                                                       \
    ((call)->head_dim <= 64 ? LAUNCH_HEAD_DIM(T, 64, call) : LAUNCH_HEAD_DIM(T, 128, call))
#define LAUNCH_HEAD_DIM(T, HEAD_DIM, call)                                                         \
    ((call)->causal ? launch<T, HEAD_DIM, true>(call) : launch<T, HEAD_DIM, false>(call))

#endif
