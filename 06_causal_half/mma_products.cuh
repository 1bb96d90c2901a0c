/* The product of mma.sync as the rungs before wgmma use it. */
#ifndef MMA_PRODUCTS_CUH
#define MMA_PRODUCTS_CUH

#include "score_rows.cuh"

/* d += A · B, all 16 x 16, B as one ldmatrix_x4 brings it: two right factors side by side. */
template <typename T>
static __device__ __forceinline__ void mma_m16n16k16(float d[8], const uint32_t a[4],
                                                     const uint32_t b[4])
{
    mma_m16n8k16<T>(&d[0], a, &b[0]);
    mma_m16n8k16<T>(&d[4], a, &b[2]);
}

#endif
