/* Where a tile of a rung for Hopper is, and the keys that it needs; in plain C. */
#ifndef HOPPER_PLACE_H
#define HOPPER_PLACE_H

#include "pairs.h"
#include "06_causal_half/tile_order.cuh"
#include "06_causal_half/visible.h"

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
