/*
 * Step 05's kernels in reading order. Adding a kernel is adding its file and a row here:
 * common/attention.h says what the fields are.
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
       .about.begins = true, .max_head_dim = 128, .workspace = attention_split_kv_workspace,
       .cost = attention_split_kv_cost)

#else
#ifndef STEP_05_H
#define STEP_05_H

#include "attention.h"
#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KERNEL ATTENTION_DECLARATION
#include "05_step.h"
#undef KERNEL

/*
 * Into how many runs split_kv_naive cuts the keys: as many as give a large GPU enough blocks of 16
 * queries, but none of fewer than 256 keys.
 */
static inline int split_kv_naive_runs(const struct attention *call)
{
    const int GRID = 1024, RUN = 256, Br = 16;
    const long long tiles = (long long)call->batch * call->heads * ((call->seq_q + Br - 1LL) / Br);
    const long long wanted = tiles > 0 ? (GRID + tiles - 1) / tiles : 1;
    const long long most = call->seq_kv > RUN ? (call->seq_kv + RUN - 1LL) / RUN : 1;
    return (int)(wanted < most ? wanted : most);
}

/* How the keys are split is 7_split_kv.cu's to know. */
attention_workspace_fn attention_split_kv_workspace;
attention_cost_fn attention_split_kv_cost;

#ifdef __cplusplus
}
#else

/* Q, O and LSE once, K and V once for each tile of Br queries; V is loaded, and O stored, so many
 * floats at a time. */
static struct cost tiles_of_queries_cost(const struct attention *call, int Br, int width_V,
                                         int width_O)
{
    const long long heads = (long long)call->batch * call->heads, d = call->head_dim;
    const long long queries = heads * call->seq_q;
    const long long keys = heads * ((call->seq_q + Br - 1) / Br) * call->seq_kv;
    return (struct cost){queries * d + keys * (d + d / width_V), queries * (d / width_O + 1),
                         sizeof(float) * (queries * d + keys * 2 * d),
                         sizeof(float) * queries * (d + 1)};
}

static struct cost flash_v2_cost(const struct attention_kernel *row, const struct attention *call)
{
    return tiles_of_queries_cost(call, row->Br[call->head_dim > 64], 1, 1);
}

/* As many partial results as runs of the keys. */
static size_t split_kv_naive_workspace(const struct attention *call)
{
    const size_t rows = attention_query_rows(call);
    const int runs = rows > 0 ? split_kv_naive_runs(call) : 1;
    return runs > 1 ? runs * rows * (call->head_dim + 1) * sizeof(float) : 0;
}

/* As flash_v2, but Q is loaded and a partial O and LSE stored once per run; where there are
 * several, the merge loads the partial O once and the partial LSE d + 2 times. */
static struct cost split_kv_naive_cost(const struct attention_kernel *row,
                                       const struct attention *call)
{
    const long long rows = attention_query_rows(call), d = call->head_dim;
    const long long runs = split_kv_naive_runs(call);
    const struct cost once = tiles_of_queries_cost(call, 16, 1, 1);
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

static struct cost flash_v2_rectangles_cost(const struct attention_kernel *row,
                                            const struct attention *call)
{
    (void)row;
    return tiles_of_queries_cost(call, call->head_dim <= 96 ? 64 : 32, 1, width(call));
}

static struct cost flash_v2_async_cost(const struct attention_kernel *row,
                                       const struct attention *call)
{
    (void)row;
    return tiles_of_queries_cost(call, call->head_dim <= 96 ? 64 : 32, width(call), width(call));
}

/* The tile is the largest that the shared memory of a block holds: its queries at a head_dim of 1
 * .. 32, 33 .. 64, 65 .. 96 and 97 .. 128, and the bytes they need; smaller tiles elsewhere. */
static struct cost flash_v2_registers_cost(const struct attention_kernel *row,
                                           const struct attention *call)
{
    static const struct {
        int Br, bytes, small_Br;
    } tiles[] = {{128, 74752, 64}, {128, 108544, 64}, {64, 101376, 64}, {64, 81920, 32}};
    const int size = (call->head_dim - 1) / 32;
    int shared_limit = 0;
    (void)row;
    device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &shared_limit);
    return tiles_of_queries_cost(
        call, shared_limit >= tiles[size].bytes ? tiles[size].Br : tiles[size].small_Br,
        width(call), width(call));
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
