/* Proofs of step 05's plans: the tiles of queries, and the runs of the keys. */
#include "harness/ladder.h"
#include "device/device.h"
#include "tests/support/harness.h"
#include "plans_attention.h"

#include <limits.h>
#include <math.h>

/* The rows' functions ask this device. */
static struct device_limits tested;

static cudaError_t tested_device(struct device_limits *limits)
{
    *limits = tested;
    return cudaSuccess;
}
#define current_device tested_device

#include "05_flash_v2/05_step.c"

static const struct attention_kernel *flash_v2_kernels(void)
{
    return step_rows(&step_05, &attention_problem);
}

static int judged; /* plans that had something to cover */

/* A grid, or an element of one, is compared with this number. */
static bool fits_grid(long long blocks)
{
    return blocks > 0 && blocks <= INT_MAX;
}

/* The runs must follow one another from the first key to the last. */
static void judge_runs(int seq_kv, int runs, int run_keys)
{
    cr_assert(runs >= 1 && run_keys >= 0);
    cr_assert((long long)runs * run_keys >= seq_kv, "%d runs of %d keys do not hold %d", runs,
              run_keys, seq_kv);
    cr_assert((long long)(runs - 1) * run_keys <= INT_MAX, "the last run begins past an int");
    cr_assert(runs == 1 || run_keys > 0);
}

static void judge_naive(const struct attention *call, const struct device_limits *device)
{
    (void)device;
    const int Br = SPLIT_KV_NAIVE_BR;
    const struct split_kv_naive_plan plan = split_kv_naive_plan_of(call, Br);
    const long long rows = (long long)attention_query_rows(call), tiles = plan_tiles(call, Br);
    if (rows == 0) {
        cr_assert(plan.blocks == 0 && plan.merge_blocks == 0);
        return;
    }
    judged++;
    judge_runs(call->seq_kv, plan.runs, plan.run_keys);
    cr_assert(fits_grid(plan.blocks) && plan.blocks == tiles * plan.runs);
    cr_assert(plan.runs == 1
                  ? plan.merge_blocks == 0
                  : plan.merge_blocks * 32LL >= rows && (plan.merge_blocks - 1) * 32LL < rows);

    const bool small = plan.blocks <= 256;
    struct canvas canvas;
    if (small)
        canvas_begin(&canvas, (int)tiles, plan.runs, 1, 1);
    uint64_t state = (uint64_t)rows;
    for (int n = 0; n < (small ? plan.blocks : 16); n++) {
        const unsigned block = small    ? (unsigned)n
                               : n == 0 ? 0
                               : n == 1 ? (unsigned)plan.blocks - 1
                                        : (unsigned)(plan_random(&state) % (uint64_t)plan.blocks);
        const struct split_kv_naive_part part = split_kv_naive_part_of(&plan, block, Br);
        cr_assert(part.head >= 0 && part.head < (long long)call->batch * call->heads);
        cr_assert(part.row0 >= 0 && part.row0 < call->seq_q && part.row0 % Br == 0);
        cr_assert(part.run >= 0 && part.run < plan.runs);
        const long long tile = (long long)part.head * plan.tiles + part.row0 / Br;
        cr_assert(tile * plan.runs + part.run == block);
        cr_assert(part.first_key == part.run * (long long)plan.run_keys);
        if (small)
            canvas_paint(&canvas, tile, tile + 1, part.run, part.run + 1);
    }
    cr_assert(!small || canvas_end(&canvas), "blocks do not cover the tiles and runs once");
}

TEST(plans_05, split_kv_naive_covers_every_key_of_every_row_once)
{
    judged = 0;
    cr_expect(plan_attention_calls(judge_naive, 1, false) >= ATTENTION_CALLS);
    cr_expect(judged >= RANDOM_SHAPES / 2, "%d plans", judged);
}

static void judge_split(const struct attention *call, const struct device_limits *device)
{
    (void)device;
    const struct split_kv_plan plan = split_kv_plan_of(call);
    const long long rows = (long long)attention_query_rows(call);
    if (rows == 0) {
        cr_assert(plan.blocks == 0 && plan.merge_blocks == 0);
        return;
    }
    judged++;
    judge_runs(call->seq_kv, plan.runs, plan.run_keys);
    cr_assert((long long)(plan.runs - 1) * plan.run_keys < call->seq_kv || call->seq_kv == 0,
              "the last run is empty");
    cr_assert(plan.G * 4 >= call->head_dim && 32 % plan.G == 0);
    const long long head_rows = (long long)(call->heads / call->kv_heads) * call->seq_q;
    const long long kv_heads = (long long)call->batch * call->kv_heads;
    cr_assert(plan.R == 1 || plan.R == SPLIT_KV_ROWS);
    cr_assert(plan.tiles * (long long)plan.R >= head_rows &&
              (plan.tiles - 1LL) * plan.R < head_rows);
    cr_assert(fits_grid(plan.blocks) && plan.blocks == kv_heads * plan.tiles * plan.runs);
    cr_assert(plan.merge_blocks == (plan.runs > 1 ? rows : 0));
    cr_assert(plan.runs * rows <= INT_MAX || plan.runs == 1,
              "a row of a run has a number past an int");

    const bool small = plan.blocks <= 256;
    struct canvas canvas;
    if (small)
        canvas_begin(&canvas, (int)(kv_heads * plan.tiles), plan.runs, 1, 1);
    uint64_t state = (uint64_t)rows;
    for (int n = 0; n < (small ? plan.blocks : 16); n++) {
        const unsigned block = small    ? (unsigned)n
                               : n == 0 ? 0
                               : n == 1 ? (unsigned)plan.blocks - 1
                                        : (unsigned)(plan_random(&state) % (uint64_t)plan.blocks);
        const struct split_kv_part part =
            split_kv_part_of(block, plan.R, plan.tiles, plan.runs, plan.run_keys);
        cr_assert(part.kv_head >= 0 && part.kv_head < kv_heads);
        cr_assert(part.row0 >= 0 && part.row0 < head_rows && part.row0 % plan.R == 0);
        cr_assert(part.run >= 0 && part.run < plan.runs);
        cr_assert(part.first_key == part.run * (long long)plan.run_keys);
        const long long tile = part.row0 / plan.R;
        cr_assert(((long long)part.kv_head * plan.runs + part.run) * plan.tiles + tile == block);
        const long long row = part.kv_head * (long long)plan.tiles + tile;
        if (small)
            canvas_paint(&canvas, row, row + 1, part.run, part.run + 1);
    }
    cr_assert(!small || canvas_end(&canvas), "blocks do not cover the tiles and runs once");
}

TEST(plans_05, split_kv_covers_every_key_of_every_row_once)
{
    judged = 0;
    cr_expect(plan_attention_calls(judge_split, 1, false) >= ATTENTION_CALLS);
    cr_expect(judged >= RANDOM_SHAPES / 2, "%d plans", judged);
}

static void judge_tiles(const struct attention *call, const struct device_limits *device)
{
    const bool large = large_tile_fits(call->head_dim, device);
    for (int choice = 0; choice <= large; choice++) {
        const struct query_tile tile = query_tile_of(choice, call->head_dim);
        const int blocks = query_tile_blocks(call, tile.Br);
        cr_assert(tile.size >= 0 && tile.size < 4);
        cr_assert(tile.D >= call->head_dim && tile.D - 32 < call->head_dim);
        cr_assert(tile.Br > 0 && tile.Bc % 32 == 0);
        cr_assert(tile.shared_bytes > 0 && tile.shared_bytes <= device->shared_bytes);
        cr_assert(blocks >= 0 && blocks == plan_tiles(call, tile.Br));
        judged += blocks > 0;
    }
}

TEST(plans_05, tiles_of_queries_cover_every_head_and_fit_the_device)
{
    judged = 0;
    cr_expect(plan_attention_calls(judge_tiles, 1, false) >= ATTENTION_CALLS);
    cr_expect(judged >= RANDOM_SHAPES, "%d plans", judged);
}

static void judge_rows(const struct attention *call, const struct device_limits *device)
{
    tested = *device;
    for (const struct attention_kernel *row = flash_v2_kernels(); row->about.name; row++, judged++)
        plan_attention_row(row, call);
}

TEST(plans_05, costs_and_workspaces_fit_their_types)
{
    judged = 0;
    const int calls = plan_attention_calls(judge_rows, 1, false);
    cr_expect(judged == 8 * calls, "%d costs", judged);
}

static void judge_backward_tiles(const struct attention *call, const struct device_limits *device)
{
    const struct attention_backward backward_call = plan_backward_of(call);
    const bool large = large_backward_tile_fits(call->head_dim, device);
    for (int choice = 0; choice <= large && plan_has_pairs(call); choice++) {
        const struct backward_tile tile = backward_tile_of(choice, call->head_dim);
        const long long tiles = call->seq_kv / tile.Bc + (call->seq_kv % tile.Bc != 0);
        cr_assert(tile.size >= 0 && tile.size < 4);
        cr_assert(tile.D >= call->head_dim && tile.D - 32 < call->head_dim);
        cr_assert(tile.Br % 16 == 0 && tile.Bc % 32 == 0);
        cr_assert(tile.shared_bytes > 0 && tile.shared_bytes <= device->shared_bytes);
        cr_assert(backward_tile_blocks(&backward_call, tile.Bc) ==
                  (long long)call->batch * call->kv_heads * tiles);
        judged++;
    }
}

TEST(plans_05, tiles_of_keys_cover_every_head_and_fit_the_device)
{
    judged = 0;
    cr_expect(plan_attention_calls(judge_backward_tiles, 1, false) >= ATTENTION_CALLS);
    cr_expect(judged >= RANDOM_SHAPES / 2, "%d plans", judged);
}

/* Where the numbers of a workspace would overflow, it says so. */
static void judge_backward_rows(const struct attention *call, const struct device_limits *device)
{
    const struct attention_backward_kernel *row = step_rows(&step_05, &attention_backward_problem);
    const struct attention_backward backward_call = plan_backward_of(call);
    tested = *device;
    for (; row->about.name && plan_has_pairs(call); row++, judged++) {
        plan_backward_row(row, call, sizeof(float));
        const double queries = (double)attention_query_rows(call), all = 8.0 * call->seq_kv;
        const double bytes = (double)row->workspace(&backward_call);
        cr_assert(bytes == (double)SIZE_MAX || bytes <= queries * (all + 4.0) * (1.0 + 1e-12));
        cr_assert(bytes >= 4.0 * queries &&
                      (row->about.after || bytes >= fmin(queries * all, 1e19)),
                  "%s: a workspace of %g bytes", row->about.name, bytes);
    }
}

TEST(plans_05, gradients_have_costs_and_workspaces_that_fit_their_types)
{
    judged = 0;
    cr_expect(plan_attention_calls(judge_backward_rows, 1, false) >= ATTENTION_CALLS);
    cr_expect(judged >= RANDOM_SHAPES, "%d costs", judged);
}
