/* Step 06's rows, a table for each ladder: common/problems/attention.h says what the fields are. */
#include "06_step.h"
#include "harness/ladder.h"
#include "harness/refusal.h"
#include "06_causal_half/backward/backward_plan.h"
#include "06_causal_half/decode/decode_plan.h"
#include "06_causal_half/hopper/hopper_plan.h"
#include "device/device.h"

enum { F16 = 1 << TENSOR_F16, BF16 = 1 << TENSOR_BF16 };

/* Of every kernel that copies 16 bytes at a time and scales inside the exponent. */
#define TENSOR_CORE_LIMITS                                                                         \
    .max_head_dim = 128, .causal = true, .head_dim_multiple = 8, .alignment = 16,                  \
    .positive_scale = true

#define BOTH_TYPES .types = F16 | BF16, TENSOR_CORE_LIMITS
#define HOPPER_LIMITS .about.architecture = "sm_90a", BOTH_TYPES

/* Queries and keys of a tile, from producer_warp on. */
#define HOPPER_TILES .Br = {HOPPER_ROWS(64), HOPPER_ROWS(128)}, .Bc = {HOPPER_KEYS, HOPPER_KEYS}

/* Shown: keys for a pipeline to overlap; more tiles than blocks, which stay. */
#define PIPELINE "--heads 1 --seq 512"
#define FIVE_HEADS "--heads 5 --seq 256 --head-dim 128"

/* Where pairs pay: hopper_plan.h. Tiles are whole, or the first one lacks rows; the last block of
 * keys is whole, or ends in its first or its second half. The last five sizes are just outside
 * those that have pairs. */
#define PAIR_EDGES                                                                                 \
    "--batch 1,1,2,1 --heads 1,2,2,4,1,1,1,1,1,1,1 --kv-heads 1,1,2,2,1,1,1,1,1,1,1 "              \
    "--seq-q 256,130,200,129,512,129,130,128,257,130,130 "                                         \
    "--seq-kv 640,513,600,700,577,515,512,513,513,513,513 "                                        \
    "--head-dim 128,72,104,80,128,96,72,72,72,64,72 "                                              \
    "--type f16,bf16,f16,bf16,f16,bf16,f16,f16,bf16,f16,f16 --causal 0,0,0,0,0,0,0,0,0,0,1;"       \
    "--heads 1 --seq-q 130 --seq-kv 1040 --head-dim 72 --type "                                    \
    "f16,bf16,f16,bf16,f16,bf16,f16,bf16,f16 "                                                     \
    "--inputs all"
/* Half of the rows of a pair's tile may see one block of keys fewer, or two; some rows may see
 * none, or not exist. */
#define CAUSAL_PAIR_EDGES                                                                          \
    "--heads 1,1,1,2,1,1,1,1,1 --kv-heads 1,1,1,2,1,1,1,1,1 "                                      \
    "--seq-q 256,130,256,200,1180,129,128,130,256 "                                                \
    "--seq-kv 1152,1025,1030,1100,1030,1024,1025,1025,2176 "                                       \
    "--head-dim 128,72,72,104,72,72,72,64,128 "                                                    \
    "--type f16,bf16,f16,bf16,bf16,f16,f16,f16,bf16 --causal;"                                     \
    "--heads 1 --seq-q 140 --seq-kv 1030 --head-dim 72 --causal "                                  \
    "--type f16,bf16,f16,bf16,f16,bf16,f16,bf16,f16 --inputs all"
/* One or two warpgroups of the first tile have no rows, with several blocks of keys. With a mask,
 * one or two see a block fewer than the last one. */
#define SKIPPING_EDGES                                                                             \
    "--heads 1,1,1,2,1,1,1,1 --kv-heads 1 --seq-q 64,64,128,300,500,130,700,192 "                  \
    "--seq-kv 900,900,640,700,513,512,520,640 --head-dim 64,64,40,48,64,64,64,64 "                 \
    "--type f16,bf16,f16,bf16,f16,f16,f16,f16 --causal 1,0,0,1,1,1,1,1"

#define PAIRS                                                                                      \
    .about.edges = PAIR_EDGES,                                                                     \
    .about.own_sizes = "--heads 2 --kv-heads 1 --seq-q 140..170 --seq-kv 520..560 --head-dim 72",  \
    .about.shown_sizes = "--heads 5 --seq-q 256 --seq-kv 640 --head-dim 128"
#define CAUSAL_PAIRS                                                                               \
    .about.edges = CAUSAL_PAIR_EDGES,                                                              \
    .about.own_sizes =                                                                             \
        "--heads 2 --kv-heads 1 --seq-q 140..170 --seq-kv 1030..1060 --head-dim 72 --causal",      \
    .about.shown_sizes = "--heads 3 --seq-q 256 --seq-kv 1152 --head-dim 128 --causal"

/* The counter of tiles. */
static size_t counter_workspace(const struct attention *call)
{
    return attention_query_rows(call) > 0 ? sizeof(unsigned int) : 0;
}

/* Pairs of full attention are dealt their tiles. */
static size_t multicast_workspace(const struct attention *call)
{
    return pairs_pay(call) ? 0 : counter_workspace(call);
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
        const int seen = keys_seen(call->causal, (int)last, call->seq_q, call->seq_kv);
        const int by_first = keys_seen(call->causal, (int)row, call->seq_q, call->seq_kv);
        const long long hidden =
            call->window > 0 && by_first > call->window ? (by_first - call->window) / Bc : 0;
        const long long tiles = seen > 0 ? ceil_div(seen, Bc) : least;
        total.tiles++;
        total.key_tiles += tiles - hidden;
        total.keys += (tiles * Bc < all ? tiles * Bc : all) - hidden * Bc;
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
static struct cost mma_async_cost(const struct attention_kernel *row, const struct attention *call)
{
    return halves_cost(row, call, 8, 2, 1);
}

static struct cost mma_ordered_cost(const struct attention_kernel *row,
                                    const struct attention *call)
{
    return halves_cost(row, call, 8, 8, 1);
}

/*
 * Loads by the copy engine: boxes of 64 columns, Bc rows of K and of V, and boxes_Q for a tile's
 * rows of Q. Stores of `store` elements at a time.
 */
static struct cost boxes_cost(const struct attention *call, struct loaded of_head, int boxes_Q,
                              int store)
{
    const long long heads = (long long)call->batch * call->heads, d = call->head_dim;
    const long long queries = heads * call->seq_q, panels = (d + 63) / 64;
    return (struct cost){heads * panels * (of_head.tiles * boxes_Q + 2 * of_head.key_tiles),
                         queries * (d / store + 1),
                         sizeof(uint16_t) * d * (queries + 2 * heads * of_head.keys),
                         queries * (sizeof(uint16_t) * d + sizeof(float))};
}

static struct cost mma_tma_cost(const struct attention_kernel *row, const struct attention *call)
{
    const int wide = call->head_dim > 64;
    return boxes_cost(call, loaded(call, 0, row->Br[wide], row->Bc[wide], 0), 1, 8);
}

/* Q in boxes of 64 rows. The last tile of a head ends where the sequence does, but for less than 16
 * rows; the first may begin before it. */
static struct cost tiles_from_the_end(const struct attention_kernel *row,
                                      const struct attention *call, int Br)
{
    const int missing = (Br - call->seq_q % Br) % Br;
    const struct loaded of_head =
        loaded(call, -(missing / 16 * 16), Br, row->Bc[call->head_dim > 64], 1);
    return boxes_cost(call, of_head, Br / 64, 2);
}

static struct cost wgmma_cost(const struct attention_kernel *row, const struct attention *call)
{
    return tiles_from_the_end(row, call, row->Br[call->head_dim > 64]);
}

/* O leaves in boxes, too: of 16 rows. */
static struct cost with_stored_boxes(struct cost cost, const struct attention *call)
{
    const long long heads = (long long)call->batch * call->heads,
                    panels = (call->head_dim + 63) / 64;
    cost.stores = heads * (call->seq_q + ceil_div(call->seq_q, WARP_ROWS) * panels);
    return cost;
}

/* Tiles are drawn with atomics, which are not counted here. */
static struct cost tma_store_cost(const struct attention_kernel *row, const struct attention *call)
{
    return with_stored_boxes(wgmma_cost(row, call), call);
}

static struct cost across_tiles_cost(const struct attention_kernel *row,
                                     const struct attention *call)
{
    const int Br = WARPGROUP_ROWS * persistent_warpgroups(call);
    return with_stored_boxes(tiles_from_the_end(row, call, Br), call);
}

/* A pair's tiles are one, and each of its blocks loads half of a block of keys. */
static struct cost cost_of_pairs(const struct attention_kernel *row, const struct attention *call)
{
    const int Br = 2 * row->Br[1], missing = (Br - call->seq_q % Br) % Br;
    struct loaded of_head = loaded(call, -(missing / 16 * 16), Br, row->Bc[1], 1);
    of_head.key_tiles *= 2;
    return with_stored_boxes(boxes_cost(call, of_head, Br / 64, 2), call);
}

static struct cost multicast_cost(const struct attention_kernel *row, const struct attention *call)
{
    return (pairs_pay(call) ? cost_of_pairs : across_tiles_cost)(row, call);
}

static struct cost drawn_pairs_cost(const struct attention_kernel *row,
                                    const struct attention *call)
{
    return (causal_pairs_pay(call) ? cost_of_pairs : multicast_cost)(row, call);
}

/* Whether a decode kernel's workspace and cost can be asked for: not where attention_run() refuses
 * the call, or O is empty. */
static bool decode_has_plan(const struct attention *call)
{
    const size_t rows = attention_query_rows(call);
    return rows != 0 && rows <= MAX_EXTENT && call->kv_heads >= 1 &&
           call->kv_heads <= call->heads && call->seq_kv >= 0 && call->seq_kv <= MAX_EXTENT;
}

/* A decode kernel's plan on the current device; no runs where there is none. */
static struct decode_plan decode_plan_here(const struct attention *call, bool packed, int resident)
{
    struct device_limits device;
    if (!decode_has_plan(call))
        return (struct decode_plan){0};
    current_device(&device);
    return decode_plan_of(call, packed ? decode_tile_rows(call) : 1, resident, &device);
}

static struct decode_plan decode_split_plan(const struct attention *call)
{
    return decode_plan_here(call, false, DECODE_SPLIT_RESIDENT);
}

static struct decode_plan decode_packed_plan(const struct attention *call)
{
    return decode_plan_here(call, true, DECODE_PACKED_RESIDENT);
}

static struct decode_plan decode_async_plan(const struct attention *call)
{
    return decode_plan_here(call, true, DECODE_ASYNC_RESIDENT);
}

static size_t decode_split_workspace(const struct attention *call)
{
    const struct decode_plan plan = decode_split_plan(call);
    return decode_workspace_of(call, &plan);
}

static size_t decode_packed_workspace(const struct attention *call)
{
    const struct decode_plan plan = decode_packed_plan(call);
    return decode_workspace_of(call, &plan);
}

static size_t decode_async_workspace(const struct attention *call)
{
    const struct decode_plan plan = decode_async_plan(call);
    return decode_workspace_of(call, &plan);
}

static struct balanced_plan balanced_plan_here(const struct attention *call)
{
    struct device_limits device;
    if (!decode_has_plan(call))
        return (struct balanced_plan){0};
    current_device(&device);
    return balanced_plan_of(call, DECODE_BALANCED_RESIDENT, &device);
}

static struct balanced_plan ring_plan_here(const struct attention *call)
{
    struct device_limits device;
    if (!decode_has_plan(call))
        return (struct balanced_plan){0};
    current_device(&device);
    device.memory_speed = memory_speed_of_device();
    return ring_plan_of(call, &device);
}

static size_t decode_balanced_workspace(const struct attention *call)
{
    const struct balanced_plan plan = balanced_plan_here(call);
    return balanced_workspace_of(call, &plan);
}

static size_t decode_ring_workspace(const struct attention *call)
{
    const struct balanced_plan plan = ring_plan_here(call);
    return balanced_workspace_of(call, &plan);
}

/* The keys that the blocks of a kv head load, over all its tiles of rows, counting what is whole of
 * so many. Every seq_q-th tile sees as many. */
static long long decode_loaded_keys(const struct attention *call, int head_rows, int tile_rows,
                                    int whole)
{
    const long long full = head_rows / tile_rows, period = call->causal ? call->seq_q : 1;
    const int left = head_rows % tile_rows;
    long long keys = 0;
    for (long long tile = 0; tile < period && tile < full; tile++) {
        const int seen = decode_seen_by_any(*call, (int)tile * tile_rows, tile_rows, call->seq_kv);
        keys += (full - tile + period - 1) / period * (seen / whole * whole);
    }
    const int by_last = decode_seen_by_any(*call, head_rows - left, left, call->seq_kv);
    return left > 0 ? keys + by_last / whole * whole : keys;
}

/* What becomes of the rows: how many times one is begun, and how many times what it leaves is
 * merged in another launch or block, over all rows. */
struct decode_rows {
    long long begun, merged;
};

static struct decode_rows rows_in_runs(const struct attention *call, struct decode_plan plan)
{
    const long long begun = (long long)attention_query_rows(call) * plan.runs;
    return (struct decode_rows){begun, plan.runs > 1 ? begun : 0};
}

/* K and V, 8 elements a load, of the keys that a tile of rows sees; Q, which `loads_Q` times as
 * many threads load `load_Q` elements at a time; O in fours. Where there are several runs, floats
 * on the way: a lane of the merge loads four features of a run, and its m and l. */
static struct cost decode_cost(const struct attention *call, int tile_rows, struct decode_rows of,
                               long long loads_Q, int load_Q)
{
    const long long kv_heads = (long long)call->batch * call->kv_heads, d = call->head_dim;
    const int head_rows = call->heads / call->kv_heads * call->seq_q;
    const long long rows = kv_heads * head_rows;
    const long long keys = kv_heads * decode_loaded_keys(call, head_rows, tile_rows, 1);
    const long long elements_Q = of.begun * loads_Q * d;
    return (struct cost){2 * keys * d / 8 + elements_Q / load_Q + of.merged * (d / 2),
                         (of.merged + rows) * (d / 4 + 1),
                         sizeof(uint16_t) * (2 * keys * d + elements_Q) + of.merged * 6 * d,
                         rows * (sizeof(uint16_t) * d + sizeof(float)) +
                             of.merged * (d + 2) * sizeof(float)};
}

static struct cost decode_split_cost(const struct attention_kernel *row,
                                     const struct attention *call)
{
    (void)row;
    const int lanes = call->head_dim > 64 ? 16 : 8;
    return decode_cost(call, 1, rows_in_runs(call, decode_split_plan(call)),
                       DECODE_SPLIT_THREADS / lanes, 8);
}

/* Of the kernels whose warps have a tile of 16 rows each. */
static struct cost decode_tile_cost(const struct attention *call, struct decode_rows rows,
                                    int warps)
{
    const int tile_rows = decode_tile_rows(call);
    return decode_cost(call, tile_rows, rows, 16 * warps / tile_rows, 2);
}

static struct cost decode_packed_cost(const struct attention_kernel *row,
                                      const struct attention *call)
{
    (void)row;
    return decode_tile_cost(call, rows_in_runs(call, decode_packed_plan(call)), DECODE_WARPS);
}

static struct cost decode_async_cost(const struct attention_kernel *row,
                                     const struct attention *call)
{
    (void)row;
    return decode_tile_cost(call, rows_in_runs(call, decode_async_plan(call)), DECODE_WARPS);
}

static int rows_of_item(struct balanced_plan plan, int row_tiles, long long item)
{
    const int row0 = (int)(item % row_tiles) * plan.tile_rows;
    return plan.head_rows - row0 < plan.tile_rows ? plan.head_rows - row0 : plan.tile_rows;
}

/* With sequences of the same length. An item that shares share out is begun more than once. */
static struct decode_rows rows_in_shares(const struct attention *call, struct balanced_plan plan)
{
    const int row_tiles = plan.items / call->kv_heads, units = balanced_units(call->seq_kv);
    const long long all = (long long)call->batch * plan.items * units;
    const long long share = plan.share > 0 ? plan.share : balanced_share(all, plan.blocks);
    struct decode_rows rows = {(long long)attention_query_rows(call), 0};
    for (long long end = share; end < all; end += share) {
        if (end % units == 0)
            continue;
        const long long item = end / units;
        const int of_item = rows_of_item(plan, row_tiles, item);
        const bool first_cut = end - share <= item * units;
        rows.begun += of_item;
        rows.merged += (first_cut ? 2 : 1) * of_item;
    }
    return rows;
}

static struct cost decode_balanced_cost(const struct attention_kernel *row,
                                        const struct attention *call)
{
    (void)row;
    return decode_tile_cost(call, rows_in_shares(call, balanced_plan_here(call)), DECODE_WARPS);
}

/* The blocks of a cluster begin an item each, and merge it in shared memory. Tiles of keys that are
 * whole come a box of 64 columns at a time. */
static struct cost decode_ring_cost(const struct attention_kernel *row,
                                    const struct attention *call)
{
    (void)row;
    const struct balanced_plan plan = ring_plan_here(call);
    const struct decode_rows in_clusters = {(long long)attention_query_rows(call) * plan.cluster,
                                            0};
    struct cost cost = decode_tile_cost(
        call, plan.cluster > 1 ? in_clusters : rows_in_shares(call, plan), DECODE_RING_WARPS);
    const bool paged = call->page_size > 0 && call->page_size < DECODE_KEYS;
    const int box_keys = paged ? call->page_size : DECODE_KEYS,
              panels = call->head_dim <= 64 ? 1 : 2;
    const long long whole = (long long)call->batch * call->kv_heads *
                            decode_loaded_keys(call, plan.head_rows, plan.tile_rows, DECODE_KEYS);
    cost.loads -= 2 * (whole * call->head_dim / 8 - whole / box_keys * panels);
    return cost;
}

static const struct attention_kernel core[] = {
    ATTENTION_ROW(
        half, "01_half.cu",
        "half storage, float arithmetic on CUDA cores; a causal mask skips the tiles it hides",
        .about.claims =
            "--heads 1 --seq 256 --causal: global_loads <= 122880, shared_loads >= 1000000",
        .types = F16, .max_head_dim = 128, .causal = true, .cost = half_cost, .Br = {64, 64},
        .Bc = {32, 32}),
    ATTENTION_ROW(
        wmma, "02_wmma.cu",
        "a side path for a T4: tensor cores through wmma; S and P pass through shared memory",
        .about.claims = "--heads 1 --seq 256: matrix_multiplies >= 6700000, shared_loads <= "
                        "245760, global_loads <= 24000",
        .about.architecture = "sm_75", .types = F16, TENSOR_CORE_LIMITS, .cost = wmma_cost,
        .Br = {64, 64}, .Bc = {32, 32}),
    ATTENTION_ROW(mma, "03_mma.cu", "mma.sync and ldmatrix: S and P never leave the registers",
                  .about.claims = "--heads 1 --seq 256: matrix_multiplies >= 6700000, shared_loads "
                                  "<= 90000, shared_stores <= 25600, global_loads <= 24000",
                  .about.architecture = "sm_80", BOTH_TYPES, .cost = mma_cost, .Br = {64, 64},
                  .Bc = {64, 64}),
    ATTENTION_ROW(mma_async, "04_mma_async.cu",
                  "the next tile is copied while this one is multiplied",
                  .about.claims = "--heads 1 --seq 256: copies_ahead >= 8000, barriers <= 25, "
                                  "matrix_multiplies >= 6700000",
                  .about.after = "mma", .about.architecture = "sm_80", BOTH_TYPES,
                  .cost = mma_async_cost, .Br = {64, 64}, .Bc = {64, 64}),
    ATTENTION_ROW(
        mma_swizzled, "05_mma_swizzled.cu",
        "32 rows a warp and swizzled tiles: fewer reads, none with a bank conflict",
        .about.claims =
            "--heads 1 --seq 256: shared_loads <= 60000, shared_wavefronts "
            "<= 10000, global_loads <= 15000, matrix_multiplies >= 6700000, copies_ahead >= 4000",
        .about.after = "mma_async", .about.was = "mma_tall", .about.architecture = "sm_80",
        BOTH_TYPES, .cost = mma_async_cost, .Br = {128, 128}, .Bc = {48, 64}),
    ATTENTION_ROW(
        mma_ordered, "06_mma_ordered.cu",
        "tiles in an order that fills chip and cache; O leaves 16 bytes a lane",
        .about.claims = "--heads 1 --seq 256: global_stores <= 2880, matrix_multiplies >= 6700000, "
                        "global_store_sectors <= 1320, "
                        "shared_wavefronts <= 10080, copies_ahead >= 4000; --heads 8 --seq 384 "
                        "--causal: wave_accesses <= 136000",
        .about.after = "mma_swizzled", .about.was = "mma_staged", .about.architecture = "sm_80",
        BOTH_TYPES, .cost = mma_ordered_cost, .Br = {128, 128}, .Bc = {48, 64}),
    {.about.name = NULL},
};

static const struct attention_kernel hopper[] = {
    ATTENTION_ROW(
        mma_tma, "07_mma_tma.cu", "one thread requests whole tiles from the copy engine",
        .about.claims = "--heads 1 --seq 256: global_loads <= 33, matrix_multiplies >= 6700000",
        .about.after = "mma_ordered", .about.architecture = "sm_90", BOTH_TYPES,
        .cost = mma_tma_cost, .Br = {128, 128}, .Bc = {48, 64}, .about.shown_sizes = PIPELINE),
    ATTENTION_ROW(wgmma, "08_wgmma.cu",
                  "products by four warps at once, straight from shared memory",
                  .about.claims = "--heads 1 --seq 256: matrix_multiplies >= 6700000, shared_loads "
                                  "<= 25600, global_loads <= 15",
                  HOPPER_LIMITS, .cost = wgmma_cost, .Br = {128, 128}, .Bc = {128, 128},
                  .about.shown_sizes = PIPELINE),
    ATTENTION_ROW(producer_warp, "09_producer_warp.cu",
                  "one warp loads, the others compute, registers move to them",
                  .about.claims = "--heads 1 --seq-q 256 --seq-kv 640 --head-dim 128: barriers <= "
                                  "3, threads >= 700, matrix_multiplies >= 33000000",
                  .about.after = "wgmma", HOPPER_LIMITS, .cost = wgmma_cost, HOPPER_TILES,
                  .about.shown_sizes = PIPELINE),
    ATTENTION_ROW(overlap, "10_overlap.cu",
                  "the output of a block of keys runs under the next softmax",
                  .about.claims = "--heads 1 --seq-q 256 --seq-kv 640 --head-dim 128: "
                                  "products_in_flight >= 13000, matrix_multiplies >= 33000000",
                  .about.after = "producer_warp", HOPPER_LIMITS, .cost = wgmma_cost, HOPPER_TILES,
                  .about.shown_sizes = PIPELINE),
    ATTENTION_ROW(ping_pong, "11_ping_pong.cu",
                  "the warpgroups take turns: softmax of one under the products of the other",
                  .about.claims = "--heads 1 --seq-q 256 --seq-kv 640 --head-dim 128: barriers >= "
                                  "19, products_in_flight >= 13000, matrix_multiplies >= 33000000",
                  .about.timed_at = "N512 d128 causal", .about.after = "overlap", HOPPER_LIMITS,
                  .cost = wgmma_cost, HOPPER_TILES, .about.shown_sizes = PIPELINE),
    {.about.name = NULL},
};

static const struct attention_kernel limit[] = {
    ATTENTION_ROW(tma_store, "12_tma_store.cu",
                  "O leaves through shared memory and the copy engine",
                  .about.claims = "--heads 1 --seq-q 256 --seq-kv 640 --head-dim 128: "
                                  "global_stores <= 360, matrix_multiplies >= 33000000",
                  .about.timed_at = "N512 d128 causal", .about.after = "ping_pong", HOPPER_LIMITS,
                  .cost = tma_store_cost, HOPPER_TILES, .about.shown_sizes = PIPELINE),
    ATTENTION_ROW(persistent_blocks, "13_persistent_blocks.cu",
                  "blocks stay: each draws its next tile, whose loads begin before it has stored "
                  "the last one",
                  .about.claims = "--heads 5 --seq 256 --head-dim 128: blocks <= 8, atomics >= 10, "
                                  "matrix_multiplies >= 67000000",
                  .about.timed_at = "N512 d128 causal", .about.after = "tma_store",
                  .about.was = "drawn ahead resident", HOPPER_LIMITS,
                  .workspace = counter_workspace, .cost = tma_store_cost, HOPPER_TILES,
                  .about.shown_sizes = FIVE_HEADS),
    ATTENTION_ROW(across_tiles, "14_across_tiles.cu",
                  "the pipeline runs on across the edge between two tiles",
                  .about.claims = "--heads 5 --seq 256 --head-dim 128: products_in_flight >= "
                                  "22528, matrix_multiplies >= 67000000",
                  .about.timed_at = "N512 d128 causal", .about.after = "persistent_blocks",
                  .about.was = "persistent", HOPPER_LIMITS, .workspace = counter_workspace,
                  .cost = across_tiles_cost, HOPPER_TILES, .about.shown_sizes = FIVE_HEADS),
    ATTENTION_ROW(multicast, "15_multicast.cu",
                  "pairs of blocks: one load brings keys and values to both",
                  .about.claims = "--heads 1 --seq-q 256 --seq-kv 640 --head-dim 128: "
                                  "global_load_sectors <= 15360, matrix_multiplies >= 33000000",
                  .about.after = "across_tiles", HOPPER_LIMITS, .workspace = multicast_workspace,
                  .cost = multicast_cost, HOPPER_TILES, PAIRS),
    ATTENTION_ROW(lazy_rescale, "16_lazy_rescale.cu",
                  "a maximum that has grown a little is not followed: O is rarely multiplied",
                  .about.after = "multicast", HOPPER_LIMITS, .workspace = multicast_workspace,
                  .cost = multicast_cost, HOPPER_TILES, PAIRS),
    ATTENTION_ROW(drawn_pairs, "17_drawn_pairs.cu",
                  "a warp of its own draws for a pair: causal pairs, too",
                  .about.claims = "--heads 1 --seq-q 256 --seq-kv 1152 --causal --head-dim 128: "
                                  "global_load_sectors <= 25600, matrix_multiplies >= 60000000",
                  .about.after = "lazy_rescale", HOPPER_LIMITS, .workspace = multicast_workspace,
                  .cost = drawn_pairs_cost, HOPPER_TILES, CAUSAL_PAIRS),
    ATTENTION_ROW(folded, "18_folded.cu",
                  "a pair's rows are folded: both of its blocks skip masked keys",
                  .about.claims = "--heads 1 --seq-q 256 --seq-kv 1152 --causal --head-dim 128: "
                                  "matrix_multiplies <= 73000000, matrix_multiplies >= 60000000",
                  .about.after = "drawn_pairs", HOPPER_LIMITS, .workspace = multicast_workspace,
                  .cost = drawn_pairs_cost, HOPPER_TILES, CAUSAL_PAIRS),
    ATTENTION_ROW(skipping, "19_skipping.cu",
                  "a warpgroup skips keys that none of its own rows sees",
                  .about.claims = "--heads 2 --kv-heads 1 --seq-q 140 --seq-kv 520 --head-dim 64 "
                                  "--causal: matrix_multiplies <= 29000000, matrix_multiplies >= "
                                  "24000000",
                  .about.edges = SKIPPING_EDGES, .about.after = "folded", HOPPER_LIMITS,
                  .workspace = multicast_workspace, .cost = drawn_pairs_cost, HOPPER_TILES,
                  .about.own_sizes =
                      "--heads 2 --kv-heads 1 --seq-q 140 --seq-kv 520 --head-dim 64 --causal"),
    {.about.name = NULL},
};

static const struct attention_kernel variants[] = {
    ATTENTION_ROW(
        half_variants, "20_half_variants.cu",
        "what models change: a window, a soft cap, ALiBi, lengths",
        .about.claims = "--heads 1 --seq 512 --causal --window 64: global_loads <= 163840, "
                        "shared_loads >= 1000000",
        .about.after = "half", .about.shown_sizes = "--heads 1 --seq 256 --causal --window 64",
        .types = F16, .max_head_dim = 128, .causal = true, .variants = true, .cost = half_cost,
        .Br = {64, 64}, .Bc = {32, 32}),
    {.about.name = NULL},
};

/* One key, none, tiles and one more or fewer; one query to 16 and more, in groups of 1, 3, 4 and 8;
 * pages smaller than a tile, as large and larger, lengths, and more sequences than lanes. */
#define DECODE_EDGES                                                                               \
    "--heads 8 --kv-heads 1 --seq-q 1,1,2,1,1,2,1 --seq-kv 1,63,64,65,127,128,513 "                \
    "--head-dim 128,64,40,128,8,72,128 --causal 0,1,1,0,0,1,1 --inputs ascending;"                 \
    "--heads 3,4,8,1,4,2,8 --kv-heads 1,2,1,1,1,2,2 --seq-q 16,5,8,16,4,17,3 "                     \
    "--seq-kv 300,130,200,129,640,90,700 --head-dim 64,128,128,120,128,64,64 --causal;"            \
    "--batch 3,2,4,3,2 --heads 4,8,3,6,2 --kv-heads 2,1,1,2,2 --seq-q 1,2,3,1,16 "                 \
    "--seq-kv 200,513,130,300,600 --head-dim 128,64,128,72,128 --page 16,32,64,128,256 "           \
    "--lengths 0,1,1,1,1 --causal 0,0,1,1,1 --type f16,bf16,f16,bf16,f16;"                         \
    "--batch 5 --heads 2 --kv-heads 1 --seq-q 1,4 --seq-kv 2,700 --head-dim 64 --lengths "         \
    "--causal 0,1 --inputs large,special;"                                                         \
    "--heads 2 --kv-heads 1 --seq-q 1 --seq-kv 3000 --head-dim 64,128 --inputs "                   \
    "ascending,descending --launches 3;"                                                           \
    "--batch 70,100 --heads 2 --kv-heads 1 --seq-q 1 --seq-kv 200 --head-dim 8 --lengths 0,1"

/* Shown: a group of heads, and several runs. */
#define DECODE_SHOWN "--heads 4 --kv-heads 1 --seq-q 1 --seq-kv 512"

#define DECODE_LIMITS_OF(ARCHITECTURE)                                                             \
    .about.architecture = (ARCHITECTURE), .about.edges = DECODE_EDGES, BOTH_TYPES,                 \
    .lengths = true, .paged = true, .about.shown_sizes = DECODE_SHOWN
#define DECODE_LIMITS DECODE_LIMITS_OF("sm_80")

static const struct attention_kernel decode[] = {
    ATTENTION_ROW(decode_split, "21_decode_split.cu",
                  "keys split over blocks; a row at a time, partial (m, l, O) merged",
                  .about.claims = "--heads 1 --seq-q 1 --seq-kv 1024: blocks >= 4, global_loads <= "
                                  "24000, shared_loads <= 5000",
                  .about.after = "half", DECODE_LIMITS, .workspace = decode_split_workspace,
                  .cost = decode_split_cost),
    ATTENTION_ROW(decode_packed, "22_decode_packed.cu",
                  "grouped heads and queries are rows of one product: K and V read once a kv head",
                  .about.claims = "--heads 8 --kv-heads 1 --seq-q 2 --seq-kv 4096: "
                                  "matrix_multiplies >= 8000000, global_load_sectors <= 46000",
                  .about.after = "decode_split", DECODE_LIMITS,
                  .workspace = decode_packed_workspace, .cost = decode_packed_cost),
    ATTENTION_ROW(decode_async, "23_decode_async.cu",
                  "a ring of stages: enough bytes on their way to fill the memory's latency",
                  .about.claims = "--heads 8 --kv-heads 1 --seq-q 2 --seq-kv 4096: copies_ahead >= "
                                  "40000, matrix_multiplies >= 8000000",
                  .about.after = "decode_packed", DECODE_LIMITS,
                  .workspace = decode_async_workspace, .cost = decode_async_cost),
    ATTENTION_ROW(decode_balanced, "27_decode_balanced.cu",
                  "equal shares of all tiles, by lengths; the last block of an item merges it",
                  .about.claims = "--batch 6 --heads 8 --kv-heads 1 --seq-q 2 --seq-kv 4096: "
                                  "launches <= 1, blocks <= 16, atomics >= 16, "
                                  "copies_ahead >= 300000",
                  .about.after = "decode_async", DECODE_LIMITS,
                  .workspace = decode_balanced_workspace, .cost = decode_balanced_cost),
    ATTENTION_ROW(decode_wgmma, "31_decode_wgmma.cu",
                  "64 rows multiply as one warpgroup, and read K and V once from shared memory",
                  .about.claims = "--heads 64 --kv-heads 1 --seq-q 1 --seq-kv 2048: shared_loads "
                                  "<= 90000, matrix_multiplies >= 16000000, copies_ahead >= 16000",
                  .about.after = "decode_balanced", DECODE_LIMITS_OF("sm_90a"),
                  .workspace = decode_balanced_workspace, .cost = decode_balanced_cost),
    ATTENTION_ROW(
        decode_ring, "32_decode_ring.cu",
        "producer warps fill a ring of tiles, which goes on from item to item",
        .about.claims =
            "--heads 8 --kv-heads 1 --seq-q 2 --seq-kv 4096: barriers <= 40, global_stores <= 300, "
            "global_loads <= 40000",
        .about.after = "decode_wgmma", DECODE_LIMITS_OF("sm_90a"),
        .workspace = decode_ring_workspace, .cost = decode_ring_cost),
    {.about.name = NULL},
};

/* Queries that pass by, and tiles of them, over the tiles of Bc keys of a head. */
struct passed {
    long long queries, tiles;
};

static struct passed passed(const struct attention_backward *call, int Br, int Bc)
{
    struct passed total = {0};
    for (int key0 = 0; key0 < call->seq_kv; key0 += Bc) {
        const int first = backward_first_query(call->causal, key0, call->seq_q, call->seq_kv, Br);
        total.queries += call->seq_q - first;
        total.tiles += ceil_div(call->seq_q - first, Br);
    }
    return total;
}

/*
 * Every rung makes D of dO and O, 8 elements at a time, and loads LSE and D for each query that
 * passes a tile of keys. `loads` bring `elements` more of Q, dO, K and V; `sums` are floats of dQ,
 * which begin at 0, and which the last kernel loads, both four at a time, to store it eight
 * elements at a time. dK and dV are stored `store` elements at a time. Atomics are not counted.
 */
static struct cost gradients_cost(const struct attention_backward *call, long long loads,
                                  long long elements, long long passed_queries, long long sums,
                                  int store)
{
    const long long rows = attention_backward_query_rows(call), d = call->head_dim;
    const long long keys = attention_backward_key_rows(call);
    const long long floats = 2LL * call->batch * call->heads * passed_queries;
    return (struct cost){loads + 2 * rows * d / 8 + floats + sums / 4,
                         2 * keys * d / store + rows + rows * d / 8 + sums / 4,
                         2 * (elements + 2 * rows * d) + 4 * (floats + sums),
                         4 * keys * d + 4 * rows + 2 * rows * d + 4 * sums};
}

/* Elements of Q, dO, K and V: K and V once, Q and dO as often as they pass. */
static long long loaded_elements(const struct attention_backward *call, struct passed of_head)
{
    const long long keys = attention_backward_key_rows(call);
    const long long heads = (long long)call->batch * call->heads;
    return 2 * (keys + heads * of_head.queries) * call->head_dim;
}

/* dQ in floats, and D. */
static size_t backward_mma_workspace(const struct attention_backward *call)
{
    const size_t rows = attention_backward_query_rows(call);
    return rows * ((size_t)call->head_dim + 1) * sizeof(float);
}

static struct cost backward_mma_cost(const struct attention_backward *call)
{
    const struct passed of_head = passed(call, BACKWARD_QUERIES, BACKWARD_KEYS);
    const long long elements = loaded_elements(call, of_head);
    const long long sums = (long long)attention_backward_query_rows(call) * call->head_dim;
    return gradients_cost(call, elements / 8, elements, of_head.queries, sums, 2);
}

/* Floats of dQ in whole tiles of Br queries, features rounded up. */
static size_t tiles_of_dQ(const struct attention_backward *call, int Br)
{
    return query_tiles(call, Br) * Br * (call->head_dim <= 64 ? 64 : 128);
}

/* These, and D. */
static size_t backward_mma_async_workspace(const struct attention_backward *call)
{
    const size_t rows = attention_backward_query_rows(call);
    return (tiles_of_dQ(call, BACKWARD_QUERIES) + rows) * sizeof(float);
}

static struct cost backward_mma_async_cost(const struct attention_backward *call)
{
    struct device_limits device;
    current_device(&device);
    const bool small = small_async_tiles(call->head_dim, &device);
    const struct passed of_head =
        passed(call, BACKWARD_ASYNC_QUERIES(small), BACKWARD_ASYNC_KEYS(small));
    const long long elements = loaded_elements(call, of_head);
    return gradients_cost(call, elements / 8, elements, of_head.queries,
                          tiles_of_dQ(call, BACKWARD_QUERIES), 2);
}

/* Bytes of a counter and so many turns; none where there are no queries. */
static size_t counter_and_turns(const struct attention_backward *call, size_t turns)
{
    return attention_backward_query_rows(call) > 0 ? (turns + 1) * sizeof(int) : 0;
}

/* As many bytes for dQ and D; a turn of each 1,024 floats of dQ, which a warp adds at a time; and
 * the ticket counter. */
static size_t backward_in_turn_workspace(const struct attention_backward *call)
{
    const size_t turns = tiles_of_dQ(call, BACKWARD_QUERIES) / 1024;
    return backward_mma_async_workspace(call) + counter_and_turns(call, turns);
}

/* dQ in the workspace is loaded and stored by each tile of queries that passes. */
static struct cost backward_in_turn_cost(const struct attention_backward *call)
{
    struct device_limits device;
    current_device(&device);
    const bool small = small_async_tiles(call->head_dim, &device);
    const int Br = BACKWARD_ASYNC_QUERIES(small);
    const struct passed of_head = passed(call, Br, BACKWARD_ASYNC_KEYS(small));
    const long long added = (long long)call->batch * call->heads * of_head.tiles * Br *
                            (call->head_dim <= 64 ? 64 : 128);
    struct cost cost = backward_mma_async_cost(call);
    cost.loads += added / 4;
    cost.stores += added / 4;
    cost.bytes_read += sizeof(float) * added;
    cost.bytes_written += sizeof(float) * added;
    return cost;
}

/* dQ in tiles of Br queries, and D. */
static size_t warpgroups_workspace(const struct attention_backward *call, int Br)
{
    return (tiles_of_dQ(call, Br) + attention_backward_query_rows(call)) * sizeof(float);
}

static size_t backward_wgmma_workspace(const struct attention_backward *call)
{
    return warpgroups_workspace(call, BACKWARD_WGMMA_QUERIES(call->head_dim));
}

/* Q, dO, K and V come a box of 64 columns at a time. */
static struct cost warpgroups_cost(const struct attention_backward *call, int Br, int store)
{
    const int panels = call->head_dim <= 64 ? 1 : 2;
    const struct passed of_head = passed(call, Br, BACKWARD_BLOCK_KEYS);
    const long long heads = (long long)call->batch * call->heads;
    const long long kv_heads = (long long)call->batch * call->kv_heads;
    const long long key_tiles = ceil_div(call->seq_kv, BACKWARD_BLOCK_KEYS);
    const long long boxes = 2 * panels * (kv_heads * key_tiles + heads * of_head.tiles);
    return gradients_cost(call, boxes, loaded_elements(call, of_head), of_head.queries,
                          tiles_of_dQ(call, Br), store);
}

static struct cost backward_wgmma_cost(const struct attention_backward *call)
{
    return warpgroups_cost(call, BACKWARD_WGMMA_QUERIES(call->head_dim), 2);
}

static struct cost backward_one_barrier_cost(const struct attention_backward *call)
{
    return warpgroups_cost(call, BACKWARD_WGMMA_QUERIES(call->head_dim), 8);
}

/* Behind D a turn of each tile of queries, and the ticket counter. */
static size_t backward_in_order_workspace(const struct attention_backward *call)
{
    const size_t turns = query_tiles(call, BACKWARD_WGMMA_QUERIES(call->head_dim));
    return backward_wgmma_workspace(call) + counter_and_turns(call, turns);
}

/* Behind D the counter of tiles. */
static size_t backward_persistent_workspace(const struct attention_backward *call)
{
    return warpgroups_workspace(call, backward_persistent_queries(call)) +
           counter_and_turns(call, 0);
}

static struct cost backward_persistent_cost(const struct attention_backward *call)
{
    return warpgroups_cost(call, backward_persistent_queries(call), 8);
}

/* Heads of keys whose dQ has a place in backward_fused's workspace, on the current device. Not for
 * calls without queries or keys, or that attention_backward_run() refuses. */
static size_t fused_places(const struct attention_backward *call)
{
    struct device_limits device;
    current_device(&device);
    const struct tile_order order = key_order_of(call, BACKWARD_BLOCK_KEYS);
    return places_of(order, resident_blocks(order.tiles, &device));
}

/* dQ of these heads, D, two counters, one of 8 bytes, and two of each head; or that of
 * backward_persistent. */
static size_t backward_fused_workspace(const struct attention_backward *call)
{
    if (backward_has_tall_tiles(call))
        return backward_persistent_workspace(call);
    const size_t rows = attention_backward_query_rows(call);
    const size_t key_rows = attention_backward_key_rows(call);
    if (rows == 0 || rows > MAX_EXTENT || key_rows == 0 || key_rows > MAX_EXTENT)
        return 0;
    const size_t heads = (size_t)call->batch * call->heads;
    const size_t kv_heads = (size_t)call->batch * call->kv_heads;
    const size_t floats = tiles_of_dQ(call, BACKWARD_WGMMA_QUERIES(call->head_dim)) / heads *
                          (call->heads / call->kv_heads) * fused_places(call);
    return (floats + rows + rows % 2) * sizeof(float) + (3 + 2 * kv_heads) * sizeof(int);
}

/* In place of the zeros that dQ begins with, the first block at a tile of queries stores its part;
 * both where there are queries that no block meets. */
static struct cost backward_in_order_cost(const struct attention_backward *call)
{
    struct cost cost = backward_one_barrier_cost(call);
    if (!call->causal || call->seq_q <= call->seq_kv)
        return cost;
    const int Br = BACKWARD_WGMMA_QUERIES(call->head_dim);
    const long long floats =
        (long long)call->batch * call->heads * Br *
        ceil_div(call->seq_q - backward_first_query(true, 0, call->seq_q, call->seq_kv, Br), Br) *
        (call->head_dim <= 64 ? 64 : 128);
    cost.stores += floats / 4;
    cost.bytes_written += sizeof(float) * floats;
    return cost;
}

#define BACKWARD_LIMITS                                                                            \
    .about.flushes_subnormals = true, .types = F16 | BF16, .max_head_dim = 128,                    \
    .head_dim_multiple = 8, .alignment = 16, .causal = true

/* Tiles are ragged by one, or hold what is left; a group is two heads, or one. */
#define BLOCK_KEYS_EDGES                                                                           \
    "--heads 2 --kv-heads 1,1,2,1 --seq-q 127,128,129,300 --seq-kv 129,128,127,260 "               \
    "--head-dim 64,72,128,40 --type f16,bf16,f16,bf16 --causal 0,1,1,1"
#define BLOCK_KEYS_LIMITS .about.edges = BLOCK_KEYS_EDGES, BACKWARD_LIMITS

/* More tiles of keys than the CPU backend has multiprocessors. Of the first 64 queries none sees
 * the second warpgroup's keys, or some do, or there are no such keys; behind the last queries come
 * the first, or there is one tile of them. Tiles of 80 queries are whole, or ragged, with a mask,
 * too. */
#define PERSISTENT_EDGES                                                                           \
    BLOCK_KEYS_EDGES                                                                               \
    ";--heads 5,9,10,9,5,5 --kv-heads 5,9,5,9,5,5 --seq-q 200,256,200,64,300,200 "                 \
    "--seq-kv 250,128,150,100,400,400 --head-dim 72,128,72,128,40,72 "                             \
    "--type f16,bf16,bf16,f16,bf16,f16 --causal 1,1,1,1,0,0"                                       \
    ";--heads 2 --kv-heads 1,2 --seq-q 4180,4160 --seq-kv 140,40 --head-dim 72,128 "               \
    "--type bf16,f16"                                                                              \
    ";--heads 1 --seq-q 8240,8192 --seq-kv 300,272 --head-dim 72,128 --type f16,bf16 --causal 1,1"

/* More heads than have a place, too, alone and in groups; the last piece has padding alone. */
#define FUSED_EDGES                                                                                \
    PERSISTENT_EDGES                                                                               \
    ";--heads 16,34,14,6 --kv-heads 16,17,14,6 --seq-q 70,130,30,200 --seq-kv 140,129,400,40 "     \
    "--head-dim 72,40,64,128 --type f16,bf16,bf16,f16 --causal 0,0,0,1"

static const struct attention_backward_kernel backward[] = {
    ATTENTION_BACKWARD_ROW(
        backward_mma, "24_backward_mma.cu",
        "the five products on tensor cores, scores transposed; dQ by atomics in float",
        .about.claims = "--heads 1 --seq 128 --head-dim 64: matrix_multiplies >= 5000000, "
                        "matrix_multiplies <= 5300000, workspace_bytes <= 33280",
        .about.architecture = "sm_80", BACKWARD_LIMITS, .workspace = backward_mma_workspace,
        .cost = backward_mma_cost),
    ATTENTION_BACKWARD_ROW(
        backward_mma_async, "28_backward_mma_async.cu",
        "the next queries are copied meanwhile; 128 keys a block; dQ is added as it lies",
        .about.claims = "--heads 1 --seq 256 --head-dim 64: matrix_multiplies >= 20000000, "
                        "matrix_multiplies <= 21000000, atomics <= 8192, global_loads <= 26000, "
                        "copies_ahead >= 5500, shared_wavefronts <= 30000",
        .about.after = "backward_mma", .about.architecture = "sm_80", BLOCK_KEYS_LIMITS,
        .workspace = backward_mma_async_workspace, .cost = backward_mma_async_cost),
    ATTENTION_BACKWARD_ROW(
        backward_in_turn, "29_backward_in_turn.cu",
        "blocks add to a tile of dQ in one order, always the same: the same bits in every run",
        .about.claims = "--heads 1 --seq 256 --head-dim 64: matrix_multiplies >= 20000000, "
                        "matrix_multiplies <= 21000000, global_stores >= 25000, "
                        "copies_ahead >= 5500",
        .about.after = "backward_mma_async", .about.architecture = "sm_80", .about.polls = true,
        BLOCK_KEYS_LIMITS, .workspace = backward_in_turn_workspace, .cost = backward_in_turn_cost),
    ATTENTION_BACKWARD_ROW(
        backward_wgmma, "25_backward_wgmma.cu",
        "warpgroups multiply what a producer warp requests; dQ is added as it lies in registers",
        .about.claims = "--heads 1 --seq 256 --head-dim 64: matrix_multiplies >= 20000000, "
                        "matrix_multiplies <= 21000000, atomics <= 8192, global_loads <= 9300",
        .about.after = "backward_mma_async", .about.architecture = "sm_90a", BLOCK_KEYS_LIMITS,
        .workspace = backward_wgmma_workspace, .cost = backward_wgmma_cost),
    ATTENTION_BACKWARD_ROW(
        backward_bulk_adds, "26_backward_bulk_adds.cu",
        "dQ is left in shared memory, and the copy engine adds it",
        .about.claims = "--heads 1 --seq 256 --head-dim 64: matrix_multiplies >= 20000000, "
                        "matrix_multiplies <= 21000000, atomics <= 8, global_loads <= 9300",
        .about.after = "backward_wgmma", .about.architecture = "sm_90a", BLOCK_KEYS_LIMITS,
        .workspace = backward_wgmma_workspace, .cost = backward_wgmma_cost),
    ATTENTION_BACKWARD_ROW(
        backward_one_barrier, "30_backward_one_barrier.cu",
        "the tensor cores take dS from where it lies, and dQ is added from registers again",
        .about.claims =
            "--heads 1 --seq-q 1024 --seq-kv 128 --head-dim 128: matrix_multiplies >= 80000000, "
            "matrix_multiplies <= 84000000, barriers <= 17, shared_wavefronts <= 53000",
        .about.after = "backward_bulk_adds", .about.architecture = "sm_90a", BLOCK_KEYS_LIMITS,
        .workspace = backward_wgmma_workspace, .cost = backward_one_barrier_cost),
    ATTENTION_BACKWARD_ROW(
        backward_in_order, "33_backward_in_order.cu",
        "two warps of each block take turns at dQ: one order of the additions, the same bits",
        .about.claims =
            "--heads 1 --seq-q 1024 --seq-kv 128 --head-dim 128: matrix_multiplies >= 80000000, "
            "matrix_multiplies <= 84000000, barriers <= 17, atomics >= 33, atomics <= 40",
        .about.after = "backward_one_barrier", .about.architecture = "sm_90a", .about.polls = true,
        BLOCK_KEYS_LIMITS, .workspace = backward_in_order_workspace,
        .cost = backward_in_order_cost),
    ATTENTION_BACKWARD_ROW(
        backward_persistent, "34_backward_persistent.cu",
        "blocks stay: the next keys arrive while dK and dV of the last ones are stored",
        .about.claims = "--heads 5 --seq 256 --head-dim 128 --causal: blocks <= 208, "
                        "matrix_multiplies >= 136000000, matrix_multiplies <= 137000000",
        .about.edges = PERSISTENT_EDGES, .about.shown_sizes = FIVE_HEADS " --causal",
        .about.after = "backward_one_barrier", .about.architecture = "sm_90a", BACKWARD_LIMITS,
        .workspace = backward_persistent_workspace, .cost = backward_persistent_cost),
    ATTENTION_BACKWARD_ROW(
        backward_fused, "35_backward_fused.cu",
        "one launch: idle warps make D and store dQ, of which few heads have a place",
        .about.claims = "--heads 30 --seq-q 64 --seq-kv 256 --head-dim 64: launches <= 1, "
                        "workspace_bytes <= 600000, matrix_multiplies >= 314000000",
        .about.edges = FUSED_EDGES, .about.shown_sizes = FIVE_HEADS,
        .about.after = "backward_persistent", .about.architecture = "sm_90a", .about.polls = true,
        BACKWARD_LIMITS, .workspace = backward_fused_workspace, .cost = backward_persistent_cost),
    {.about.name = NULL},
};

const struct step step_06 = {"06_causal_half",
                             {{"core", &attention_problem, core},
                              {"variants", &attention_problem, variants},
                              {"decode", &attention_problem, decode},
                              {"hopper", &attention_problem, hopper},
                              {"limit", &attention_problem, limit},
                              {"backward", &attention_backward_problem, backward}}};
