/* The tiles of the gradients, and which queries a tile of keys meets. */
#ifndef HALF_BACKWARD_PLAN_H
#define HALF_BACKWARD_PLAN_H

#include "device/tiles.cuh"

#include <stdbool.h>

enum { BACKWARD_QUERIES = 64, BACKWARD_KEYS = 64 };

/* Of backward_wgmma. Scores of a tile lie in registers, so wide rows leave room for fewer. */
enum { BACKWARD_WGMMA_KEYS = 128 };
#define BACKWARD_WGMMA_QUERIES(HEAD_DIM) ((HEAD_DIM) <= 64 ? 128 : 64)

/* Which keys of which head, over all batches, a block of backward_wgmma owns. With a mask the first
 * keys are seen by most queries: those blocks come first, and short ones fill the gaps. */
struct key_tile {
    int kv_head, key0;
};

static inline __host__ __device__ struct key_tile key_tile_of(bool causal, int block, int kv_heads,
                                                              int seq_kv)
{
    const int tiles = ceil_div(seq_kv, BACKWARD_WGMMA_KEYS);
    struct key_tile tile;
    tile.kv_head = causal ? block % kv_heads : block / tiles;
    tile.key0 = (causal ? block / kv_heads : block % tiles) * BACKWARD_WGMMA_KEYS;
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
