/*
 * What a block has in shared memory: K and V of one tile of keys, and a slab for each of its warps.
 * The tile, and how many warps, by the room that the device has. Plain C: the costs are computed
 * from it, too. flash_v1_wide_tile (09_flash_v1_wide_tile.cu) brings it, the rungs after it keep
 * it.
 */
#ifndef SLABS_CUH
#define SLABS_CUH

#include "04_flash_v1/07_flash_v1.h"
#include "device/tiles.cuh"

#include <stdbool.h>

enum { MAX_WARPS = 8 };

/* Bytes of shared memory that a block may have on every device: sm_75's, later ones allow 99 KB or
 * more. */
enum { SMALLEST_LIMIT = 64 * 1024 };

/* D, which is head_dim rounded up, Bc and TR for a head_dim of 1 .. 32, 33 .. 64, 65 .. 96 and 97
 * .. 128: with the small tiles three warps fit every device, with the large ones MAX_WARPS fit
 * some. */
#define SMALL_TILES(TILE) TILE(32, 64, 4), TILE(64, 64, 4), TILE(96, 32, 4), TILE(128, 32, 4)
#define LARGE_TILES(TILE) TILE(32, 128, 8), TILE(64, 128, 8), TILE(96, 128, 4), TILE(128, 128, 4)

static inline __host__ __device__ int slab_floats(int D, int Bc, int TR)
{
    return (D > Bc ? D : Bc) * (4 * TR + PAD);
}

static inline __host__ __device__ int tile_floats(int D, int Bc)
{
    return D * (Bc + PAD) + Bc * D;
}

struct slabs {
    int size; /* 0 .. 3: which of the four tiles */
    int D, Bc, TR;
    int warps, shared_bytes;
};

/* As many warps as the room is for, up to MAX_WARPS. */
static inline struct slabs slabs_in(bool large, int head_dim, int shared_limit)
{
#define TILE(D, Bc, TR)                                                                            \
    {                                                                                              \
        D, Bc, TR                                                                                  \
    }
    static const struct {
        int D, Bc, TR;
    } tiles[2][4] = {{SMALL_TILES(TILE)}, {LARGE_TILES(TILE)}};
#undef TILE
    struct slabs slabs;
    slabs.size = (head_dim - 1) / 32;
    slabs.D = tiles[large][slabs.size].D;
    slabs.Bc = tiles[large][slabs.size].Bc;
    slabs.TR = tiles[large][slabs.size].TR;
    const int tile_bytes = (int)sizeof(float) * tile_floats(slabs.D, slabs.Bc);
    const int slab_bytes = (int)sizeof(float) * slab_floats(slabs.D, slabs.Bc, slabs.TR);
    const int most = (shared_limit - tile_bytes) / slab_bytes;
    slabs.warps = most < MAX_WARPS ? most : MAX_WARPS;
    slabs.shared_bytes = tile_bytes + slabs.warps * slab_bytes;
    return slabs;
}

/* The large tile where MAX_WARPS with it fit and V and O can be read 16 bytes at a time. */
static inline bool large_slabs_fit(int head_dim, bool aligned, const struct device_limits *device)
{
    return aligned && slabs_in(true, head_dim, device->shared_bytes).warps == MAX_WARPS;
}

#endif
