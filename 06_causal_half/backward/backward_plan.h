/* The tiles of the gradients, and which queries a tile of keys meets. */
#ifndef HALF_BACKWARD_PLAN_H
#define HALF_BACKWARD_PLAN_H

#include "device/tiles.cuh"

#include <stdbool.h>

enum { BACKWARD_QUERIES = 64, BACKWARD_KEYS = 64 };

/* What a block of a later rung owns. */
enum { BACKWARD_BLOCK_KEYS = 128 };

/* Of backward_mma_async: tiles of queries and keys, and small ones; K and V, two places for Q, dO,
 * LSE and D, and dS, as bytes. */
#define BACKWARD_ASYNC_QUERIES(SMALL) ((SMALL) ? BACKWARD_QUERIES / 2 : BACKWARD_QUERIES)
#define BACKWARD_ASYNC_KEYS(SMALL) ((SMALL) ? BACKWARD_BLOCK_KEYS / 2 : BACKWARD_BLOCK_KEYS)
#define BACKWARD_ASYNC_BYTES(SMALL, HEAD_DIM)                                                      \
    (4 * BACKWARD_ASYNC_KEYS(SMALL) * (HEAD_DIM) +                                                 \
     8 * BACKWARD_ASYNC_QUERIES(SMALL) * ((HEAD_DIM) + 2) + 128 * BACKWARD_ASYNC_KEYS(SMALL))

/* Where a block has no room for large ones: at wide rows on an sm_86 or sm_89. */
static inline bool small_async_tiles(int head_dim, const struct device_limits *device)
{
    return BACKWARD_ASYNC_BYTES(false, head_dim <= 64 ? 64 : 128) > device->shared_bytes;
}

/* Of backward_wgmma. Scores of a tile lie in registers, so wide rows leave room for fewer. */
#define BACKWARD_WGMMA_QUERIES(HEAD_DIM) ((HEAD_DIM) <= 64 ? 128 : 64)

/* Which keys of which head, over all batches, a block of tiles of Bc keys owns. With a mask the
 * first keys are seen by most queries: those blocks come first, and short ones fill the gaps. */
struct key_tile {
    int kv_head, key0;
};

static inline __host__ __device__ struct key_tile key_tile_of(bool causal, int block, int kv_heads,
                                                              int seq_kv, int Bc)
{
    const int tiles = ceil_div(seq_kv, Bc);
    struct key_tile tile;
    tile.kv_head = causal ? block % kv_heads : block / tiles;
    tile.key0 = (causal ? block / kv_heads : block % tiles) * Bc;
    return tile;
}

/* The tiles of Br queries begin here for a tile of keys that begins at key0: queries before do not
 * see it. */
static inline __host__ __device__ int backward_first_query(bool causal, int key0, int seq_q,
                                                           int seq_kv, int Br)
{
    const int sees = causal ? key0 - seq_kv + seq_q : 0; /* the first that sees key0 */
    return sees > 0 ? sees / Br * Br : 0;
}

#endif
