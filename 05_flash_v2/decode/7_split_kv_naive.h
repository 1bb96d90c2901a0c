/* How split_kv_naive cuts the work: tiles of queries, and runs of the keys. */
#ifndef SPLIT_KV_NAIVE_H
#define SPLIT_KV_NAIVE_H

#include "problems/attention.h"
#include "device/tiles.cuh"

enum { SPLIT_KV_NAIVE_BR = 16 }; /* queries of a tile */

/* The blocks that compute the runs, and those that merge them; none where there is one run. */
struct split_kv_naive_plan {
    int rows;           /* of Q, over all heads */
    int tiles;          /* of a head's queries */
    int runs, run_keys; /* of the keys, and of a run: the last one may have fewer */
    int blocks, merge_blocks;
};

/* What a block computes. */
struct split_kv_naive_part {
    int head;                 /* over all batches */
    int row0, run, first_key; /* counted inside the head */
};

/*
 * As many runs as give a large GPU enough blocks of Br queries, but none of fewer than 256 keys.
 * For a call that attention_run() takes.
 */
static inline struct split_kv_naive_plan split_kv_naive_plan_of(const struct attention *call,
                                                                int Br)
{
    const int GRID = 1024, RUN = 256, MERGED_ROWS = 32; /* of a block that merges */
    struct split_kv_naive_plan plan = {0, 0, 0, 0, 0, 0};
    const size_t rows = attention_query_rows(call);
    if (rows == 0)
        return plan;
    plan.rows = (int)rows;
    plan.tiles = ceil_div(call->seq_q, Br);
    const int all_tiles = call->batch * call->heads * plan.tiles;
    const int wanted = ceil_div(GRID, all_tiles);
    const int most = call->seq_kv > RUN ? ceil_div(call->seq_kv, RUN) : 1;
    plan.runs = wanted < most ? wanted : most;
    plan.run_keys = ceil_div(call->seq_kv, plan.runs);
    plan.blocks = all_tiles * plan.runs;
    plan.merge_blocks = plan.runs > 1 ? ceil_div(plan.rows, MERGED_ROWS) : 0;
    return plan;
}

/* The runs of a tile are neighbours. */
static inline __host__ __device__ struct split_kv_naive_part
split_kv_naive_part_of(const struct split_kv_naive_plan *plan, unsigned block, int Br)
{
    struct split_kv_naive_part part;
    part.run = (int)(block % plan->runs);
    part.head = (int)(block / plan->runs / plan->tiles);
    part.row0 = (int)(block / plan->runs % plan->tiles) * Br;
    part.first_key = part.run * plan->run_keys;
    return part;
}

#endif
