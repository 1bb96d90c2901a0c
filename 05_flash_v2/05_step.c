/* Step 05's rows, a table for each ladder: common/problems/attention.h says what the fields are. */
#include "05_step.h"
#include "2_flash_v2.h"
#include "harness/ladder.h"
#include "05_flash_v2/backward/backward_tiles.h"
#include "05_flash_v2/decode/7_split_kv_naive.h"
#include "05_flash_v2/decode/8_split_kv.h"
#include "device/device.h"
#include "query_tiles.h"

#include <limits.h>
#include <stdint.h>

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

static struct cost flash_v2_large_tiles_cost(const struct attention_kernel *row,
                                             const struct attention *call)
{
    struct device_limits device;
    (void)row;
    current_device(&device);
    const bool large = large_tile_fits(call->head_dim, &device);
    return tiles_of_queries_cost(call, query_tile_of(large, call->head_dim).Br, width(call),
                                 width(call));
}

/* Elements of S, and the floats of D. */
static size_t backward_scores(const struct attention_backward *call)
{
    return attention_backward_query_rows(call) * (size_t)call->seq_kv;
}

static size_t backward_D_workspace(const struct attention_backward *call)
{
    return attention_backward_query_rows(call) * sizeof(float);
}

/* No device has what does not fit a size_t. */
static size_t backward_standard_workspace(const struct attention_backward *call)
{
    if (backward_scores(call) > SIZE_MAX / 16)
        return SIZE_MAX;
    return 2 * backward_scores(call) * sizeof(float) + backward_D_workspace(call);
}

/* D loads dO and O once. Stores are the gradients, D, and what else a kernel stores. */
static struct cost backward_cost(const struct attention_backward *call, long long loads,
                                 long long stores)
{
    const long long queries = attention_backward_query_rows(call), d = call->head_dim;
    const long long keys = attention_backward_key_rows(call);
    loads += 2 * queries * d;
    stores += queries + 2 * keys * d;
    return (struct cost){loads, stores, sizeof(float) * loads, sizeof(float) * stores};
}

/* Five products from memory; LSE, P and D once for each score; P and dS are stored. */
static struct cost backward_standard_cost(const struct attention_backward *call)
{
    const long long scores = backward_scores(call), d = call->head_dim;
    return backward_cost(call, scores * (10 * d + 3),
                         2 * scores + (long long)attention_backward_query_rows(call) * d);
}

enum { BACKWARD_TILE = 16 };

/* K and V once, Q and dO once for each tile of keys, LSE and D once for each score. What atomics
 * add to dQ is not counted here. */
static struct cost backward_recompute_cost(const struct attention_backward *call)
{
    const long long d = call->head_dim, queries = attention_backward_query_rows(call);
    const long long keys = attention_backward_key_rows(call);
    const long long tiles = ceil_div(call->seq_kv, BACKWARD_TILE);
    return backward_cost(
        call, 2 * keys * d + tiles * queries * 2 * d + 2 * (long long)backward_scores(call), 0);
}

/* The second pass loads Q and dO once, LSE and D in each of a row's threads, K and V once for each
 * tile of queries. */
static struct cost backward_two_pass_cost(const struct attention_backward *call)
{
    const long long d = call->head_dim, queries = attention_backward_query_rows(call);
    const long long heads = (long long)call->batch * call->heads;
    const long long tiles = heads * ceil_div(call->seq_q, BACKWARD_TILE);
    const long long second = queries * (2 * d + 2 * BACKWARD_TILE) + tiles * call->seq_kv * 2 * d;
    struct cost cost = backward_recompute_cost(call);
    cost.loads += second;
    cost.bytes_read += sizeof(float) * second;
    cost.stores += queries * d;
    cost.bytes_written += sizeof(float) * queries * d;
    return cost;
}

/* As backward_recompute with the device's tile, 16 bytes at a time; LSE and D once for each tile of
 * keys. */
static struct cost backward_registers_cost(const struct attention_backward *call)
{
    struct device_limits device;
    current_device(&device);
    const bool large = large_backward_tile_fits(call->head_dim, &device);
    const long long Bc = backward_tile_of(large, call->head_dim).Bc;
    const long long d = call->head_dim, queries = attention_backward_query_rows(call);
    const long long keys = attention_backward_key_rows(call), wide = d % 4 == 0 ? 4 : 1;
    const long long passes = queries * ceil_div(call->seq_kv, (int)Bc);
    const long long tiles = 2 * keys * d + passes * 2 * d;
    struct cost cost = backward_cost(call, tiles + passes * 2, 0);
    cost.loads -= tiles - tiles / wide;
    cost.stores -= 2 * keys * d - 2 * keys * d / wide;
    return cost;
}

static const struct attention_kernel core[] = {
    ATTENTION_ROW(flash_v2_exchanged, "1_flash_v2_exchanged.cu",
                  "flash_v1 with its two loops exchanged; O is divided by l once, at the end",
                  .about.claims = "--heads 1 --seq 64: global_stores <= 5200, launches <= 1, "
                                  "workspace_bytes <= 0, shared_loads >= 500000",
                  .about.after = "flash_v1", .max_head_dim = 128, .cost = flash_v2_cost,
                  .Br = {16, 16}, .Bc = {16, 16}, .about.shown_sizes = "--heads 1 --seq 64"),
    ATTENTION_ROW(flash_v2, "2_flash_v2.cu",
                  "K transposed in shared memory; maximum and sum of a row by shuffles",
                  .about.claims = "--heads 1 --seq 64: shared_wavefronts <= 42560, shared_loads >= "
                                  "500000, barriers <= 40, global_loads <= 46080",
                  .about.after = "flash_v2_exchanged", .max_head_dim = 128, .cost = flash_v2_cost,
                  .Br = {16, 16}, .Bc = {16, 16}),
    ATTENTION_ROW(flash_v2_rectangles, "3_flash_v2_rectangles.cu",
                  "a warp owns its rows, a thread a rectangle of S and of O in registers",
                  .about.claims = "--heads 1 --seq 64: shared_loads <= 71680, shared_loads >= "
                                  "40000, shared_wavefronts <= "
                                  "9600, global_loads <= 15360",
                  .max_head_dim = 128, .cost = flash_v2_rectangles_cost),
    {.about.name = NULL},
};

static const struct attention_kernel limit[] = {
    ATTENTION_ROW(
        flash_v2_async, "4_flash_v2_async.cu", "K and V are copied while the products run",
        .about.claims = "--heads 1 --seq 64: copies_ahead >= 4000, copies_in_flight >= 4000",
        .about.after = "flash_v2_rectangles", .max_head_dim = 128, .cost = flash_v2_async_cost),
    ATTENTION_ROW(
        flash_v2_large_tiles, "5_flash_v2_large_tiles.cu",
        "8 x 8 of S and of O per thread where the device has the room",
        .about.claims = "--heads 1 --seq 192: shared_loads <= 490000, global_loads <= 53760",
        .about.after = "flash_v2_async", .max_head_dim = 128, .cost = flash_v2_large_tiles_cost),
    ATTENTION_ROW(flash_v2_base_2, "6_flash_v2_base_2.cu",
                  "exponentials of base 2, the scale and log2 e multiplied into Q",
                  .about.after = "flash_v2_large_tiles", .about.was = "flash_v2_registers",
                  .max_head_dim = 128, .cost = flash_v2_large_tiles_cost),
    {.about.name = NULL},
};

/* There are few queries for the keys: runs, tiles and heads change together, and there are more
 * runs than groups that merge them. */
#define SPLIT_EDGES                                                                                \
    "--heads 4 --kv-heads 2 --seq-q 50 --seq-kv 1300 --head-dim 40 --inputs descending;"           \
    "--heads 1 --seq-q 1,1,3 --seq-kv 4200,2900,1500 --head-dim 128,64,128 --inputs ascending;"    \
    "--batch 2,3,1 --heads 3,2,4 --kv-heads 3,1,2 --seq-q 1 --seq-kv 530 --head-dim 8;"            \
    "--heads 1 --seq-q 1 --seq-kv 520 --head-dim 4,30,64,72,128 --offset 4,8,12,4,8;"              \
    "--heads 1 --seq-q 1 --seq-kv 520 --head-dim 128 --offset 4 --offset-of Q,K,V,O,LSE;"          \
    "--heads 1 --seq-q 1 --seq-kv 700 --head-dim 40 --launches 3"

static const struct attention_kernel decode[] = {
    ATTENTION_ROW(split_kv_naive, "7_split_kv_naive.cu",
                  "the keys split over blocks; partial (O, LSE) merged by a thread per row",
                  .about.claims = "--heads 1 --seq-q 1 --seq-kv 1024: wave_accesses <= 1400000, "
                                  "blocks >= 4, launches <= 2",
                  .about.edges = SPLIT_EDGES, .about.after = "flash_v2",
                  .about.timed_at = "B1 H8 1x131072 d64", .max_head_dim = 128,
                  .workspace = split_kv_naive_workspace, .cost = split_kv_naive_cost,
                  .about.shown_sizes = "--heads 1 --seq-q 1 --seq-kv 1024"),
    ATTENTION_ROW(
        split_kv, "8_split_kv.cu",
        "split keys for few queries: a group of lanes per key, float4, merged on chip",
        .about.claims =
            "--heads 1 --seq-q 1 --seq-kv 1024: wave_accesses <= 12100, global_loads <= 42400",
        .about.edges = SPLIT_EDGES, .about.timed_at = "B1 H8 1x131072 d64", .max_head_dim = 128,
        .workspace = split_kv_workspace, .cost = split_kv_cost,
        .about.shown_sizes = "--heads 1 --seq-q 1 --seq-kv 1024"),
    {.about.name = NULL},
};

static const struct attention_backward_kernel backward[] = {
    ATTENTION_BACKWARD_ROW(backward_standard, "09_backward_standard.cu",
                           "the gradients as they are written down: P and dS in global memory",
                           .about.claims = "--heads 1 --seq 64: threads >= 16000, "
                                           "global_loads <= 3300000, atomics <= 0",
                           .max_head_dim = 128, .workspace = backward_standard_workspace,
                           .cost = backward_standard_cost),
    ATTENTION_BACKWARD_ROW(
        backward_recompute, "10_backward_recompute.cu",
        "P again from LSE; dK and dV stay on chip, dQ is added by atomics",
        .about.claims = "--heads 1 --seq 64: workspace_bytes <= 256, global_loads <= 72000, "
                        "atomics <= 20480, shared_loads >= 1000000",
        .about.after = "backward_standard", .about.flushes_subnormals = true, .max_head_dim = 128,
        .workspace = backward_D_workspace, .cost = backward_recompute_cost),
    ATTENTION_BACKWARD_ROW(backward_two_pass, "11_backward_two_pass.cu",
                           "no atomics: a second pass, by tiles of queries, makes dQ",
                           .about.claims =
                               "--heads 1 --seq 64: atomics <= 0, workspace_bytes <= 256, "
                               "global_loads <= 125000, shared_loads >= 1500000",
                           .about.after = "backward_recompute", .max_head_dim = 128,
                           .workspace = backward_D_workspace, .cost = backward_two_pass_cost),
    ATTENTION_BACKWARD_ROW(
        backward_registers, "12_backward_registers.cu",
        "rectangles of S, dP, dK, dV and dQ in registers",
        .about.claims = "--heads 1 --seq 64: shared_loads <= 164000, shared_wavefronts <= "
                        "20500, global_loads <= 15500, shared_loads >= 60000",
        .about.after = "backward_recompute", .about.flushes_subnormals = true, .max_head_dim = 128,
        .workspace = backward_D_workspace, .cost = backward_registers_cost),
    ATTENTION_BACKWARD_ROW(backward_async, "13_backward_async.cu",
                           "Q and dO of the next tile are copied while dQ is computed",
                           .about.claims = "--heads 1 --seq 192: copies_ahead >= 10000",
                           .about.after = "backward_registers", .about.flushes_subnormals = true,
                           .max_head_dim = 128, .workspace = backward_D_workspace,
                           .cost = backward_registers_cost),
    ATTENTION_BACKWARD_ROW(backward_vector_adds, "14_backward_vector_adds.cu",
                           "four features of dQ are added in one request",
                           .about.claims = "--heads 1 --seq 64: atomics <= 1024, atomics >= 1024",
                           .about.after = "backward_async", .about.flushes_subnormals = true,
                           .max_head_dim = 128, .workspace = backward_D_workspace,
                           .cost = backward_registers_cost),
    {.about.name = NULL},
};

const struct step step_05 = {"05_flash_v2",
                             {{"core", &attention_problem, core},
                              {"limit", &attention_problem, limit},
                              {"decode", &attention_problem, decode},
                              {"backward", &attention_backward_problem, backward}}};
