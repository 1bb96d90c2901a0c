/* How the kernels of this ladder cut the work, in plain C: rows that see the same keys, and runs of
 * these keys. */
#ifndef DECODE_PLAN_H
#define DECODE_PLAN_H

#include "problems/attention.h"
#include "device/tiles.cuh"
#include "06_causal_half/visible.h"

#include <limits.h>

enum {
    DECODE_KEYS = 64, /* keys of a tile; a run is whole tiles, but for its sequence's last */
    DECODE_SPLIT_THREADS = 128,
    DECODE_WARPS = 4, /* of a block; each has 16 rows */
    DECODE_RING_WARPS = 8,
    /* Blocks that share a multiprocessor of an H100, by their registers and shared memory. Where
     * fewer find room, as on an A100, the others come behind them. */
    DECODE_SPLIT_RESIDENT = 8,
    DECODE_PACKED_RESIDENT = 2,
    DECODE_ASYNC_RESIDENT = 2,
    DECODE_BALANCED_RESIDENT = 2,
    DECODE_RING_RESIDENT = 1,
    DECODE_RING_CLUSTER = 8
};

/*
 * The query heads that share a kv head are neighbours in memory, so their queries are one list of
 * head_rows = heads / kv_heads · seq_q rows that see the same keys. A block has a tile of that list
 * and a run of the keys. Lengths are known to the device alone: runs are cut for seq_kv.
 */
struct decode_plan {
    int head_rows, tile_rows;
    int row_tiles;      /* of a kv head */
    int runs, run_keys; /* the last run may have fewer */
    int blocks;
};

/* What a block computes. */
struct decode_part {
    int kv_head; /* over all batches */
    int row0;    /* counted inside the list */
    int run, first_key;
};

/* Returns the rows of a block, for the fewest products: 16 rows are one tile of an mma. */
static inline int decode_tile_rows(const struct attention *call)
{
    const long long head_rows = (long long)(call->heads / call->kv_heads) * call->seq_q;
    return head_rows <= 16 ? 16 : head_rows <= 32 ? 32 : 64;
}

/*
 * For a call that attention_run() takes and whose O is not empty. `resident` blocks share a
 * multiprocessor. Blocks come in waves of as many as are resident; a wave takes as long as its
 * longest run, and a start, in units of a tile of keys. More runs than one need a merge.
 */
static inline struct decode_plan decode_plan_of(const struct attention *call, int tile_rows,
                                                int resident, const struct device_limits *device)
{
    const int START = 2, MERGE = 3; /* tiles that pass in that time */
    struct decode_plan plan = {0, 0, 0, 0, 0, 0};
    plan.head_rows = call->heads / call->kv_heads * call->seq_q;
    plan.tile_rows = tile_rows;
    plan.row_tiles = ceil_div(plan.head_rows, tile_rows);
    const long long tiles = (long long)call->batch * call->kv_heads * plan.row_tiles;
    const long long slots = (long long)device->multiprocessors * resident;
    const int key_tiles = call->seq_kv > 0 ? ceil_div(call->seq_kv, DECODE_KEYS) : 1;
    const long long most = 2 * slots / tiles;
    long long least_time = LLONG_MAX;
    for (long long wanted = 1; wanted == 1 || (wanted <= most && wanted <= key_tiles); wanted++) {
        const int run_tiles = ceil_div(key_tiles, (int)wanted);
        const int runs = ceil_div(key_tiles, run_tiles);
        const long long waves = (tiles * runs + slots - 1) / slots;
        const long long time = waves * (run_tiles + START) + (runs > 1 ? MERGE : 0);
        if (time < least_time) {
            least_time = time;
            plan.runs = runs;
            plan.run_keys = run_tiles * DECODE_KEYS;
            plan.blocks = (int)(tiles * runs);
        }
    }
    return plan;
}

/* Tiles of rows with the same run of keys are neighbours: all but the first find it in L2. */
static inline __host__ __device__ struct decode_part decode_part_of(struct decode_plan plan,
                                                                    int block)
{
    struct decode_part part;
    part.kv_head = block / plan.row_tiles / plan.runs;
    part.run = block / plan.row_tiles % plan.runs;
    part.row0 = block % plan.row_tiles * plan.tile_rows;
    part.first_key = part.run * plan.run_keys;
    return part;
}

/* Where a block's keys end, if its rows see the first `seen`: behind the last one, or not behind
 * first_key. Whole tiles may end past what an int counts, so first_key + run_keys would not do. */
static inline __host__ __device__ int decode_end_of(struct decode_plan plan,
                                                    struct decode_part part, int seen)
{
    const int left = seen - part.first_key;
    return part.first_key + (left < plan.run_keys ? left : plan.run_keys);
}

/* How many keys the rows row0 .. row0 + count - 1 of the list see, the one that sees most. */
static inline __host__ __device__ int decode_seen_by_any(struct attention shape, int row0,
                                                         int count, int keys)
{
    const int last = row0 + count - 1, seq_q = shape.seq_q;
    if (!shape.causal)
        return keys; /* a kernel begins with this: no divisions for nothing */
    const bool wraps = row0 / seq_q != last / seq_q; /* so the last query of a head is among them */
    return keys_seen(shape.causal, wraps ? seq_q - 1 : last % seq_q, seq_q, keys);
}

/* And the one that sees fewest. */
static inline __host__ __device__ int decode_seen_by_all(struct attention shape, int row0,
                                                         int count, int keys)
{
    const int last = row0 + count - 1, seq_q = shape.seq_q;
    const bool wraps = row0 / seq_q != last / seq_q;
    return keys_seen(shape.causal, wraps ? 0 : row0 % seq_q, seq_q, keys);
}

/* A run's result for a row is O, not divided by l, then m and l: floats. */
static inline size_t decode_workspace_of(const struct attention *call,
                                         const struct decode_plan *plan)
{
    return plan->runs > 1 ? (size_t)plan->runs * attention_query_rows(call) *
                                ((size_t)call->head_dim + 2) * sizeof(float)
                          : 0;
}

/*
 * decode_balanced: the device knows the lengths, so it cuts the work itself. An item is a tile of
 * rows of a kv head; it has as many units as its sequence has tiles of keys. The units of all items
 * stand in one line, sequence by sequence, and each block takes an equal share of that line.
 */
struct balanced_plan {
    int head_rows, tile_rows;
    int row_tiles; /* of a kv head: that many items */
    int items;     /* of a sequence */
    int blocks;
    int warps;       /* of a block, that store rows */
    int cluster;     /* blocks that share an item and merge it among them; 1: none do */
    int extra;       /* units that an item costs besides its own, before them; only with lengths */
    long long share; /* of a block, where all sequences are as long; 0: the lengths say it */
};

static const long long LEAST_SHARE = 2; /* units that are worth a block */

/* A sequence without keys has one unit: its rows must be stored all the same. */
static inline __host__ __device__ int balanced_units(int keys)
{
    return keys > 0 ? (keys - 1) / DECODE_KEYS + 1 : 1;
}

/* Returns how many of so many units a block takes. The last blocks may have fewer, or none. */
static inline __host__ __device__ long long balanced_share(long long units, int blocks)
{
    const long long share = (units + blocks - 1) / blocks;
    return share > LEAST_SHARE ? share : LEAST_SHARE;
}

/*
 * The share where every item has so many units. Shares of whole items leave nothing to merge, and
 * an item of whole shares has fewer pieces than one that is cut anywhere. Memory is the limit, and
 * does not notice that a few blocks have nothing to do: a share may be longer by a SLACKth.
 */
static inline long long balanced_cut(long long items, int item_units, int blocks)
{
    const int SLACK = 16;
    const long long least = balanced_share(items * item_units, blocks);
    const long long share = least >= item_units ? (least + item_units - 1) / item_units * item_units
                                                : item_units / (item_units / least);
    const bool whole = share % item_units == 0 || item_units % share == 0;
    return whole && share >= least && (share - least) * SLACK <= least ? share : least;
}

/* Whether an item of the call may lie in several shares, and is merged through the workspace. */
static inline bool balanced_merges(const struct attention *call, const struct balanced_plan *plan)
{
    if (plan->cluster > 1)
        return false;
    return plan->share == 0 || plan->share % balanced_units(call->seq_kv) != 0;
}

/* For calls as decode_plan_of() takes them: as many blocks as are resident, or have a share when
 * every sequence is as long as can be. */
static inline struct balanced_plan balanced_plan_of(const struct attention *call, int resident,
                                                    const struct device_limits *device)
{
    struct balanced_plan plan;
    plan.head_rows = call->heads / call->kv_heads * call->seq_q;
    plan.tile_rows = decode_tile_rows(call);
    plan.row_tiles = ceil_div(plan.head_rows, plan.tile_rows);
    plan.items = call->kv_heads * plan.row_tiles;
    const long long units = (long long)call->batch * plan.items * balanced_units(call->seq_kv);
    const long long useful = (units + LEAST_SHARE - 1) / LEAST_SHARE;
    const int slots = device->multiprocessors * resident;
    plan.blocks = useful < slots ? (int)useful : slots;
    plan.warps = DECODE_WARPS;
    plan.cluster = 1;
    plan.extra = 0;
    plan.share = 0;
    if (call->lengths == NULL) { /* as many blocks as there are shares, on multiprocessors apart */
        plan.share = balanced_cut((long long)call->batch * plan.items, balanced_units(call->seq_kv),
                                  plan.blocks);
        plan.blocks = (int)((units + plan.share - 1) / plan.share);
    }
    return plan;
}

/*
 * Whether so many blocks alone read all keys about as fast as all of the device would. A
 * multiprocessor with 128 KB on its way gets 56 GB/s, the memory of an H100 or H200 gives seven
 * eighths of its peak, and pieces in memory cost 5 us more than a cluster's.
 */
static inline bool ring_blocks_suffice(const struct attention *call, long long blocks,
                                       const struct device_limits *device)
{
    const long long OWN_SPEED = 56, PIECES = 5; /* GB/s; us */
    const long long few = blocks * OWN_SPEED, all = device->memory_speed * 7LL / 8;
    const long long rows = (long long)call->batch * call->kv_heads * call->seq_kv;
    const long long bytes = 2 * (long long)sizeof(uint16_t) * rows * call->head_dim;
    return all <= few || bytes / few - bytes / all <= PIECES * 1000; /* bytes / (GB/s) are ns */
}

/*
 * decode_ring: as decode_balanced, but where items are so few that each must be cut into many
 * pieces, the blocks of a cluster share one. A cluster lies inside a group of multiprocessors, of
 * which an H100 has 18 at most, room for two of 8; so never are all in clusters. They pay where all
 * run at once, are about half of the device, and suffice.
 */
static inline struct balanced_plan ring_plan_of(const struct attention *call,
                                                const struct device_limits *device)
{
    const int CLUSTER = DECODE_RING_CLUSTER, GROUP = 18, MOST_ROWS = 32;
    struct balanced_plan plan = balanced_plan_of(call, DECODE_RING_RESIDENT, device);
    plan.warps = DECODE_RING_WARPS;
    plan.extra = call->lengths == NULL ? 0 : plan.tile_rows <= MOST_ROWS ? 5 : 8;
    const long long items = (long long)call->batch * plan.items, blocks = items * CLUSTER;
    const int at_once = device->multiprocessors / GROUP * (GROUP / CLUSTER);
    if (plan.share > 0 && balanced_merges(call, &plan) && plan.tile_rows <= MOST_ROWS &&
        balanced_units(call->seq_kv) >= 2 * CLUSTER && items <= (at_once > 1 ? at_once : 1) &&
        2 * blocks + CLUSTER >= device->multiprocessors &&
        ring_blocks_suffice(call, blocks, device)) {
        plan.cluster = CLUSTER;
        plan.blocks = (int)blocks;
        plan.share = 0;
    }
    return plan;
}

/*
 * The units of an item lie in the shares of neighbouring blocks, and what such a block leaves is a
 * piece. One item at most has begun before a block's share, and one goes on behind it: two places
 * in the workspace are enough for a block.
 */
struct balanced_pieces {
    int count;
    int first_block; /* has the first piece, and no other item's first of several */
};

static inline __host__ __device__ struct balanced_pieces
balanced_pieces_of(long long first_unit, int units, long long share)
{
    struct balanced_pieces pieces;
    pieces.first_block = (int)(first_unit / share);
    pieces.count = (int)((first_unit + units - 1) / share) - pieces.first_block + 1;
    return pieces;
}

static inline __host__ __device__ int balanced_place(struct balanced_pieces pieces, int piece)
{
    return 2 * (pieces.first_block + piece) + (piece == 0);
}

/* For each place a tile of rows of O, not divided by l, then m and l; then for each block a counter
 * for each of these warps. */
static inline size_t balanced_workspace_of(const struct attention *call,
                                           const struct balanced_plan *plan)
{
    if (!balanced_merges(call, plan))
        return 0;
    return (size_t)plan->blocks *
           (2 * (size_t)plan->tile_rows * ((size_t)call->head_dim + 2) * sizeof(float) +
            plan->warps * sizeof(unsigned int));
}

#endif
