/* O out of a block through shared memory and the copy engine: what tma_store (14_tma_store.cu)
 * brings and the rungs after it keep. */
#ifndef TMA_STORE_CUH
#define TMA_STORE_CUH

#include "06_causal_half/hopper/hopper_tile.cuh"

/*
 * Starts to store the warp's 16 rows, packed by pack_rows(), through `staging`, [PANELS][16][64],
 * which no other warp uses. The four 8 x 8 matrices of one stmatrix are 16 rows of 8 columns, then
 * the next 8 columns; in a panel the chunk of 8 columns c of row r lies at c ^ (r % 8).
 */
template <int HEAD_DIM, typename T>
static __device__ __forceinline__ void store_by_tma(const CUtensorMap *map, T *staging,
                                                    const uint32_t (&packed)[HEAD_DIM / 4],
                                                    int first_row, int head)
{
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int col = 0; col < HEAD_DIM; col += 16) {
        const T *row = staging + (col / PANEL_COLS * WARP_ROWS + lane % 16) * PANEL_COLS;
        const int chunk = col % PANEL_COLS / 8 + lane / 16;
        stmatrix_x4(shared_address(row) + (chunk ^ lane % 8) * 16, &packed[col / 4]);
    }
    async_proxy_fence(); /* each lane's part becomes visible to the copy engine ... */
    __syncwarp();        /* ... before one lane tells it to read them all */
    if (lane == 0 && first_row >= 0) {
#pragma unroll
        for (int col = 0; col < HEAD_DIM; col += PANEL_COLS)
            tma_store(map, col, first_row, head, shared_address(staging + col * WARP_ROWS));
        tma_store_commit();
    }
}

#endif
