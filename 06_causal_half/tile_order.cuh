/*
 * The order in which the tiles of O are computed. They are independent but share two things.
 *
 * The chip: causal tiles near the end of the sequence see the most keys. Started last, one of them
 * would run alone when all others are done; so the longest come first and short ones fill gaps.
 *
 * The L2 cache: all tiles of a head read the same K and V. Heads go in groups whose K and V fit the
 * cache together, and the order "longest first" holds within a group. Full attention has nothing to
 * balance and takes one head at a time. Plain C: a test shows that every tile comes once.
 */
#ifndef TILE_ORDER_CUH
#define TILE_ORDER_CUH

#include "problems/attention.h"
#include "device/tiles.cuh"

#include <stdint.h>

/* All tiles, those of a head, heads over all batches, heads in a group: the last may have fewer. */
struct tile_order {
    int tiles, row_tiles, heads, group;
};

/* Where a tile is: the head over all batches, and its first row. */
struct tile_place {
    int head, row0;
};

/* For a call that has tiles: attention_run() launches nothing for others. */
static inline struct tile_order tile_order_of(const struct attention *shape, int Br)
{
    /* Short sequences start many tiles at once and want a group's K and V before they arrive. */
    const long long cached_bytes = shape->seq_kv <= 512 ? 8 << 20 : 32 << 20;
    const long long head_bytes = 2LL * sizeof(uint16_t) * shape->seq_kv * shape->head_dim;
    const long long kv_heads = head_bytes > 0 ? cached_bytes / head_bytes : 1;
    const long long group = kv_heads * (shape->heads / shape->kv_heads);

    struct tile_order order;
    order.heads = shape->batch * shape->heads;
    order.row_tiles = ceil_div(shape->seq_q, Br);
    order.tiles = order.heads * order.row_tiles;
    order.group = !shape->causal || kv_heads < 2 ? 1 : group < order.heads ? group : order.heads;
    return order;
}

static inline __host__ __device__ struct tile_place tile_place_of(const struct tile_order order,
                                                                  int tile, int Br)
{
    const int first_head = tile / (order.row_tiles * order.group) * order.group;
    const int in_group = tile - first_head * order.row_tiles;
    const int left = order.heads - first_head;
    const int heads = left < order.group ? left : order.group;
    struct tile_place place;
    place.head = first_head + in_group % heads;
    place.row0 = (order.row_tiles - 1 - in_group / heads) * Br;
    return place;
}

/* Blocks that stay: one per multiprocessor, but none without a tile. */
static inline int resident_blocks(int tiles, const struct device_limits *device)
{
    return tiles < device->multiprocessors ? tiles : device->multiprocessors;
}

#endif
