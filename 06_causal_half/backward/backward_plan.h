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

/* Of backward_persistent, where sequences are so long that it pays: with a mask later, since more
 * of a tall tile's scores lie beyond it. */
enum { BACKWARD_TALL_QUERIES = 80, BACKWARD_TALL_FROM = 4096, BACKWARD_TALL_FROM_CAUSAL = 8192 };

static inline bool backward_has_tall_tiles(const struct attention_backward *call)
{
    const int from = call->causal ? BACKWARD_TALL_FROM_CAUSAL : BACKWARD_TALL_FROM;
    return call->head_dim > 64 && call->seq_q >= from;
}

static inline int backward_persistent_queries(const struct attention_backward *call)
{
    return backward_has_tall_tiles(call) ? BACKWARD_TALL_QUERIES
                                         : BACKWARD_WGMMA_QUERIES(call->head_dim);
}

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

/* Returns how many tiles of Br queries all heads have, over all batches. */
static inline size_t query_tiles(const struct attention_backward *call, int Br)
{
    return (size_t)call->batch * call->heads * ceil_div(call->seq_q, Br);
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

/* How many tiles of Bc keys, from the first on, the tile of Br queries at row0 is in. */
static inline __host__ __device__ int backward_key_tiles(bool causal, int row0, int seq_q,
                                                         int seq_kv, int Br, int Bc)
{
    const int after = seq_q - row0 - Br; /* queries behind the tile; its last sees so many less */
    const int hidden = causal && after > 0 ? after : 0;
    return hidden < seq_kv ? ceil_div(seq_kv - hidden, Bc) : 0;
}

/* ---- backward_in_order ---- */

/* Blocks under way at once, about as many as an H100 has multiprocessors; and of how many heads. */
enum { BACKWARD_BLOCKS_AT_ONCE = 128, BACKWARD_HEADS_AT_ONCE = 16, BACKWARD_HEADS_AT_LEAST = 4 };

/* As many heads at once as have these blocks together, for what few read and add to fits L2; but
 * not so few that too many blocks of one head wait for one another. At HEAD_DIM 64, where tiles of
 * queries are as long as those of keys, a block with a mask is only one tile ahead of the next:
 * there always 16. */
static inline struct tile_order in_order_of(const struct attention_backward *call, int Bc)
{
    struct tile_order order = key_order_of(call, Bc);
    const int most = BACKWARD_HEADS_AT_ONCE;
    const int least = call->head_dim <= 64 ? most : BACKWARD_HEADS_AT_LEAST;
    const int fill = BACKWARD_BLOCKS_AT_ONCE / order.row_tiles;
    const int heads = fill < least ? least : fill < most ? fill : most;
    order.group = order.heads < heads ? order.heads : heads;
    return order;
}

/* How many tiles of keys of one head are under way at once. */
static inline __host__ __device__ int run_of(const struct tile_order order)
{
    return ceil_div(BACKWARD_BLOCKS_AT_ONCE, order.group);
}

/* A head's tiles of keys come in runs of as many as are under way at once, the runs in their order,
 * each from its last tile to its first. Returns the place of a tile among the first `count`; and,
 * given a place, the tile that is there. */
static inline __host__ __device__ int place_in_runs(const struct tile_order order, int tile,
                                                    int count)
{
    const int first = tile / run_of(order) * run_of(order);
    const int last = first + run_of(order) < count ? first + run_of(order) - 1 : count - 1;
    return first + last - tile;
}

/* What the block with this ticket owns. With a mask the first runs of all heads come before the
 * second ones, so that between two runs of a head those of the others let its turns pass; without,
 * where hardly anybody waits, all of a group's, so that L2 keeps what they read and add to. Within
 * a run, tickets go round all heads of a group. */
static inline __host__ __device__ struct key_tile key_tile_in_runs(const struct tile_order order,
                                                                   bool causal, int ticket, int Bc)
{
    const bool whole = !causal || order.row_tiles < run_of(order);
    const int most = whole ? order.row_tiles : run_of(order);
    const int before = ticket / (order.heads * most) * most, left = order.row_tiles - before;
    struct tile_order run = order;
    run.row_tiles = left < most ? left : most;
    run.tiles = run.heads * run.row_tiles;
    struct key_tile tile = key_tile_of(run, ticket - before * order.heads, Bc);
    tile.key0 = place_in_runs(order, before + tile.key0 / Bc, order.row_tiles) * Bc;
    return tile;
}

/* ---- backward_fused ---- */

/* Of how many heads of keys dQ has a place in the workspace. A head waits until the one that is so
 * many before it has left its place. So they are a group apart at least: then no tile of that one
 * comes behind a tile of this one. The blocks are at work at a group, or at as many heads as have
 * so many tiles, and some at the next; twice as many again may be on their way out. */
static inline int places_of(const struct tile_order order, int blocks)
{
    const long long at_work = (long long)order.group + ceil_div(blocks, order.row_tiles);
    return 3 * at_work < order.heads ? (int)(3 * at_work) : order.heads;
}

/* What a keeper draws: to make a piece's share of a head's D, or to store its part of dQ. */
struct job {
    bool makes_D;
    int kv_head, piece;
};

/*
 * The job of this number; behind the last one a head that does not exist. First come the heads that
 * are the first at their places, whose D is made; then for each head that has another behind it at
 * its place that one's D and its own dQ; then dQ of those that have none. So all jobs that a head
 * waits for come before every job that waits for it, or for a later one. Short sequences of many
 * heads have more jobs than an int counts.
 */
static inline __host__ __device__ struct job job_of(unsigned long long number, int pieces,
                                                    int heads, int places)
{
    /* 32 bits, which suffice for most calls, are divided by fewer instructions */
    const long long of_all =
        (long long)(number <= UINT32_MAX ? (uint32_t)number / (uint32_t)pieces : number / pieces);
    const long long followed = heads - places;
    struct job job = {of_all < places, (int)of_all, (int)(number - of_all * pieces)};
    if (of_all >= places + 2 * followed) {
        job.kv_head = (int)(of_all - places - followed);
    } else if (of_all >= places) {
        const long long step = of_all - places;
        job.makes_D = step % 2 == 0;
        job.kv_head = (int)(step / 2) + (job.makes_D ? places : 0);
    }
    return job;
}

#endif
