/*
 * The tiles of the kernels whose threads own rectangles: a block of 4 warps owns Bc keys and takes
 * Br queries at a time. A warp has Br / 4 rows of S and of dQ, and Bc / 4 rows of dK and dV.
 */
#ifndef BACKWARD_TILES_H
#define BACKWARD_TILES_H

#include "device/tiles.cuh"
#include "problems/attention_backward.h"

#include <stdbool.h>

/* Br, Bc and D, which is head_dim rounded up, for a head_dim of 1 .. 32, 33 .. 64, 65 .. 96 and 97
 * .. 128: those that fit the 64 KB that a block has on every device, and larger ones. */
#define SMALL_BACKWARD_TILES(TILE)                                                                 \
    TILE(32, 32, 32), TILE(32, 32, 64), TILE(16, 32, 96), TILE(16, 32, 128)
#define LARGE_BACKWARD_TILES(TILE)                                                                 \
    TILE(64, 64, 32), TILE(64, 64, 64), TILE(64, 32, 96), TILE(64, 32, 128)

/* Neighbouring rows of Q, dO, K and V begin 4 banks apart, those of P and dS 8: eight lanes that
 * read 16 bytes of eight rows, or four that store to four, meet no bank twice. */
enum { BACKWARD_WARPS = 4, ROW_PAD = 4, SCORE_PAD = 8 };

struct backward_tile {
    int size; /* 0 .. 3: which of the four */
    int Br, Bc, D;
    int shared_bytes; /* of Q, dO, K, V, P, dS, LSE and D */
};

static inline struct backward_tile backward_tile_of(bool large, int head_dim)
{
#define TILE(Br, Bc, D)                                                                            \
    {                                                                                              \
        Br, Bc, D                                                                                  \
    }
    static const struct {
        int Br, Bc, D;
    } tiles[2][4] = {{SMALL_BACKWARD_TILES(TILE)}, {LARGE_BACKWARD_TILES(TILE)}};
#undef TILE
    struct backward_tile tile;
    tile.size = (head_dim - 1) / 32;
    tile.Br = tiles[large][tile.size].Br;
    tile.Bc = tiles[large][tile.size].Bc;
    tile.D = tiles[large][tile.size].D;
    tile.shared_bytes = (int)sizeof(float) * (2 * (tile.Br + tile.Bc) * (tile.D + ROW_PAD) +
                                              2 * tile.Br * (tile.Bc + SCORE_PAD) + 2 * tile.Br);
    return tile;
}

/* The large tile where a block of the device may have the shared memory for it. */
static inline bool large_backward_tile_fits(int head_dim, const struct device_limits *device)
{
    return backward_tile_of(true, head_dim).shared_bytes <= device->shared_bytes;
}

/* A block per tile of keys. */
static inline int backward_tile_blocks(const struct attention_backward *call, int Bc)
{
    return call->batch * call->kv_heads * ceil_div(call->seq_kv, Bc);
}

#endif
