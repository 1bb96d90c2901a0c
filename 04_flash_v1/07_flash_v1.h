/* What kernels that pass over the keys tile by tile need and cost, as FlashAttention-1 does. Plain
 * C. */
#ifndef FLASH_V1_H
#define FLASH_V1_H

#include "device/tiles.cuh"
#include "problems/attention.h"

/* Pads rows of transposed tiles: 8 lanes along k and 4 across store to 32 different banks. */
enum { PAD = 4 };

/* l and m of each query. */
static inline size_t statistics_workspace(const struct attention *call)
{
    return attention_query_rows(call) * 2 * sizeof(float);
}

/* A cost of which every access is to one float. */
static inline struct cost floats(long long loaded, long long stored)
{
    const long long size = sizeof(float);
    const struct cost cost = {loaded, stored, size * loaded, size * stored};
    return cost;
}

/*
 * K and V once per head. Per tile of Bc keys Q is loaded, and O, l and m are loaded and stored; all
 * of it is stored once at the beginning, and LSE at the beginning and at the end. V and O are moved
 * `width` floats at a time. With `known_start` nothing is stored at the beginning, if there are
 * keys, and O, l and m are not loaded for the first tile.
 */
static inline struct cost tiles_of_keys_cost(const struct attention *call, int Bc, int width,
                                             bool known_start)
{
    const long long heads = (long long)call->batch * call->heads, d = call->head_dim;
    const long long queries = heads * call->seq_q, keys = heads * call->seq_kv;
    const long long passes = ceil_div(call->seq_kv, Bc), last = call->seq_kv > 0;
    const bool known = known_start && passes > 0;
    const long long loading = passes - known, stores_once = queries * (last + (known ? 0 : d + 3));
    struct cost cost = floats(2 * keys * d + queries * (passes * d + loading * (d + 2)),
                              stores_once + passes * queries * (d + 2));
    cost.loads = keys * (d + d / width) + queries * (passes * d + loading * (d / width + 2));
    cost.stores = stores_once + passes * queries * (d / width + 2);
    return cost;
}

#endif
