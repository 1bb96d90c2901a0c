/*
 * The tiles of the kernels whose threads own rectangles of S and of O: a block of 4 warps takes Br
 * = 16·TR queries and Bc = 8·TC keys at a time, a thread TR x TC scores.
 */
#ifndef QUERY_TILES_H
#define QUERY_TILES_H

#include "problems/attention.h"
#include "device/tiles.cuh"

#include <stdbool.h>

/* TR, TC and D, which is head_dim rounded up, for a head_dim of 1 .. 32, 33 .. 64, 65 .. 96 and 97
 * .. 128: those that fit the 64 KB that a block has on every device, and larger ones. */
#define SMALL_TILES(TILE) TILE(4, 4, 32), TILE(4, 4, 64), TILE(4, 4, 96), TILE(2, 4, 128)
#define LARGE_TILES(TILE) TILE(8, 8, 32), TILE(8, 8, 64), TILE(4, 8, 96), TILE(4, 4, 128)

enum { WARPS = 4 };

/*
 * Rows of the transposed tiles are padded so that lanes that store side by side meet different
 * banks: 4 floats for 8 lanes along head_dim and 4 across (Q, K), 8 floats for lanes that store
 * runs of four (P).
 */
enum { PAD = 4, P_PAD = 8 };

/* P of a warp's 4·TR rows. */
static inline __host__ __device__ int slab_floats(int TR, int TC)
{
    return 8 * TC * (4 * TR + P_PAD);
}

struct query_tile {
    int size; /* 0 .. 3: which of the four */
    int Br, Bc, D;
    int shared_bytes;
};

static inline struct query_tile query_tile_of(bool large, int head_dim)
{
#define TILE(TR, TC, D)                                                                            \
    {                                                                                              \
        TR, TC, D                                                                                  \
    }
    static const struct {
        int TR, TC, D;
    } tiles[2][4] = {{SMALL_TILES(TILE)}, {LARGE_TILES(TILE)}};
#undef TILE
    struct query_tile tile;
    tile.size = (head_dim - 1) / 32;
    const int TR = tiles[large][tile.size].TR, TC = tiles[large][tile.size].TC;
    tile.D = tiles[large][tile.size].D;
    tile.Br = 16 * TR;
    tile.Bc = 8 * TC;
    tile.shared_bytes = (int)sizeof(float) * (tile.D * (tile.Br + PAD) + tile.D * (tile.Bc + PAD) +
                                              tile.Bc * tile.D + WARPS * slab_floats(TR, TC));
    return tile;
}

/* The large tile where a block of the device may have the shared memory for it. */
static inline bool large_tile_fits(int head_dim, const struct device_limits *device)
{
    return query_tile_of(true, head_dim).shared_bytes <= device->shared_bytes;
}

/* A block per tile of a head. */
static inline int query_tile_blocks(const struct attention *call, int Br)
{
    return call->batch * call->heads * ceil_div(call->seq_q, Br);
}

#endif
