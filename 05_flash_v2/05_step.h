/*
 * Step 05's kernels in reading order. Adding a kernel is adding its file and a row here:
 * common/problems/attention.h says what the fields are.
 *
 * The rows are read twice: for the declarations of their functions, and, in C, as the table.
 */
#ifdef KERNEL

KERNEL(flash_v2_exchanged, "1_flash_v2_exchanged.cu",
       "flash_v1 with its two loops exchanged; O is divided by l once, at the end",
       .max_head_dim = 128, .cost = flash_v2_cost, .Br = {16, 16}, .Bc = {16, 16})
KERNEL(flash_v2, "2_flash_v2.cu",
       "K transposed in shared memory; maximum and sum of a row by shuffles", .max_head_dim = 128,
       .cost = flash_v2_cost, .Br = {16, 16}, .Bc = {16, 16})
KERNEL(split_kv_naive, "3_split_kv_naive.cu",
       "the keys split over blocks; partial (O, LSE) merged by a thread per row",
       .max_head_dim = 128, .workspace = split_kv_naive_workspace, .cost = split_kv_naive_cost)
KERNEL(flash_v2_rectangles, "4_flash_v2_rectangles.cu",
       "a warp owns its rows, a thread a rectangle of S and of O in registers",
       .about.begins = true, .max_head_dim = 128, .cost = flash_v2_rectangles_cost)
KERNEL(flash_v2_async, "5_flash_v2_async.cu", "K and V are copied while the products run",
       .max_head_dim = 128, .cost = flash_v2_async_cost)
KERNEL(flash_v2_registers, "6_flash_v2_registers.cu",
       "8 x 8 of S and of O per thread where the device has the room; base 2", .max_head_dim = 128,
       .cost = flash_v2_registers_cost)
KERNEL(split_kv, "7_split_kv.cu",
       "split keys for few queries: a group of lanes per key, float4, merged on chip",
       .about.begins = true, .max_head_dim = 128, .workspace = split_kv_workspace,
       .cost = split_kv_cost)

#else
#ifndef STEP_05_H
#define STEP_05_H

#include "problems/attention.h"
#include "device/device.h"

#include <limits.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KERNEL ATTENTION_DECLARATION
#include "05_step.h"
#undef KERNEL

#ifdef __cplusplus
}
#else

#include "05_flash_v2/decode/3_split_kv_naive.h"
#include "05_flash_v2/decode/7_split_kv.h"
#include "query_tiles.h"

/* Q, O and LSE once, K and V once for each tile of Br queries; V is loaded, and O stored, so many
 * floats at a time. */
static struct cost tiles_of_queries_cost(const struct attention *call, int Br, int width_V,
                                         int width_O)
{
    const long long heads = (long long)call->batch * call->heads, d = call->head_dim;
    const long long queries = heads * call->seq_q;
    const long long keys = heads * ceil_div(call->seq_q, Br) * call->seq_kv;
    return (struct cost){queries * d + keys * (d + d / width_V), queries * (d / width_O + 1),
                         sizeof(float) * (queries * d + keys * 2 * d),
                         sizeof(float) * queries * (d + 1)};
}

static struct cost flash_v2_cost(const struct attention_kernel *row, const struct attention *call)
{
    return tiles_of_queries_cost(call, row->Br[call->head_dim > 64], 1, 1);
}

/* As many partial results, O and LSE, as runs of the keys. */
static size_t runs_workspace(const struct attention *call, int runs)
{
    return runs > 1 ? runs * attention_query_rows(call) * (call->head_dim + 1) * sizeof(float) : 0;
}

/* Whether the number of rows fits a plan; attention_run() refuses the other calls. */
static bool has_plan(const struct attention *call)
{
    return attention_query_rows(call) <= INT_MAX && call->kv_heads >= 1 &&
           call->kv_heads <= call->heads;
}

static size_t split_kv_naive_workspace(const struct attention *call)
{
    return has_plan(call)
               ? runs_workspace(call, split_kv_naive_plan_of(call, SPLIT_KV_NAIVE_BR).runs)
               : 0;
}

static size_t split_kv_workspace(const struct attention *call)
{
    return has_plan(call) ? runs_workspace(call, split_kv_plan_of(call).runs) : 0;
}

/* As flash_v2, but Q is loaded and a partial O and LSE stored once per run; where there are
 * several, the merge loads the partial O once and the partial LSE d + 2 times. */
static struct cost split_kv_naive_cost(const struct attention_kernel *row,
                                       const struct attention *call)
{
    const long long rows = attention_query_rows(call), d = call->head_dim;
    const long long runs = split_kv_naive_plan_of(call, SPLIT_KV_NAIVE_BR).runs;
    const struct cost once = tiles_of_queries_cost(call, SPLIT_KV_NAIVE_BR, 1, 1);
    const long long merged = runs > 1 ? 1 : 0;
    const long long loads = once.loads + rows * d * (runs - 1) + merged * rows * runs * (2 * d + 2);
    const long long stores = once.stores * (runs + merged);
    (void)row;
    return (struct cost){loads, stores, sizeof(float) * loads, sizeof(float) * stores};
}

static int width(const struct attention *call)
{
    return call->head_dim % 4 == 0 ? 4 : 1;
}

/* Every group of a block loads the block's queries; every lane of a merge the run's LSE. */
static struct cost split_kv_cost(const struct attention_kernel *row, const struct attention *call)
{
    const struct split_kv_plan plan = split_kv_plan_of(call);
    const long long rows = attention_query_rows(call), d = call->head_dim, runs = plan.runs;
    const long long tiles = (long long)call->batch * call->kv_heads * plan.tiles;
    long long floats = tiles * 2 * call->seq_kv * d + runs * rows * d * (SPLIT_KV_THREADS / plan.G);
    long long scalars = 0, stored = rows * runs * d, stored_scalars = rows * runs;
    if (runs > 1) {
        floats += rows * runs * d;
        scalars = rows * runs * plan.G;
        stored += rows * d;
        stored_scalars += rows;
    }
    (void)row;
    return (struct cost){floats / width(call) + scalars, stored / width(call) + stored_scalars,
                         sizeof(float) * (floats + scalars),
                         sizeof(float) * (stored + stored_scalars)};
}

static struct cost flash_v2_rectangles_cost(const struct attention_kernel *row,
                                            const struct attention *call)
{
    (void)row;
    return tiles_of_queries_cost(call, query_tile_of(false, call->head_dim).Br, 1, width(call));
}

static struct cost flash_v2_async_cost(const struct attention_kernel *row,
                                       const struct attention *call)
{
    (void)row;
    return tiles_of_queries_cost(call, query_tile_of(false, call->head_dim).Br, width(call),
                                 width(call));
}

static struct cost flash_v2_registers_cost(const struct attention_kernel *row,
                                           const struct attention *call)
{
    struct device_limits device;
    (void)row;
    current_device(&device);
    const bool large = large_tile_fits(call->head_dim, &device);
    return tiles_of_queries_cost(call, query_tile_of(large, call->head_dim).Br, width(call),
                                 width(call));
}

#define KERNEL ATTENTION_ROW
static const struct attention_kernel flash_v2_kernels[] = {
#include "05_step.h"
    {.about.name = NULL},
};
#undef KERNEL

#endif
#endif
#endif
