/*
 * A tile's way through a block that computes several: the producer announces it in shared memory,
 * and a warp's rows leave through shared memory and the copy engine. tma_store brings the last, for
 * a block of one tile.
 */
#ifndef PERSISTENT_TILE_CUH
#define PERSISTENT_TILE_CUH

#include "06_causal_half/hopper/hopper_tile.cuh"

/* What the producer wrote, but for kv_head. Lane 0 reads it: the same lane will arrive at Q_empty,
 * so it reads before the producer writes again. The shuffles pass the values on, and tell the
 * compiler that all lanes have the same. */
static __device__ __forceinline__ struct hopper_tile
announced_tile(const struct hopper_tile *shared)
{
    struct hopper_tile tile = {0, 0, 0, 0, 0};
    if (threadIdx.x % WARP == 0)
        tile = *shared;
    tile.head = __shfl_sync(FULL_MASK, tile.head, 0);
    tile.row0 = __shfl_sync(FULL_MASK, tile.row0, 0);
    tile.blocks = __shfl_sync(FULL_MASK, tile.blocks, 0);
    tile.unmasked = __shfl_sync(FULL_MASK, tile.unmasked, 0);
    return tile;
}

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

/* `staging` is the warp's. */
template <class Config>
static __device__ __forceinline__ void
store_tile(const struct hopper_problem &problem, const CUtensorMap *map,
           typename Config::T *staging, const struct hopper_tile &tile,
           float (&O)[Config::HEAD_DIM / 2], const float (&m)[2], const float (&l)[2])
{
    const int seq_q = problem.call.seq_q;
    const int warp_row = tile.row0 + threadIdx.x / WARP * WARP_ROWS;
    const size_t first = (size_t)tile.head * seq_q; /* the head's first row */
    float *LSE = problem.call.LSE == NULL ? NULL : problem.call.LSE + first;
    finish_rows(O, m, l, LSE, warp_row, seq_q, problem.scale_log2);
    uint32_t packed[Config::HEAD_DIM / 4];
    pack_rows<typename Config::T>(packed, O);
    if (threadIdx.x % WARP == 0)
        tma_store_wait_read<0>(); /* the tile before may still be read from the staging place */
    __syncwarp();
    store_by_tma<Config::HEAD_DIM>(map, staging, packed, warp_row, tile.head);
}

#endif
