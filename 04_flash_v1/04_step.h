/*
 * Step 04's kernels in reading order. Adding a kernel is adding its file and a row here:
 * common/attention.h says what the fields are.
 *
 * The rows are read twice: for the declarations of their functions, and, in C, as the table.
 */
#ifdef KERNEL

KERNEL(standard, "1_standard.cu", "three kernels; the scores are a matrix in global memory",
       .about.begins = true, .max_head_dim = 128, .workspace = scores_workspace,
       .cost = standard_cost)
KERNEL(row_parallel, "2_row_parallel.cu",
       "a warp per query, lanes side by side along d; keys one after the other",
       .about.begins = true, .max_head_dim = 128, .cost = row_parallel_cost)
KERNEL(key_parallel_ordered, "3_key_parallel_ordered.cu",
       "the keys of a query cut into chunks; their warps take turns in order", .max_head_dim = 128,
       .workspace = turns_workspace, .cost = key_parallel_ordered_cost)
KERNEL(key_parallel_atomic, "4_key_parallel_atomic.cu",
       "the chunks in any order: atomic max and add, the grid waits between them",
       .max_head_dim = 128, .workspace = statistics_workspace, .cost = key_parallel_atomic_cost)
KERNEL(key_parallel_block, "5_key_parallel_block.cu",
       "a block per query deals the keys to its warps and merges on chip", .max_head_dim = 128,
       .cost = key_parallel_block_cost)
KERNEL(flash_v1, "6_flash_v1.cu",
       "tiles: keys outside, queries inside; O, l and m revisited in global memory",
       .about.begins = true, .max_head_dim = 128, .workspace = statistics_workspace,
       .cost = flash_v1_cost, .Br = {16, 16}, .Bc = {16, 16})
KERNEL(flash_v1_registers, "7_flash_v1_registers.cu",
       "the same loops; a thread holds a rectangle of S and of O in registers", .max_head_dim = 128,
       .workspace = statistics_workspace, .cost = flash_v1_registers_cost)

#else
#ifndef STEP_04_H
#define STEP_04_H

#include "attention.h"
#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KERNEL ATTENTION_DECLARATION
#include "04_step.h"
#undef KERNEL

/*
 * What the FA1 kernels begin with, line 2 of the paper's algorithm: O = 0, and for each query l =
 * 0, m = -inf. LSE, if not null, becomes -inf, which is its value when no key ever comes.
 * initial_state.cu
 */
cudaError_t attention_initial_state(const struct attention *call, float *l, float *m);

#ifdef __cplusplus
}
#else

/* Workspaces: the scores; l, m and turn of each query and the counter of tickets; l and m. */
static size_t scores_workspace(const struct attention *call)
{
    return call->seq_kv > 0 ? attention_query_rows(call) * call->seq_kv * sizeof(float) : 0;
}

static size_t turns_workspace(const struct attention *call)
{
    const size_t rows = attention_query_rows(call);
    return rows > 0 ? rows * (2 * sizeof(float) + sizeof(int)) + sizeof(int) : 0;
}

static size_t statistics_workspace(const struct attention *call)
{
    return attention_query_rows(call) * 2 * sizeof(float);
}

/* Costs, where every access is to one float. */

static struct cost floats(long long loaded, long long stored)
{
    return (struct cost){loaded, stored, sizeof(float) * loaded, sizeof(float) * stored};
}

/* Two products from memory, and of the scores four loads more and two stores. */
static struct cost standard_cost(const struct attention_kernel *row, const struct attention *call)
{
    const long long rows = attention_query_rows(call), d = call->head_dim,
                    scores = rows * call->seq_kv;
    (void)row;
    return floats((4 * d + 3) * scores, 2 * scores + rows * (d + 1));
}

/* The query once, every key and every value once per query; O and LSE once. */
static struct cost row_parallel_cost(const struct attention_kernel *row,
                                     const struct attention *call)
{
    const long long rows = attention_query_rows(call), d = call->head_dim;
    (void)row;
    return floats(rows * d * (1 + 2 * (long long)call->seq_kv), rows * (d + 1));
}

static long long chunks(const struct attention *call)
{
    const int CHUNK = 32;
    return call->seq_kv > 0 ? (call->seq_kv + CHUNK - 1) / CHUNK : 1;
}

/* Each chunk loads the query and stores O, l and m; each but the first loads them, and l and m in
 * all 32 lanes. Turns are waited for with atomics, which are not counted here. */
static struct cost key_parallel_ordered_cost(const struct attention_kernel *row,
                                             const struct attention *call)
{
    const long long rows = attention_query_rows(call), d = call->head_dim;
    struct cost once = row_parallel_cost(row, call);
    return floats(once.loads + rows * (chunks(call) - 1) * (d + d + 64),
                  rows * (chunks(call) * (d + 2) + 1));
}

/* Three phases, each with the query and the keys; m is loaded in two, l in one, by all 32 lanes.
 * The atomics, 2 + d for each query and chunk, are not counted here. */
static struct cost key_parallel_atomic_cost(const struct attention_kernel *row,
                                            const struct attention *call)
{
    const long long rows = attention_query_rows(call), d = call->head_dim, keys = call->seq_kv;
    const long long pieces = keys > 0 ? rows * chunks(call) : 0;
    (void)row;
    return floats(pieces * (3 * d + 3 * 32) + 4 * rows * keys * d + 2 * rows, rows * (d + 3));
}

/* As row_parallel, but each of the 8 warps loads the query. */
static struct cost key_parallel_block_cost(const struct attention_kernel *row,
                                           const struct attention *call)
{
    const long long rows = attention_query_rows(call), d = call->head_dim;
    struct cost once = row_parallel_cost(row, call);
    return floats(once.loads + 7 * rows * d, once.stores);
}

/*
 * K and V once per head. Per tile of Bc keys Q is loaded, and O, l and m are loaded and stored; all
 * of it is stored once at the beginning, and LSE at the beginning and at the end. V and O are moved
 * `width` floats at a time.
 */
static struct cost tiles_of_keys_cost(const struct attention *call, int Bc, int width)
{
    const long long heads = (long long)call->batch * call->heads, d = call->head_dim;
    const long long queries = heads * call->seq_q, keys = heads * call->seq_kv;
    const long long passes = (call->seq_kv + Bc - 1) / Bc, last = call->seq_kv > 0;
    const long long stores_once = queries * (d + 3 + last);
    struct cost cost = floats(2 * keys * d + passes * queries * (2 * d + 2),
                              stores_once + passes * queries * (d + 2));
    cost.loads = keys * (d + d / width) + passes * queries * (d + d / width + 2);
    cost.stores = stores_once + passes * queries * (d / width + 2);
    return cost;
}

static struct cost flash_v1_cost(const struct attention_kernel *row, const struct attention *call)
{
    return tiles_of_keys_cost(call, row->Bc[call->head_dim > 64], 1);
}

/* 128 keys a tile, 16 bytes at a time, where a block may have the shared memory and rows are
 * aligned. */
static struct cost flash_v1_registers_cost(const struct attention_kernel *row,
                                           const struct attention *call)
{
    const int needed = 210 * 1024;
    int shared_limit = 0;
    (void)row;
    device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &shared_limit);
    if (shared_limit >= needed && call->head_dim % 4 == 0)
        return tiles_of_keys_cost(call, 128, 4);
    return tiles_of_keys_cost(call, call->head_dim <= 64 ? 64 : 32, 1);
}

#define KERNEL ATTENTION_ROW
static const struct attention_kernel flash_v1_kernels[] = {
#include "04_step.h"
    {.about.name = NULL},
};
#undef KERNEL

#endif
#endif
#endif
