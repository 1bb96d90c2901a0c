/* How flash_v1_ahead (11_flash_v1_ahead.cu) brings Q and K into shared memory, several loads on
 * their way at once; the rungs after it keep it. */
#ifndef LOAD_AHEAD_CUH
#define LOAD_AHEAD_CUH

#include "slabs.cuh"
#include "device/warp.cuh"

/*
 * Copies rows 0 .. rows - 1 of a [rows, d] matrix, times `factor`, to the columns of a
 * [d][tile_rows + PAD] tile; columns past the end become zero. Eight lanes run along k and four
 * across; warp `warp` of `warps` takes every warps-th four rows. Four rows of a lane are loaded
 * before any is stored, so that D / 2 loads are on their way at once.
 */
template <int D>
static __device__ __forceinline__ void load_transposed(float *tile, int tile_rows,
                                                       const float *matrix, int rows, int d,
                                                       float factor, int warp, int warps)
{
    const int BATCH = 4;
    const int lane = threadIdx.x % WARP, step = 4 * warps;
    for (int row0 = 4 * warp + lane / 8; row0 < tile_rows; row0 += BATCH * step) {
        float element[BATCH][D / 8];
#pragma unroll
        for (int b = 0; b < BATCH; b++)
#pragma unroll
            for (int e = 0; e < D / 8; e++) {
                const int row = row0 + b * step, k = 8 * e + lane % 8;
                element[b][e] = row < rows && k < d ? matrix[(size_t)row * d + k] : 0.0f;
            }
#pragma unroll
        for (int b = 0; b < BATCH; b++)
#pragma unroll
            for (int e = 0; e < D / 8; e++) {
                const int row = row0 + b * step, k = 8 * e + lane % 8;
                if (row < tile_rows && k < d)
                    tile[k * (tile_rows + PAD) + row] = factor * element[b][e];
            }
    }
}

#endif
