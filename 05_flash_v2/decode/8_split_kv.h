/* How split_kv cuts the work: tiles of rows that see the same keys, and runs of these keys. */
#ifndef SPLIT_KV_H
#define SPLIT_KV_H

#include "problems/attention.h"
#include "device/tiles.cuh"

enum { SPLIT_KV_ROWS = 4, SPLIT_KV_THREADS = 256 }; /* most rows of a block, and its threads */

struct split_kv_plan {
    int G;              /* lanes that take a key together, 4 features each */
    int R, tiles;       /* rows of a block; tiles of R rows per key/value head */
    int runs, run_keys; /* runs of the keys, and keys of a run: the last one may have fewer */
    int blocks,
        merge_blocks; /* that compute the runs, and that merge them: a row each, if at all */
};

/* What a block computes. */
struct split_kv_part {
    int kv_head;        /* over all batches */
    int row0;           /* counted inside the head */
    int run, first_key; /* counted inside the head, too */
};

/* For a call that attention_run() takes. */
static inline struct split_kv_plan split_kv_plan_of(const struct attention *call)
{
    const int RUN = 256;   /* keys of a run at least: fewer are not worth the merge */
    const int GRID = 1024; /* blocks that fill the largest GPU several times over */
    struct split_kv_plan plan = {0, 0, 0, 0, 0, 0, 0};
    const size_t rows = attention_query_rows(call);
    if (rows == 0)
        return plan;
    const int head_rows = call->heads / call->kv_heads * call->seq_q;
    plan.G = call->head_dim <= 32 ? 8 : call->head_dim <= 64 ? 16 : 32;
    plan.R = head_rows == 1 ? 1 : SPLIT_KV_ROWS;
    plan.tiles = ceil_div(head_rows, plan.R);

    const int all_tiles = call->batch * call->kv_heads * plan.tiles;
    const int most_runs = call->seq_kv > RUN ? ceil_div(call->seq_kv, RUN) : 1;
    const int wanted_runs = ceil_div(GRID, all_tiles);
    plan.runs = wanted_runs < most_runs ? wanted_runs : most_runs;
    plan.run_keys = ceil_div(call->seq_kv, plan.runs);
    if (plan.runs > 1)
        plan.runs = ceil_div(call->seq_kv, plan.run_keys); /* none is empty */
    plan.blocks = all_tiles * plan.runs;
    plan.merge_blocks = plan.runs > 1 ? (int)rows : 0;
    return plan;
}

/* Tiles of rows with the same run of keys are neighbours: all but the first find it in L2. */
static inline __host__ __device__ struct split_kv_part
split_kv_part_of(unsigned block, int R, int tiles, int runs, int run_keys)
{
    struct split_kv_part part;
    part.kv_head = (int)(block / tiles / runs);
    part.run = (int)(block / tiles % runs);
    part.row0 = (int)(block % tiles) * R;
    part.first_key = part.run * run_keys;
    return part;
}

#endif
