/* What a warpgroup carries from step to step where products overlap: from overlap (07_overlap.cu)
 * on. */
#ifndef ROWS_CUH
#define ROWS_CUH

#include "hopper_tile.cuh"

/* A warpgroup's rows, this thread's part of them. */
template <int HEAD_DIM>
struct rows {
    float S[BN / 2], O[HEAD_DIM / 2];
    uint32_t P[BN / 4];
    float m[2], l[2];
};

/* Nothing seen yet. */
template <int HEAD_DIM>
static __device__ __forceinline__ void clear_rows(struct rows<HEAD_DIM> &rows)
{
    for (int i = 0; i < HEAD_DIM / 2; i++)
        rows.O[i] = 0.0f;
    for (int r = 0; r < 2; r++) {
        rows.m[r] = -CUDART_INF_F;
        rows.l[r] = 0.0f;
    }
}

#endif
