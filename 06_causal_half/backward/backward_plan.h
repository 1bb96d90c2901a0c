/* The tiles of the gradients, and which queries a tile of keys meets. */
#ifndef HALF_BACKWARD_PLAN_H
#define HALF_BACKWARD_PLAN_H

#include "06_causal_half/tile_order.cuh"
#include "problems/attention_backward.h"

#include <stdbool.h>

enum { BACKWARD_QUERIES = 64, BACKWARD_KEYS = 64 };

/* What a block of a later rung owns. */
enum { BACKWARD_BLOCK_KEYS = 128 };

/* Of backward_mma_async: tiles of queries and keys, and small ones; K and V, two places for Q, dO,
 * LSE and D, and for dS one for each 64 features, as bytes. */
#define BACKWARD_ASYNC_QUERIES(SMALL) ((SMALL) ? BACKWARD_QUERIES / 2 : BACKWARD_QUERIES)
#define BACKWARD_ASYNC_KEYS(SMALL) ((SMALL) ? BACKWARD_BLOCK_KEYS / 2 : BACKWARD_BLOCK_KEYS)
#define BACKWARD_ASYNC_BYTES(SMALL, HEAD_DIM)                                                      \
    (4 * BACKWARD_ASYNC_KEYS(SMALL) * (HEAD_DIM) +                                                 \
     8 * BACKWARD_ASYNC_QUERIES(SMALL) * ((HEAD_DIM) + 2) +                                        \
     2 * BACKWARD_ASYNC_KEYS(SMALL) * (HEAD_DIM))

/* Where a block has no room for large ones: at wide rows on an sm_86 or sm_89. */
static inline bool small_async_tiles(int head_dim, const struct device_limits *device)
{
    return BACKWARD_ASYNC_BYTES(false, head_dim <= 64 ? 64 : 128) > device->shared_bytes;
}

/* Of backward_wgmma. Scores of a tile lie in registers, so wide rows leave room for fewer. */
#define BACKWARD_WGMMA_QUERIES(HEAD_DIM) ((HEAD_DIM) <= 64 ? 128 : 64)

/* The order in which the blocks take tiles of Bc keys: as that of tiles of queries, but the first
 * keys are seen by most queries, so with a mask they come first; and what a head's blocks share in
 * L2 are Q, dO and the floats of dQ, of all the queries that meet its keys. */
static inline struct tile_order key_order_of(const struct attention_backward *call, int Bc)
{
    const long long CACHED_BYTES = 16 << 20;
    const long long queries = (long long)(call->heads / call->kv_heads) * call->seq_q;
    const long long head_bytes = queries * call->head_dim * (2 * sizeof(uint16_t) + sizeof(float));
    const long long fit = head_bytes > 0 ? CACHED_BYTES / head_bytes : 1;
    struct tile_order order;
    order.heads = call->batch * call->kv_heads;
    order.row_tiles = ceil_div(call->seq_kv, Bc);
    order.tiles = order.heads * order.row_tiles;
    order.group = !call->causal || fit < 2 ? 1 : fit < order.heads ? (int)fit : order.heads;
    return order;
}

/* Which keys of which key/value head, over all batches, a block owns. */
struct key_tile {
    int kv_head, key0;
};

static inline __host__ __device__ struct key_tile key_tile_of(const struct tile_order order,
                                                              int block, int Bc)
{
    const struct tile_place place = tile_place_of(order, block, Bc);
    struct key_tile tile;
    tile.kv_head = place.head;
    tile.key0 = (order.row_tiles - 1) * Bc - place.row0;
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
