/*
 * Step 06's kernels in reading order. Adding a kernel is adding its file and a row here:
 * common/attention.h says what the fields are.
 *
 * The rows are read twice: for the declarations of their functions, and, in C, as the table.
 */
#ifdef KERNEL

KERNEL(half, "01_half.cu",
       "half storage, float arithmetic on CUDA cores; a causal mask skips the tiles it hides",
       .about.begins = true, .types = F16, .max_head_dim = 128, .causal = true, .cost = half_cost,
       .Br = {64, 64}, .Bc = {32, 32})
KERNEL(wmma, "02_wmma.cu",
       "tensor cores through wmma fragments; S and P pass through shared memory",
       .about.begins = true, .about.architecture = "sm_75", .types = F16, .max_head_dim = 128,
       .causal = true, .head_dim_multiple = 8, .alignment = 16, .positive_scale = true,
       .cost = wmma_cost, .Br = {64, 64}, .Bc = {32, 32})
KERNEL(mma, "03_mma.cu", "mma.sync and ldmatrix: S and P never leave the registers",
       .about.begins = true, .about.architecture = "sm_80", .types = F16, .max_head_dim = 128,
       .causal = true, .head_dim_multiple = 8, .alignment = 16, .positive_scale = true,
       .cost = mma_cost, .Br = {64, 64}, .Bc = {64, 64})
KERNEL(mma_pipelined, "04_mma_pipelined.cu",
       "cp.async double buffering, swizzled tiles, 32 rows a warp", .about.architecture = "sm_80",
       .types = F16, .max_head_dim = 128, .causal = true, .head_dim_multiple = 8, .alignment = 16,
       .positive_scale = true, .cost = mma_pipelined_cost, .Br = {128, 128}, .Bc = {48, 64})
KERNEL(tma_wgmma, "05_tma_wgmma.cu",
       "tiles by the copy engine onto mbarriers, products by four warps at once",
       .about.begins = true, .about.architecture = "sm_90a", .types = F16, .max_head_dim = 128,
       .causal = true, .head_dim_multiple = 8, .alignment = 16, .positive_scale = true,
       .cost = tma_cost, .Br = {128, 128}, .Bc = {128, 128})
KERNEL(producer_warp, "06_producer_warp.cu",
       "one warp loads, the others compute, registers move to them", .about.architecture = "sm_90a",
       .types = F16, .max_head_dim = 128, .causal = true, .head_dim_multiple = 8, .alignment = 16,
       .positive_scale = true, .cost = tma_cost, .Br = {192, 128}, .Bc = {128, 128})
KERNEL(overlap, "07_overlap.cu", "the next Q*K^T runs under this softmax",
       .about.architecture = "sm_90a", .types = F16, .max_head_dim = 128, .causal = true,
       .head_dim_multiple = 8, .alignment = 16, .positive_scale = true, .cost = tma_cost,
       .Br = {192, 128}, .Bc = {128, 128})
KERNEL(ping_pong, "08_ping_pong.cu",
       "the warpgroups take turns: softmax of one under the products of the other",
       .about.architecture = "sm_90a", .types = F16, .max_head_dim = 128, .causal = true,
       .head_dim_multiple = 8, .alignment = 16, .positive_scale = true, .cost = tma_cost,
       .Br = {192, 128}, .Bc = {128, 128})
KERNEL(tma_store, "09_tma_store.cu", "O leaves through shared memory and the copy engine",
       .about.architecture = "sm_90a", .types = F16, .max_head_dim = 128, .causal = true,
       .head_dim_multiple = 8, .alignment = 16, .positive_scale = true, .cost = tma_store_cost,
       .Br = {192, 128}, .Bc = {128, 128})
KERNEL(persistent, "10_persistent.cu",
       "blocks stay and draw tiles from a counter, the pipeline runs on across them",
       .about.architecture = "sm_90a", .types = F16, .max_head_dim = 128, .causal = true,
       .head_dim_multiple = 8, .alignment = 16, .positive_scale = true,
       .workspace = counter_workspace, .cost = persistent_cost, .Br = {192, 128}, .Bc = {128, 128})

#else
#ifndef STEP_06_H
#define STEP_06_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KERNEL ATTENTION_DECLARATION
#include "06_step.h"
#undef KERNEL

#ifdef __cplusplus
}
#else

enum { F16 = 1 << TENSOR_F16 };

/* The counter of tiles. */
static size_t counter_workspace(const struct attention *call)
{
    return attention_query_rows(call) > 0 ? sizeof(unsigned int) : 0;
}

/* Tiles of a head, and the keys that their blocks load, whole tiles of Bc of those that some query
 * sees, at least `least` tiles; of the last as many as there are. */
struct loaded {
    long long tiles, key_tiles, keys;
};

/* Tiles are Br queries; the first begins at query row0. */
static struct loaded loaded(const struct attention *call, int row0, int Br, int Bc, int least)
{
    const long long all = call->seq_kv;
    struct loaded total = {0};
    for (long long row = row0; row < call->seq_q; row += Br) {
        const long long last = (row + Br < call->seq_q ? row + Br : call->seq_q) - 1;
        const long long ahead = last + 1 + all - call->seq_q;
        const long long seen = !call->causal ? all : ahead > 0 ? ahead : 0;
        const long long tiles = seen > 0 ? (seen + Bc - 1) / Bc : least;
        total.tiles++;
        total.key_tiles += (long long)tiles;
        total.keys += (long long)(tiles * Bc < all ? tiles * Bc : all);
    }
    return total;
}

/* Q, O and LSE once, K and V as above; `load` and `store` halves at a time. */
static struct cost halves_cost(const struct attention_kernel *row, const struct attention *call,
                               int load, int store, int least)
{
    const int wide = call->head_dim > 64;
    const struct loaded of_head = loaded(call, 0, row->Br[wide], row->Bc[wide], least);
    const long long heads = (long long)call->batch * call->heads, d = call->head_dim;
    const long long queries = heads * call->seq_q,
                    elements = (queries + 2 * heads * of_head.keys) * d;
    return (struct cost){elements / load, queries * (d / store + 1), sizeof(uint16_t) * elements,
                         queries * (sizeof(uint16_t) * d + sizeof(float))};
}

static struct cost half_cost(const struct attention_kernel *row, const struct attention *call)
{
    return halves_cost(row, call, 1, 1, 0);
}

static struct cost wmma_cost(const struct attention_kernel *row, const struct attention *call)
{
    return halves_cost(row, call, 8, 1, 0);
}

static struct cost mma_cost(const struct attention_kernel *row, const struct attention *call)
{
    return halves_cost(row, call, 8, 2, 0);
}

/* The first tile is on its way before anything is known of the mask. */
static struct cost mma_pipelined_cost(const struct attention_kernel *row,
                                      const struct attention *call)
{
    return halves_cost(row, call, 8, 8, 1);
}

/*
 * By the copy engine: boxes of 64 columns, and of 64 rows of Q, of Bc rows of K and V. The last
 * tile of a head ends where the sequence does, but for less than 16 rows; the first may begin
 * before it.
 */
static struct cost boxes_cost(const struct attention_kernel *row, const struct attention *call,
                              int Br)
{
    const int Bc = row->Bc[call->head_dim > 64], missing = (Br - call->seq_q % Br) % Br;
    struct attention some = *call;
    if (some.seq_kv == 0) /* a map cannot be empty: Q stands in for K and V */
        some.seq_kv = some.seq_q;
    const struct loaded of_head = loaded(&some, -(missing / 16 * 16), Br, Bc, 1);
    const long long heads = (long long)call->batch * call->heads, d = call->head_dim;
    const long long queries = heads * call->seq_q, panels = (d + 63) / 64;
    return (struct cost){heads * panels * (of_head.tiles * (Br / 64) + 2 * of_head.key_tiles),
                         queries * (d / 2 + 1),
                         sizeof(uint16_t) * d * (queries + 2 * heads * of_head.keys),
                         queries * (sizeof(uint16_t) * d + sizeof(float))};
}

static struct cost tma_cost(const struct attention_kernel *row, const struct attention *call)
{
    return boxes_cost(row, call, row->Br[call->head_dim > 64]);
}

/* O leaves in boxes, too: of 16 rows. */
static struct cost with_stored_boxes(struct cost cost, const struct attention *call)
{
    const long long heads = (long long)call->batch * call->heads,
                    panels = (call->head_dim + 63) / 64;
    cost.stores = heads * (call->seq_q + (call->seq_q + 15) / 16 * panels);
    return cost;
}

static struct cost tma_store_cost(const struct attention_kernel *row, const struct attention *call)
{
    return with_stored_boxes(tma_cost(row, call), call);
}

/* Short causal problems have shorter tiles at a head_dim of up to 64. Tiles are drawn with atomics,
 * which are not counted here. */
static struct cost persistent_cost(const struct attention_kernel *row, const struct attention *call)
{
    const bool is_short = call->causal && call->seq_kv <= 512;
    const int Br = is_short && call->head_dim <= 64 ? 128 : row->Br[call->head_dim > 64];
    return with_stored_boxes(boxes_cost(row, call, Br), call);
}

#define KERNEL ATTENTION_ROW
static const struct attention_kernel causal_half_kernels[] = {
#include "06_step.h"
    {.about.name = NULL},
};
#undef KERNEL

#endif
#endif
#endif
