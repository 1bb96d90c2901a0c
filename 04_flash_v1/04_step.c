/* Step 04's rows, a table for each ladder: common/problems/attention.h says what the fields are. */
#include "04_step.h"
#include "07_flash_v1.h"
#include "04_flash_v1/limit/slabs.cuh"
#include "harness/ladder.h"
#include "device/device.h"
#include "device/tiles.cuh"

/* Workspaces: the scores; l, m and turn of each query and the counter of tickets. */
static size_t scores_workspace(const struct attention *call)
{
    return call->seq_kv > 0 ? attention_query_rows(call) * call->seq_kv * sizeof(float) : 0;
}

static size_t turns_workspace(const struct attention *call)
{
    const size_t rows = attention_query_rows(call);
    return rows > 0 ? rows * (2 * sizeof(float) + sizeof(int)) + sizeof(int) : 0;
}

/* K, V, a slab of Q and S for each of 4 or 8 warps, and the weights and factors of the warps' 16
 * rows: Bc = 16, TR = 4. */
static size_t register_tile_shared(const struct attention *call)
{
    const int D = ceil_div(call->head_dim, 32) * 32, warps = call->head_dim > 64 ? 4 : 8;
    return sizeof(float) * (D * (16 + PAD) + 16 * D + warps * D * (16 + PAD) + 2 * 8 * 16);
}

/* The 64 KB that are all an sm_75 has, or less, and the weights and factors of the warps' rows. */
static size_t wide_tile_shared(const struct attention *call)
{
    const struct slabs slabs = slabs_in(false, call->head_dim, SMALLEST_LIMIT);
    return slabs.shared_bytes + 2 * MAX_WARPS * 4 * slabs.TR * sizeof(float);
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

static struct cost flash_v1_cost(const struct attention_kernel *row, const struct attention *call)
{
    return tiles_of_keys_cost(call, row->Bc[call->head_dim > 64], 1, false);
}

static struct cost flash_v1_wide_tile_cost(const struct attention_kernel *row,
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
    struct cost cost = flash_v1_wide_tile_cost(row, call);
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

/* More batches and heads than 16 bits count, where a block of each is soon done. */
#define MANY_HEADS "--batch 65537,1 --heads 1,65540 --kv-heads 1,32770 --seq 1 --head-dim 8"

static const struct attention_kernel core[] = {
    ATTENTION_ROW(standard, "01_standard.cu",
                  "three kernels; the scores are a matrix in global memory",
                  .about.claims = "--heads 1 --seq 64: launches >= 3, workspace_bytes >= 16384, "
                                  "global_load_bytes >= 3400000",
                  .about.edges = MANY_HEADS, .max_head_dim = 128, .workspace = scores_workspace,
                  .cost = standard_cost),
    ATTENTION_ROW(row_per_thread, "02_row_per_thread.cu",
                  "a thread per query, key by key; q, m and l in registers, O in memory",
                  .about.claims =
                      "--heads 1 --seq 64: launches <= 1, workspace_bytes <= 0, threads >= 64",
                  .about.edges = MANY_HEADS, .about.after = "standard", .max_head_dim = 128,
                  .cost = row_per_thread_cost, .about.shown_sizes = "--heads 1 --seq 64"),
    ATTENTION_ROW(row_parallel, "03_row_parallel.cu",
                  "a warp per query, lanes side by side along d; keys one after the other",
                  .about.claims = "--heads 1 --seq 64: global_load_sectors <= 82560, global_stores "
                                  "<= 5200, wave_accesses <= 83200, threads >= 1024",
                  .about.edges = MANY_HEADS, .about.after = "row_per_thread", .max_head_dim = 128,
                  .cost = row_parallel_cost),
    ATTENTION_ROW(
        key_parallel_ordered, "04_key_parallel_ordered.cu",
        "the keys of a query cut into chunks; their warps take turns in order",
        .about.claims = "--heads 1 --seq 64: threads >= 3300, atomics >= 64, launches <= 1",
        .about.edges = MANY_HEADS, .about.after = "row_parallel", .max_head_dim = 128,
        .workspace = turns_workspace, .cost = key_parallel_ordered_cost, .about.polls = true),
    ATTENTION_ROW(key_parallel_atomic, "05_key_parallel_atomic.cu",
                  "the chunks in any order: atomic max and add, one launch after the other",
                  .about.claims = "--heads 1 --seq 64: atomics >= 6700, launches >= 3",
                  .about.edges = MANY_HEADS, .about.after = "key_parallel_ordered",
                  .about.flushes_subnormals = true, .max_head_dim = 128,
                  .workspace = statistics_workspace, .cost = key_parallel_atomic_cost),
    ATTENTION_ROW(key_parallel_block, "06_key_parallel_block.cu",
                  "a block per query deals the keys to its warps and merges on chip",
                  .about.claims = "--heads 1 --seq 64: atomics <= 0, launches <= 1, threads >= "
                                  "13000, shared_stores >= 26000",
                  .about.after = "key_parallel_atomic", .max_head_dim = 128,
                  .cost = key_parallel_block_cost),
    ATTENTION_ROW(flash_v1, "07_flash_v1.cu",
                  "tiles: keys outside, queries inside; O, l and m revisited in global memory",
                  .about.claims = "--heads 1 --seq 64: global_loads <= 51840, shared_loads >= "
                                  "800000, workspace_bytes <= 640",
                  .max_head_dim = 128, .workspace = statistics_workspace, .cost = flash_v1_cost,
                  .Br = {16, 16}, .Bc = {16, 16}, .about.shown_sizes = "--heads 1 --seq 64"),
    ATTENTION_ROW(
        flash_v1_register_tile, "08_flash_v1_register_tile.cu",
        "a thread owns a rectangle of S and of O; products from registers",
        .about.claims =
            "--heads 1 --seq 64: shared_loads <= 276800, shared_loads >= 150000, shared_wavefronts "
            "<= 27260, global_loads <= 51840",
        .max_head_dim = 128, .workspace = statistics_workspace, .shared = register_tile_shared,
        .cost = flash_v1_cost, .Bc = {16, 16}),
    {.about.name = NULL},
};

static const struct attention_kernel limit[] = {
    ATTENTION_ROW(flash_v1_wide_tile, "09_flash_v1_wide_tile.cu",
                  "64 or 32 keys a tile: fewer passes over Q and O",
                  .about.claims = "--heads 1 --seq 64: global_loads <= 20640, shared_loads <= "
                                  "112720, shared_loads >= 60000",
                  .about.after = "flash_v1_register_tile", .about.was = "flash_v1_rectangles",
                  .max_head_dim = 128, .workspace = statistics_workspace,
                  .shared = wide_tile_shared, .cost = flash_v1_wide_tile_cost),
    ATTENTION_ROW(
        flash_v1_warps, "10_flash_v1_warps.cu",
        "maximum and sum of a row by shuffles; warps do not wait for one another",
        .about.claims =
            "--heads 1 --seq 64: shared_loads <= 61440, shared_loads >= 40000, barriers <= 3",
        .about.after = "flash_v1_wide_tile", .max_head_dim = 128, .workspace = statistics_workspace,
        .cost = flash_v1_warps_cost),
    ATTENTION_ROW(flash_v1_ahead, "11_flash_v1_ahead.cu",
                  "m, l and O are asked for before the product that runs while they arrive",
                  .about.claims = "--heads 1 --seq 64: loads_ahead >= 3300",
                  .about.after = "flash_v1_warps", .max_head_dim = 128,
                  .workspace = statistics_workspace, .cost = flash_v1_wide_tile_cost),
    ATTENTION_ROW(flash_v1_large_tiles, "12_flash_v1_large_tiles.cu",
                  "128 keys a tile and 16 bytes at a time, where the device has the room",
                  .about.claims =
                      "--heads 1 --seq 64: global_loads <= 12960, shared_loads >= 30000",
                  .about.after = "flash_v1_ahead", .max_head_dim = 128,
                  .workspace = statistics_workspace, .cost = flash_v1_large_tiles_cost),
    ATTENTION_ROW(flash_v1_base_2, "13_flash_v1_base_2.cu",
                  "exponentials of base 2, the scale and log2 e multiplied into Q",
                  .about.after = "flash_v1_large_tiles", .about.was = "flash_v1_registers",
                  .max_head_dim = 128, .workspace = statistics_workspace,
                  .cost = flash_v1_large_tiles_cost),
    ATTENTION_ROW(
        flash_v1_async, "14_flash_v1_async.cu",
        "V arrives during the first product; what O, m and l begin with is not stored or loaded",
        .about.claims = "--heads 1 --seq 192: copies_ahead >= 3000, global_stores <= 8880",
        .about.after = "flash_v1_base_2", .max_head_dim = 128, .workspace = statistics_workspace,
        .cost = flash_v1_async_cost),
    {.about.name = NULL},
};

const struct step step_04 = {
    "04_flash_v1", {{"core", &attention_problem, core}, {"limit", &attention_problem, limit}}};
