/*
 * What the rungs for Hopper choose by sizes and by device: rows of a tile, where it is and which
 * keys it needs, which rung computes a call, and how many blocks stay. Plain C: the costs follow
 * from it, too.
 */
#ifndef HOPPER_PLAN_H
#define HOPPER_PLAN_H

#include "problems/attention.h"
#include "device/tiles.cuh"
#include "06_causal_half/tile_order.cuh"
#include "06_causal_half/visible.h"

#include <stdbool.h>

/* Keys of a block of them, and queries of a warpgroup and of one of its warps. */
enum { HOPPER_KEYS = 128, WARPGROUP_ROWS = 64, WARP_ROWS = 16 };

/* Blocks of a cluster where these come in pairs. */
enum { PAIR = 2 };

/* Warpgroups that compute, and rows of their tile, where head_dim is rounded up to 64 or to 128:
 * from producer_warp on. */
#define HOPPER_WARPGROUPS(HEAD_DIM) ((HEAD_DIM) == 64 ? 3 : 2)
#define HOPPER_ROWS(HEAD_DIM) (WARPGROUP_ROWS * HOPPER_WARPGROUPS(HEAD_DIM))

/* From across_tiles on: short causal problems have shorter tiles at a head_dim of up to 64. */
static inline int persistent_warpgroups(const struct attention *call)
{
    const int SHORT = 512; /* keys, measured */
    const bool is_short = call->causal && call->seq_kv <= SHORT;
    return HOPPER_WARPGROUPS(call->head_dim <= 64 && !is_short ? 64 : 128);
}

/* A head's tiles are whole pairs. */
static inline bool pairs_fit(const struct attention *call)
{
    return call->head_dim > 64 && ceil_div(call->seq_q, HOPPER_ROWS(128)) % PAIR == 0;
}

/* Where multicast has pairs of blocks. */
static inline bool pairs_pay(const struct attention *call)
{
    return pairs_fit(call) && !call->causal && call->seq_kv > 512; /* measured */
}

/* Where drawn_pairs and folded have more of them. */
static inline bool causal_pairs_pay(const struct attention *call)
{
    return pairs_fit(call) && call->causal && call->seq_kv > 1024; /* measured */
}

/* Pairs that stay: one per two multiprocessors, but none without a tile, and one at least. */
static inline int resident_pairs(int tiles_of_pairs, const struct device_limits *device)
{
    const int most = device->multiprocessors / PAIR;
    return tiles_of_pairs < most ? tiles_of_pairs : most > 0 ? most : 1;
}

/*
 * One tile of O and the key blocks that it needs. Where seq_q is not a multiple of Br, the first
 * tile of a head begins before the sequence: later causal tiles see more keys, so rows that do not
 * exist cost least in the first. A stored box may end behind the array, but not begin before it.
 * So the first tile begins whole warps of 16 rows early, and these warps store nothing; up to 15
 * rows that do not exist are left at the end of the last tile.
 */
struct hopper_tile {
    int head, kv_head; /* over all batches */
    int row0;          /* may be negative */
    /* key blocks that some query sees, at least one: masked keys alone give O = 0 */
    int blocks;
    int unmasked; /* the first so many of them need no mask */
};

static inline __host__ __device__ struct hopper_tile hopper_tile_at(const struct tile_order *order,
                                                                    const struct attention *call,
                                                                    int tile, int Br, bool causal)
{
    const struct tile_place place = tile_place_of(*order, tile, Br);
    const int seq_q = call->seq_q, seq_kv = call->seq_kv;
    struct hopper_tile result;
    result.head = place.head;
    /* Without keys the block is loaded from the head past the last: zeros. */
    result.kv_head = seq_kv > 0 ? place.head / (call->heads / call->kv_heads) : 1;
    result.row0 = place.row0 - (order->row_tiles * Br - seq_q) / WARP_ROWS * WARP_ROWS;
    const int seen = keys_seen(causal, result.row0 + Br - 1, seq_q, seq_kv);
    result.blocks = seen > 0 ? ceil_div(seen, HOPPER_KEYS) : 1;
    const int first = result.row0 > 0 ? result.row0 : 0;
    result.unmasked = keys_seen(causal, first, seq_q, seq_kv) / HOPPER_KEYS;
    return result;
}

#endif
