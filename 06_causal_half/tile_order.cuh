/*
 * In which order the tiles of O are computed. They do not depend on each other, but they share two
 * things.
 *
 * The chip: causal tiles near the end of the sequence see the most keys. Started last, one of them
 * would run alone while everyone else is done; so the longest come first and short ones fill the
 * gaps.
 *
 * The L2 cache: all tiles of a head read the same K and V. Heads go in groups whose K and V fit the
 * cache together, and the order "longest first" holds within a group. Full attention has nothing to
 * balance and takes one head at a time.
 */
#ifndef TILE_ORDER_CUH
#define TILE_ORDER_CUH

#include "attention.h"
#include "tiles.cuh"

struct tile_order {
    int tiles;     /* all of them */
    int row_tiles; /* of one head */
    int heads;     /* over all batches */
    int group;     /* heads in a group; the last group may have fewer */
};

/* Where a tile is. */
struct tile_place {
    int head; /* over all batches */
    int row0;
};

static inline struct tile_order tile_order_of(const struct attention *shape, int Br)
{
    /* Short sequences start many tiles at once and want a group's K and V while they are still on
     * their way in. */
    const size_t cached_bytes = shape->seq_kv <= 512 ? (size_t)8 << 20 : (size_t)32 << 20;
    const size_t head_bytes = (size_t)2 * sizeof(uint16_t) * shape->seq_kv * shape->head_dim;
    const size_t kv_heads = head_bytes == 0 ? 1 : cached_bytes / head_bytes;

    struct tile_order order;
    order.heads = shape->batch * shape->heads;
    order.row_tiles = ceil_div(shape->seq_q, Br);
    order.tiles = order.heads * order.row_tiles;
    order.group = 1;
    if (shape->causal && kv_heads > 1) {
        const size_t group = kv_heads * (shape->heads / shape->kv_heads);
        order.group = group < (size_t)order.heads ? (int)group : order.heads;
    }
    return order;
}

static __device__ __forceinline__ struct tile_place tile_place_of(const struct tile_order &order,
                                                                  int tile, int Br)
{
    const int first_head = tile / (order.row_tiles * order.group) * order.group;
    const int in_group = tile - first_head * order.row_tiles;
    const int heads = min(order.group, order.heads - first_head);
    struct tile_place place;
    place.head = first_head + in_group % heads;
    place.row0 = (order.row_tiles - 1 - in_group / heads) * Br;
    return place;
}

#endif
