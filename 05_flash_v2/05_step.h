/*
 * Step 05's kernels in reading order. Adding a kernel is adding its file and a row here:
 * common/attention.h says what the fields are.
 *
 * The rows are read twice: for the declarations of their functions, and, in C, as the table.
 */
#ifdef KERNEL

KERNEL(flash_v2, "1_flash_v2.cu",
       "a block owns a tile of queries and walks the keys; O is divided by l once, at the end",
       .about.begins = true, .max_head_dim = 128, .cost = flash_v2_cost, .Br = {16, 16},
       .Bc = {16, 16})
KERNEL(flash_v2_registers, "2_flash_v2_registers.cu",
       "a warp owns its rows, a thread a square of S and of O in registers", .about.begins = true,
       .max_head_dim = 128, .cost = flash_v2_registers_cost)
KERNEL(split_kv, "3_split_kv.cu",
       "the keys split over blocks; partial (O, LSE) merged by a second kernel",
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

/* How the keys are split is 3_split_kv.cu's to know. */
attention_workspace_fn attention_split_kv_workspace;
attention_cost_fn attention_split_kv_cost;

#ifdef __cplusplus
}
#else

/* Q, O and LSE once, K and V once for each tile of Br queries; V and O `width` floats at a time. */
static struct cost tiles_of_queries_cost(const struct attention *call, int Br, int width)
{
    const long long heads = (long long)call->batch * call->heads, d = call->head_dim;
    const long long queries = heads * call->seq_q;
    const long long keys = heads * ((call->seq_q + Br - 1) / Br) * call->seq_kv;
    return (struct cost){queries * d + keys * (d + d / width), queries * (d / width + 1),
                         sizeof(float) * (queries * d + keys * 2 * d),
                         sizeof(float) * queries * (d + 1)};
}

static struct cost flash_v2_cost(const struct attention_kernel *row, const struct attention *call)
{
    return tiles_of_queries_cost(call, row->Br[call->head_dim > 64], 1);
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
        call->head_dim % 4 == 0 ? 4 : 1);
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
