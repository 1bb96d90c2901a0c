/* How flash_v1_register_tile (08_flash_v1_register_tile.cu) brings Q and K into shared memory; the
 * two rungs after it keep it. */
#ifndef LOAD_TRANSPOSED_CUH
#define LOAD_TRANSPOSED_CUH

#include "07_flash_v1.h"
#include "device/warp.cuh"

/*
 * Copies rows 0 .. rows - 1 of a [rows, d] matrix, times `factor`, to the columns of a
 * [d][tile_rows + PAD] tile; columns past the end become zero. Eight lanes run along k and four
 * across; warp `warp` of `warps` takes every warps-th four rows.
 */
template <int D>
static __device__ __forceinline__ void load_transposed(float *tile, int tile_rows,
                                                       const float *matrix, int rows, int d,
                                                       float factor, int warp, int warps)
{
    const int lane = threadIdx.x % WARP, step = 4 * warps;
    for (int row = 4 * warp + lane / 8; row < tile_rows; row += step)
#pragma unroll
        for (int e = 0; e < D / 8; e++) {
            const int k = 8 * e + lane % 8;
            if (k < d)
                tile[k * (tile_rows + PAD) + row] =
                    row < rows ? factor * matrix[(size_t)row * d + k] : 0.0f;
        }
}

#endif
