/* The way of O out of a block through shared memory and the copy engine: what tma_store
 * (09_tma_store.cu) brings and persistent keeps. */
#ifndef TMA_STORE_CUH
#define TMA_STORE_CUH

#include "hopper_tile.cuh"

/* Describes O to the copy engine: boxes of a warp's 16 rows. */
static inline cudaError_t describe_output(CUtensorMap *map, const struct attention *call)
{
    return tensor_map_of_halves(map, call->O, (size_t)call->batch * call->heads, call->seq_q,
                                call->head_dim, WARP_ROWS);
}

/*
 * Stores the warp's 16 rows, packed to halves by pack_rows(), through `staging`, [PANELS][16][64],
 * which nobody else uses. The four 8 x 8 matrices of one stmatrix are 16 rows of 8 columns, then
 * the next 8 columns; in a panel the chunk of 8 columns c of row r lies at c ^ (r % 8). Started,
 * not waited for.
 */
template <int HEAD_DIM>
static __device__ __forceinline__ void store_rows_by_tma(const CUtensorMap *map, __half *staging,
                                                         const uint32_t (&packed)[HEAD_DIM / 4],
                                                         int first_row, int head)
{
    const int lane = threadIdx.x % 32;
    if (lane == 0)
        tma_store_wait_read<0>(); /* an earlier store may still be reading the staging place */
    __syncwarp();

#pragma unroll
    for (int col = 0; col < HEAD_DIM; col += 16) {
        const int panel = col / PANEL_COLS, chunk = col % PANEL_COLS / 8 + lane / 16;
        const uint32_t row = shared_address(staging + (panel * WARP_ROWS + lane % 16) * PANEL_COLS);
        stmatrix_x4(row + (chunk ^ lane % 8) * 16, &packed[col / 4]);
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
