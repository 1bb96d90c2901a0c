/*
 * What the rungs for Hopper choose by sizes and by device: rows of a tile, which rung computes a
 * call, and how many blocks stay. Plain C: the costs follow from it, too.
 */
#ifndef PAIRS_H
#define PAIRS_H

#include "problems/attention.h"
#include "device/device_limits.h"
#include "device/tiles.cuh"

#include <stdbool.h>

/* Keys of a block of them, and queries of a warpgroup and of one of its warps. */
enum { HOPPER_KEYS = 128, WARPGROUP_ROWS = 64, WARP_ROWS = 16 };

/* Blocks of a cluster where these come in pairs. */
enum { PAIR = 2 };

/* Warpgroups that compute, and rows of their tile, where head_dim is rounded up to 64 or to 128:
 * from producer_warp on. */
#define HOPPER_WARPGROUPS(HEAD_DIM) ((HEAD_DIM) == 64 ? 3 : 2)
#define HOPPER_ROWS(HEAD_DIM) (WARPGROUP_ROWS * HOPPER_WARPGROUPS(HEAD_DIM))

/* From persistent on: short causal problems have shorter tiles at a head_dim of up to 64. */
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

/* Blocks that stay: one per multiprocessor, but none without a tile. */
static inline int resident_blocks(int tiles, const struct device_limits *device)
{
    return tiles < device->multiprocessors ? tiles : device->multiprocessors;
}

/* Pairs that stay: one per two multiprocessors, but none without a tile, and one at least. */
static inline int resident_pairs(int tiles_of_pairs, const struct device_limits *device)
{
    const int most = device->multiprocessors / PAIR;
    return tiles_of_pairs < most ? tiles_of_pairs : most > 0 ? most : 1;
}

#endif
