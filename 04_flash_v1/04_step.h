/*
 * Step 04's kernels in reading order. Adding a kernel is adding its file and a row here:
 * common/problems/attention.h says what the fields are.
 *
 * The rows are read twice: for the declarations of their functions, and, in C, as the table.
 */
#ifdef KERNEL

KERNEL(standard, "01_standard.cu", "three kernels; the scores are a matrix in global memory",
       .about.begins = true, .max_head_dim = 128, .workspace = scores_workspace,
       .cost = standard_cost)
KERNEL(row_per_thread, "02_row_per_thread.cu",
       "a thread per query, key by key; q, m and l in registers, O in memory", .max_head_dim = 128,
       .cost = row_per_thread_cost)
KERNEL(row_parallel, "03_row_parallel.cu",
       "a warp per query, lanes side by side along d; keys one after the other",
       .max_head_dim = 128, .cost = row_parallel_cost)
KERNEL(key_parallel_ordered, "04_key_parallel_ordered.cu",
       "the keys of a query cut into chunks; their warps take turns in order", .max_head_dim = 128,
       .workspace = turns_workspace, .cost = key_parallel_ordered_cost)
KERNEL(key_parallel_atomic, "05_key_parallel_atomic.cu",
       "the chunks in any order: atomic max and add, one launch after the other",
       .max_head_dim = 128, .workspace = statistics_workspace, .cost = key_parallel_atomic_cost)
KERNEL(key_parallel_block, "06_key_parallel_block.cu",
       "a block per query deals the keys to its warps and merges on chip", .max_head_dim = 128,
       .cost = key_parallel_block_cost)
KERNEL(flash_v1, "07_flash_v1.cu",
       "tiles: keys outside, queries inside; O, l and m revisited in global memory",
       .about.begins = true, .max_head_dim = 128, .workspace = statistics_workspace,
       .cost = flash_v1_cost, .Br = {16, 16}, .Bc = {16, 16})
KERNEL(flash_v1_rectangles, "08_flash_v1_rectangles.cu",
       "a thread owns a rectangle of S and of O; products from registers", .about.begins = true,
       .max_head_dim = 128, .workspace = statistics_workspace, .shared = rectangles_shared,
       .cost = flash_v1_rectangles_cost)
KERNEL(flash_v1_warps, "09_flash_v1_warps.cu",
       "maximum and sum of a row by shuffles; warps do not wait for one another",
       .max_head_dim = 128, .workspace = statistics_workspace, .cost = flash_v1_warps_cost)
KERNEL(flash_v1_ahead, "10_flash_v1_ahead.cu",
       "m, l and O are asked for before the product that runs while they arrive",
       .max_head_dim = 128, .workspace = statistics_workspace, .cost = flash_v1_rectangles_cost)
KERNEL(flash_v1_large_tiles, "11_flash_v1_large_tiles.cu",
       "128 keys a tile and 16 bytes at a time, where the device has the room", .max_head_dim = 128,
       .workspace = statistics_workspace, .cost = flash_v1_large_tiles_cost)
KERNEL(flash_v1_registers, "12_flash_v1_registers.cu",
       "exponentials of base 2, the scale and log2 e multiplied into Q", .max_head_dim = 128,
       .workspace = statistics_workspace, .cost = flash_v1_large_tiles_cost)
KERNEL(flash_v1_async, "13_flash_v1_async.cu",
       "V arrives during the first product; what O, m and l begin with is not stored or loaded",
       .max_head_dim = 128, .workspace = statistics_workspace, .cost = flash_v1_async_cost)

#else
#ifndef STEP_04_H
#define STEP_04_H

#include "problems/attention.h"
#include "device/device.h"

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
cudaError_t attention_initial_state(const struct attention *call);

#ifdef __cplusplus
}
#else

#include "slabs.cuh"
#include "device/tiles.cuh"

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

/* The 64 KB that are all an sm_75 has, or less, and the weights and factors of the warps' rows. */
static size_t rectangles_shared(const struct attention *call)
{
    const struct slabs slabs = slabs_in(false, call->head_dim, SMALLEST_LIMIT);
    return slabs.shared_bytes + 2 * MAX_WARPS * 4 * slabs.TR * sizeof(float);
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

/* The query once, every key and every value once per query, and O loaded and stored each time. */
static struct cost row_per_thread_cost(const struct attention_kernel *row,
                                       const struct attention *call)
{
    const long long rows = attention_query_rows(call), d = call->head_dim, keys = call->seq_kv;
    (void)row;
    return floats(rows * d * (1 + 3 * keys), rows * (d * (1 + keys) + 1));
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
    return call->seq_kv > 0 ? ceil_div(call->seq_kv, CHUNK) : 1;
}

/* Each chunk loads the query and stores O, l, m and LSE; each but the first loads O, l and m, the
 * last two in all 32 lanes. Turns are waited for with atomics, which are not counted here. */
static struct cost key_parallel_ordered_cost(const struct attention_kernel *row,
                                             const struct attention *call)
{
    const long long rows = attention_query_rows(call), d = call->head_dim;
    struct cost once = row_parallel_cost(row, call);
    return floats(once.loads + rows * (chunks(call) - 1) * (d + d + 64),
                  rows * chunks(call) * (d + 3));
}

/* Three phases, each with the query and the keys; m is loaded in two, l in one, by all 32 lanes. O,
 * l, m and LSE are stored at the beginning, LSE at the end. The atomics, 2 + d for each query and
 * chunk, are not counted here. */
static struct cost key_parallel_atomic_cost(const struct attention_kernel *row,
                                            const struct attention *call)
{
    const long long rows = attention_query_rows(call), d = call->head_dim, keys = call->seq_kv;
    const long long pieces = keys > 0 ? rows * chunks(call) : 0;
    (void)row;
    return floats(pieces * (3 * d + 3 * 32) + 4 * rows * keys * d,
                  rows * (d + 3) + (keys > 0 ? rows : 0));
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
 * `width` floats at a time. With `known_start` nothing is stored at the beginning, if there are
 * keys, and O, l and m are not loaded for the first tile.
 */
static struct cost tiles_of_keys_cost(const struct attention *call, int Bc, int width,
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

static struct cost flash_v1_cost(const struct attention_kernel *row, const struct attention *call)
{
    return tiles_of_keys_cost(call, row->Bc[call->head_dim > 64], 1, false);
}

static struct cost flash_v1_rectangles_cost(const struct attention_kernel *row,
                                            const struct attention *call)
{
    const struct slabs slabs = slabs_in(false, call->head_dim, SMALLEST_LIMIT);
    (void)row;
    return tiles_of_keys_cost(call, slabs.Bc, 1, false);
}

/* l and m are loaded by all 8 lanes that share a row. */
static struct cost flash_v1_warps_cost(const struct attention_kernel *row,
                                       const struct attention *call)
{
    const int Bc = slabs_in(false, call->head_dim, SMALLEST_LIMIT).Bc;
    const long long more =
        14LL * (long long)attention_query_rows(call) * ceil_div(call->seq_kv, Bc);
    struct cost cost = flash_v1_rectangles_cost(row, call);
    cost.loads += more;
    cost.bytes_read += sizeof(float) * more;
    return cost;
}

/* 16 bytes at a time with the large tile; the harness's arrays are aligned. */
static struct cost large_tiles_cost(const struct attention *call, bool known_start)
{
    struct device_limits device;
    current_device(&device);
    const bool large = large_slabs_fit(call->head_dim, call->head_dim % 4 == 0, &device);
    const struct slabs slabs = slabs_in(large, call->head_dim, device.shared_bytes);
    return tiles_of_keys_cost(call, slabs.Bc, large ? 4 : 1, known_start);
}

static struct cost flash_v1_large_tiles_cost(const struct attention_kernel *row,
                                             const struct attention *call)
{
    (void)row;
    return large_tiles_cost(call, false);
}

static struct cost flash_v1_async_cost(const struct attention_kernel *row,
                                       const struct attention *call)
{
    (void)row;
    return large_tiles_cost(call, true);
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
