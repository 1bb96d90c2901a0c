/* A tile that the producer announces in shared memory: what drawn (17_drawn.cu) brings and the
 * rungs after it keep. */
#ifndef ANNOUNCED_TILE_CUH
#define ANNOUNCED_TILE_CUH

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

#endif
