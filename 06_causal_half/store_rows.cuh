/* O from the accumulators to global memory, by each lane from where it is. */
#ifndef STORE_ROWS_CUH
#define STORE_ROWS_CUH

#include "score_rows.cuh"

/* Stores the warp's rows, packed by pack_rows(), two elements at a time. O is [seq_q, head_dim]. */
template <typename T, int COUNT>
static __device__ __forceinline__ void store_rows(T *O, const uint32_t (&packed)[COUNT],
                                                  int first_row, int seq_q, int head_dim)
{
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const int row = first_row + threadIdx.x % WARP / ROW_LANES + 8 * (i % 2);
        const int col = 8 * (i / 2) + threadIdx.x % ROW_LANES * 2;
        if (row >= 0 && row < seq_q && col < head_dim)
            *(uint32_t *)&O[(size_t)row * head_dim + col] = packed[i];
    }
}

#endif
