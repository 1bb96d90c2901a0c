/* Proofs of step 06's plans: the order of the tiles, the pairs, the blocks that are resident, and
 * the tiles of keys and of queries of the gradients. */
#include "harness/ladder.h"
#include "device/device.h"
#include "tests/support/harness.h"
#include "plans_attention.h"
#include "harness/refusal.h"

#include "06_causal_half/06_step.c"
#include "06_causal_half/backward/backward_plan.h"
#include "06_causal_half/hopper/hopper_plan.h"

#include <math.h>

static const struct attention_kernel *causal_half_kernels(void)
{
    return step_rows(&step_06, &attention_problem);
}

static int judged;

/* Chooses the tile to paint or sample n-th: every tile when there are few; otherwise the first, the
 * last and others. */
static int chosen_tile(uint64_t *state, int n, int tiles, bool few)
{
    return few || n == 0 ? n : n == 1 ? tiles - 1 : (int)(plan_random(state) % (uint64_t)tiles);
}

/* The tile with this number must lie inside, and its place must give the number. */
static struct tile_place judge_place(const struct tile_order *order, int tile, int Br, int seq_q)
{
    const struct tile_place place = tile_place_of(*order, tile, Br);
    cr_assert(place.head >= 0 && place.head < order->heads);
    cr_assert(place.row0 >= 0 && place.row0 < seq_q && place.row0 % Br == 0);
    const int first = place.head / order->group * order->group;
    const int left = order->heads - first, heads = left < order->group ? left : order->group;
    const long long later = order->row_tiles - 1 - place.row0 / Br;
    cr_assert((long long)first * order->row_tiles + later * heads + place.head - first == tile);
    return place;
}

static void judge_order(const struct attention *call, const struct device_limits *device)
{
    static const int heights[] = {128, 192, 256};
    (void)device;
    if (attention_query_rows(call) == 0)
        return;
    for (int h = 0; h < 3; h++) {
        const int Br = heights[h];
        const struct tile_order order = tile_order_of(call, Br);
        cr_assert(order.tiles > 0 && order.tiles == plan_tiles(call, Br));
        cr_assert(order.group >= 1 && order.group <= order.heads);
        const bool few = order.tiles <= 128;
        uint64_t state = (uint64_t)order.tiles;
        struct canvas canvas;
        if (few)
            canvas_begin(&canvas, order.heads, order.row_tiles, 1, 1);
        for (int n = 0; n < (few ? order.tiles : 8); n++) {
            const int tile = chosen_tile(&state, n, order.tiles, few);
            const struct tile_place place = judge_place(&order, tile, Br, call->seq_q);
            if (few)
                canvas_paint(&canvas, place.head, place.head + 1, place.row0 / Br,
                             place.row0 / Br + 1);
        }
        cr_assert(!few || canvas_end(&canvas), "not every tile comes once");
        judged++;
    }
}

TEST(plans_06, every_tile_of_every_head_comes_once)
{
    judged = 0;
    cr_expect(plan_attention_calls(judge_order, 8, true) >= ATTENTION_CALLS);
    cr_expect(judged >= 2 * RANDOM_SHAPES, "%d orders", judged);
}

/* Tiles that begin within the sequence must hold every row once, and their blocks all keys that the
 * rows see. */
static void judge_hopper_tile(const struct attention *call, const struct tile_order *order,
                              int tile, int Br)
{
    const struct hopper_tile at = hopper_tile_at(order, call, tile, Br, call->causal);
    const long long past = (long long)order->row_tiles * Br - call->seq_q, shift = past / 16 * 16;
    const int row0 = tile_place_of(*order, tile, Br).row0;
    cr_assert(at.row0 == row0 - shift && at.row0 % WARP_ROWS == 0 && at.row0 > -Br);
    cr_assert(past - shift < WARP_ROWS && at.row0 < call->seq_q);
    cr_assert(call->seq_kv == 0 ||
              (at.kv_head >= 0 && at.kv_head < (long long)call->batch * call->kv_heads &&
               at.kv_head == at.head / (call->heads / call->kv_heads)));
    cr_assert(at.blocks >= 1 && at.unmasked >= 0 && at.unmasked <= at.blocks);
    cr_assert((at.blocks - 1LL) * HOPPER_KEYS < call->seq_kv || call->seq_kv == 0);
    const long long rows[] = {at.row0 > 0 ? at.row0 : 0,
                              at.row0 + Br < call->seq_q ? at.row0 + Br - 1 : call->seq_q - 1};
    for (int i = 0; i < 2; i++) {
        const long long ahead = rows[i] + 1 + call->seq_kv - call->seq_q;
        const long long seen = !call->causal ? call->seq_kv : ahead > 0 ? ahead : 0;
        cr_assert((long long)at.blocks * HOPPER_KEYS >= seen, "row %lld sees %lld keys", rows[i],
                  seen);
        cr_assert((long long)at.unmasked * HOPPER_KEYS <= seen);
    }
}

/* `grid` blocks stay resident. Each takes tiles from its own number on, in steps of the grid. */
static void judge_resident(int tiles, int grid)
{
    cr_assert(grid > 0 && grid <= tiles);
    cr_assert((long long)tiles + grid <= INT_MAX, "the number after the last tile is no int");
    if (tiles > 256)
        return;
    struct canvas canvas;
    canvas_begin(&canvas, tiles, 1, 1, 1);
    for (int block = 0; block < grid; block++)
        for (int number = block; number < tiles; number += grid)
            canvas_paint(&canvas, number, number + 1, 0, 1);
    cr_assert(canvas_end(&canvas));
}

static int pairs_judged, causal_pairs_judged;

static void judge_pairs(const struct attention *call, const struct device_limits *device)
{
    const int Br = HOPPER_ROWS(128);
    uint64_t state = (uint64_t)call->seq_q;
    cr_assert(!(pairs_pay(call) && causal_pairs_pay(call)));
    if (pairs_pay(call)) {
        const struct tile_order order = tile_order_of(call, Br);
        const int pairs = order.tiles / PAIR, grid = PAIR * resident_pairs(pairs, device);
        cr_assert(order.tiles % PAIR == 0);
        cr_assert(grid % PAIR == 0);
        judge_resident(order.tiles, grid);
        for (int n = 0; n < (pairs <= 64 ? pairs : 8); n++) {
            const int pair = chosen_tile(&state, n, pairs, pairs <= 64);
            const struct hopper_tile a = hopper_tile_at(&order, call, PAIR * pair, Br, false),
                                     b = hopper_tile_at(&order, call, PAIR * pair + 1, Br, false);
            cr_assert(a.head == b.head && a.kv_head == b.kv_head && a.blocks == b.blocks,
                      "a pair's blocks need other keys");
        }
        pairs_judged++;
    } else if (causal_pairs_pay(call)) {
        const struct tile_order order = tile_order_of(call, PAIR * Br);
        const int pairs = resident_pairs(order.tiles, device);
        judge_resident(order.tiles, pairs);
        /* each block of the pair has rows */
        cr_assert((long long)order.row_tiles * PAIR * Br - call->seq_q < Br);
        causal_pairs_judged++;
    }
}

static void judge_hopper(const struct attention *call, const struct device_limits *device)
{
    if (attention_query_rows(call) == 0)
        return;
    const int warpgroups = persistent_warpgroups(call);
    cr_assert(warpgroups == 2 || (warpgroups == 3 && call->head_dim <= 64));
    const int heights[] = {HOPPER_ROWS(64), HOPPER_ROWS(128), PAIR * HOPPER_ROWS(128),
                           WARPGROUP_ROWS * warpgroups};
    for (int h = 0; h < 4; h++) {
        const struct tile_order order = tile_order_of(call, heights[h]);
        uint64_t state = (uint64_t)order.tiles;
        const bool few = order.tiles <= 32;
        judge_resident(order.tiles, resident_blocks(order.tiles, device));
        for (int n = 0; n < (few ? order.tiles : 8); n++)
            judge_hopper_tile(call, &order, chosen_tile(&state, n, order.tiles, few), heights[h]);
        judged++;
    }
    judge_pairs(call, device);
}

TEST(plans_06, hopper_tiles_hold_every_row_and_the_keys_that_it_sees)
{
    judged = pairs_judged = causal_pairs_judged = 0;
    cr_expect(plan_attention_calls(judge_hopper, 8, true) >= ATTENTION_CALLS);
    cr_expect(judged >= 2 * RANDOM_SHAPES, "%d orders", judged);
    cr_expect(pairs_judged >= 500 && causal_pairs_judged >= 500, "%d and %d pairs", pairs_judged,
              causal_pairs_judged);
}

/* Every row and every run of keys must be some block's, once; and no run be empty, but for a
 * sequence without keys. */
static void judge_decode_plan(const struct attention *call, const struct device_limits *device,
                              int tile_rows, int resident)
{
    const struct decode_plan plan = decode_plan_of(call, tile_rows, resident, device);
    const long long kv_heads = (long long)call->batch * call->kv_heads, keys = call->seq_kv;
    cr_assert(kv_heads * plan.head_rows == (long long)attention_query_rows(call));
    cr_assert(plan.row_tiles * (long long)tile_rows >= plan.head_rows &&
              (plan.row_tiles - 1LL) * tile_rows < plan.head_rows);
    cr_assert(plan.runs >= 1 && plan.run_keys >= 1 && plan.run_keys % DECODE_KEYS == 0);
    cr_assert((long long)plan.runs * plan.run_keys >= keys &&
              (plan.runs == 1 || (plan.runs - 1LL) * plan.run_keys < keys));
    cr_assert(plan.blocks > 0 && plan.blocks == kv_heads * plan.row_tiles * plan.runs);
    cr_assert(plan.runs == 1 || plan.blocks <= 2LL * device->multiprocessors * resident,
              "more runs than fill the device twice");
    cr_assert(plan.runs == 1 || plan.runs * (double)attention_query_rows(call) <= INT_MAX,
              "a row of a run has a number past an int");
    cr_assert(decode_workspace_of(call, &plan) % sizeof(float[2]) == 0);

    const bool few = plan.blocks <= 256;
    uint64_t state = (uint64_t)plan.blocks;
    struct canvas canvas;
    if (few)
        canvas_begin(&canvas, (int)(kv_heads * plan.row_tiles), plan.runs, 1, 1);
    for (int n = 0; n < (few ? plan.blocks : 8); n++) {
        const int block = chosen_tile(&state, n, plan.blocks, few);
        const struct decode_part part = decode_part_of(plan, block);
        cr_assert(part.kv_head >= 0 && part.kv_head < kv_heads);
        cr_assert(part.row0 >= 0 && part.row0 < plan.head_rows && part.row0 % tile_rows == 0);
        cr_assert(part.run >= 0 && part.run < plan.runs);
        cr_assert(part.first_key == part.run * (long long)plan.run_keys);
        const long long run_end = part.first_key + (long long)plan.run_keys;
        cr_assert(decode_end_of(plan, part, call->seq_kv) == (run_end < keys ? run_end : keys),
                  "keys from %d on end elsewhere", part.first_key);
        cr_assert(decode_end_of(plan, part, 0) <= part.first_key);
        const long long tile = part.kv_head * (long long)plan.row_tiles + part.row0 / tile_rows;
        if (few)
            canvas_paint(&canvas, tile, tile + 1, part.run, part.run + 1);
    }
    cr_assert(!few || canvas_end(&canvas), "blocks do not cover the tiles and runs once");
    judged++;
}

enum { MOST_SEQUENCES = 8 };

/* Every block that an item's units lie in has a place of its own for the piece, and no other item
 * counts where this one does. The first `count` items are judged, `of_each` a sequence. */
static void judge_pieces(struct balanced_plan plan, const int *units, int count, int of_each,
                         long long share)
{
    bool *const taken = calloc(3 * (size_t)plan.blocks, sizeof *taken);
    long long first = 0;
    for (int n = 0; n < count; n++) {
        const int own = units[n / of_each];
        const struct balanced_pieces pieces = balanced_pieces_of(first, own, share);
        cr_assert(pieces.count >= 1 && pieces.first_block >= 0 &&
                  pieces.first_block + pieces.count <= plan.blocks);
        for (int piece = 0; pieces.count > 1 && piece < pieces.count; piece++) {
            const int block = pieces.first_block + piece, place = balanced_place(pieces, piece);
            cr_assert(block * share < first + own && (block + 1) * share > first);
            cr_assert(place >= 0 && place < 2 * plan.blocks && !taken[place]);
            taken[place] = true;
        }
        bool *const counts = &taken[2 * plan.blocks + pieces.first_block];
        cr_assert(pieces.count == 1 || !*counts, "two items count in one place");
        *counts = *counts || pieces.count > 1;
        first += own;
    }
    free(taken);
    judged++;
}

/* Where all sequences are as long, shares are as the host has cut them: hardly longer than equal
 * ones of as many blocks as there could be, every unit is in one, and where an item is in several
 * it is known to need a merge. */
static void judge_cut(const struct attention *call, struct balanced_plan plan, int most_blocks)
{
    const int own = balanced_units(call->seq_kv);
    const long long items = (long long)call->batch * plan.items;
    const long long least = balanced_share(items * own, most_blocks);
    cr_assert(plan.share >= least && (plan.share - least) * 16 <= least);
    cr_assert(plan.share * plan.blocks >= items * own);

    int units[MOST_SEQUENCES], most_pieces = 1;
    for (int b = 0; b < MOST_SEQUENCES; b++)
        units[b] = own;
    const int count = items < MOST_SEQUENCES ? (int)items : MOST_SEQUENCES;
    judge_pieces(plan, units, count, 1, plan.share);
    for (long long item = 0; item < count; item++) {
        const int pieces = balanced_pieces_of(item * own, own, plan.share).count;
        most_pieces = pieces > most_pieces ? pieces : most_pieces;
    }
    cr_assert(most_pieces == 1 || balanced_merges(call, &plan));
}

/* Shapes of an H200's figures: two pieces an item, and whole items. */
TEST(plans_06, balanced_shares_of_whole_items)
{
    const struct device_limits device = {90, 132, 227 << 10, 4917};
    struct attention call = {0};
    call.heads = 64;
    call.kv_heads = 8;
    call.seq_q = 1;
    call.seq_kv = 8192;
    call.head_dim = 128;
    call.batch = 16;
    struct balanced_plan plan = balanced_plan_of(&call, DECODE_BALANCED_RESIDENT, &device);
    cr_expect(plan.share == 64 && balanced_merges(&call, &plan), "%lld", plan.share);
    call.batch = 64;
    plan = balanced_plan_of(&call, DECODE_BALANCED_RESIDENT, &device);
    cr_expect(plan.share == 256 && !balanced_merges(&call, &plan), "%lld", plan.share);
    cr_expect(balanced_workspace_of(&call, &plan) == 0);
    call.batch = 9; /* 72 items in 264 blocks: nothing is near */
    plan = balanced_plan_of(&call, DECODE_BALANCED_RESIDENT, &device);
    cr_expect(plan.share == balanced_share(72 * 128, 264), "%lld", plan.share);
}

/* Few items, few queries: clusters, each block of which has a unit at least. They lie in pairs in
 * an H100's groups of multiprocessors, so more than 14 might not run at once. Of many keys half of
 * the multiprocessors ask fast enough for an H100's memory, not for an H200's. */
TEST(plans_06, ring_in_clusters)
{
    const struct device_limits device = {90, 132, 227 << 10, 3352},
                               faster = {90, 132, 227 << 10, 4917};
    struct attention call = {0};
    call.batch = 1;
    call.heads = 64;
    call.kv_heads = 8;
    call.seq_q = 1;
    call.seq_kv = 16384;
    call.head_dim = 128;
    struct balanced_plan plan = ring_plan_of(&call, &device);
    cr_expect(plan.cluster == 8 && plan.blocks == 64 && balanced_workspace_of(&call, &plan) == 0);
    cr_expect(ring_plan_of(&call, &faster).cluster == 8);
    call.seq_kv = 131072;
    cr_expect(ring_plan_of(&call, &device).cluster == 8);
    plan = ring_plan_of(&call, &faster);
    cr_expect(plan.cluster == 1 && plan.blocks > 64);
    call.seq_kv = 15 * DECODE_KEYS;
    cr_expect(ring_plan_of(&call, &device).cluster == 1, "a block has fewer than 2 units");
    call.seq_kv = 16384;
    call.batch = 2;
    cr_expect(ring_plan_of(&call, &device).cluster == 1, "16 clusters of 8");
    call.batch = 1;
    call.seq_q = 8;
    cr_expect(ring_plan_of(&call, &device).cluster == 1, "64 rows");
    call.seq_q = 1;
    const int length = 16384;
    call.lengths = &length;
    plan = ring_plan_of(&call, &device);
    cr_expect(plan.cluster == 1 && plan.blocks == 132 && plan.extra > 0);
    call.lengths = NULL;
    call.batch = 16;
    plan = ring_plan_of(&call, &device);
    cr_expect(plan.cluster == 1 && plan.blocks == 128 && plan.share == 256 && plan.extra == 0,
              "whole items, and no more blocks than have one");
}

static struct balanced_plan two_a_multiprocessor(const struct attention *call,
                                                 const struct device_limits *device)
{
    return balanced_plan_of(call, DECODE_BALANCED_RESIDENT, device);
}

static void judge_balanced(const struct attention *call, const struct device_limits *device,
                           struct balanced_plan (*plan_of)(const struct attention *call,
                                                           const struct device_limits *device),
                           int resident)
{
    const struct balanced_plan plan = plan_of(call, device);
    cr_assert(plan.items == call->kv_heads * plan.row_tiles &&
              plan.tile_rows == decode_tile_rows(call));
    cr_assert(plan.row_tiles * (long long)plan.tile_rows >= plan.head_rows &&
              (plan.row_tiles - 1LL) * plan.tile_rows < plan.head_rows);
    cr_assert(plan.blocks >= 1);
    cr_assert(balanced_workspace_of(call, &plan) % sizeof(float[2]) <= sizeof(int));
    const int most_blocks = device->multiprocessors * resident;
    if (plan.cluster > 1) {
        cr_assert(plan.blocks == (long long)call->batch * plan.items * plan.cluster);
        cr_assert(plan.cluster <= balanced_units(call->seq_kv) && !balanced_merges(call, &plan));
    } else {
        cr_assert(plan.blocks <= most_blocks);
    }

    /* As the device does it, sequences have all lengths. */
    const int lengths = 0;
    struct attention with_lengths = *call;
    with_lengths.lengths = &lengths;
    const struct balanced_plan uncut = plan_of(&with_lengths, device);
    cr_assert(uncut.share == 0 && uncut.cluster == 1 && balanced_merges(&with_lengths, &uncut));
    cr_assert(balanced_workspace_of(call, &plan) <= balanced_workspace_of(&with_lengths, &uncut));
    if (plan.cluster == 1)
        judge_cut(call, plan, uncut.blocks);
    const int sequences = call->batch < MOST_SEQUENCES ? call->batch : MOST_SEQUENCES;
    const int items = plan.items < MOST_SEQUENCES ? plan.items : MOST_SEQUENCES;
    uint64_t state = (uint64_t)call->seq_kv + 1;
    int units[MOST_SEQUENCES];
    long long all = 0;
    for (int b = 0; b < sequences; b++) {
        units[b] =
            balanced_units((int)(plan_random(&state) % ((uint64_t)call->seq_kv + 1))) + uncut.extra;
        cr_assert(units[b] >= 1);
        all += (long long)units[b] * items;
    }
    const long long share = balanced_share(all, uncut.blocks);
    cr_assert(share * uncut.blocks >= all && share >= LEAST_SHARE);
    judge_pieces(uncut, units, sequences * items, items, share);
}

/* Some row sees most and some row sees fewest: no other may see more or fewer. */
static void judge_seen(const struct attention *call, int tile_rows)
{
    const int head_rows = call->heads / call->kv_heads * call->seq_q;
    for (int row0 = 0; row0 < head_rows && row0 < 4 * tile_rows; row0 += tile_rows) {
        const int rows = head_rows - row0 < tile_rows ? head_rows - row0 : tile_rows;
        int least = INT_MAX, most = 0;
        for (int row = row0; row < row0 + rows; row++) {
            const int seen = keys_seen(call->causal, row % call->seq_q, call->seq_q, call->seq_kv);
            least = seen < least ? seen : least;
            most = seen > most ? seen : most;
        }
        cr_assert(decode_seen_by_any(*call, row0, rows, call->seq_kv) == most);
        cr_assert(decode_seen_by_all(*call, row0, rows, call->seq_kv) <= least);
    }
}

static void judge_decode(const struct attention *call, const struct device_limits *device)
{
    if (attention_query_rows(call) == 0)
        return;
    const int tile_rows = decode_tile_rows(call);
    judge_decode_plan(call, device, 1, DECODE_SPLIT_RESIDENT);
    judge_decode_plan(call, device, tile_rows, DECODE_PACKED_RESIDENT);
    judge_decode_plan(call, device, tile_rows, DECODE_ASYNC_RESIDENT);
    judge_balanced(call, device, two_a_multiprocessor, DECODE_BALANCED_RESIDENT);
    judge_balanced(call, device, ring_plan_of, DECODE_RING_RESIDENT);
    judge_seen(call, tile_rows);
}

TEST(plans_06, decode_covers_every_key_of_every_row_once)
{
    judged = 0;
    cr_expect(plan_attention_calls(judge_decode, 8, true) >= ATTENTION_CALLS);
    cr_expect(judged >= 2 * RANDOM_SHAPES, "%d plans", judged);
}

static void judge_async_tiles(const struct attention *call, const struct device_limits *device)
{
    if (device->architecture < 80 || call->head_dim == 0)
        return;
    const int cols = call->head_dim <= 64 ? 64 : 128;
    const bool small = small_async_tiles(call->head_dim, device);
    cr_assert(!small || cols == 128, "narrow rows have no small tiles");
    cr_assert(BACKWARD_ASYNC_BYTES(small, cols) <= device->shared_bytes);
    judged++;
}

TEST(plans_06, tiles_of_gradients_fit_the_device)
{
    judged = 0;
    cr_expect(plan_attention_calls(judge_async_tiles, 8, true) >= ATTENTION_CALLS);
    cr_expect(judged >= RANDOM_SHAPES / 2, "%d plans", judged);
}

/* The formulas loop over the tiles, so a very long sequence would take too long. */
static void judge_rows(const struct attention *call, const struct device_limits *device)
{
    (void)device;
    if (call->seq_q > 1 << 16)
        return;
    for (const struct attention_kernel *row = causal_half_kernels(); row->about.name; row++) {
        plan_attention_row(row, call);
        judged++;
    }
}

TEST(plans_06, costs_and_workspaces_fit_their_types)
{
    judged = 0;
    plan_attention_calls(judge_rows, 8, true);
    cr_expect(judged >= 23 * RANDOM_SHAPES, "%d costs", judged);
}

/* All queries that see the key must be in the tiles from the first on, and one that does in the
 * first. */
static void judge_first_query(const struct attention *call, int key0, int Br)
{
    const int first = backward_first_query(call->causal, key0, call->seq_q, call->seq_kv, Br);
    cr_assert(first >= 0 && first < call->seq_q && first % Br == 0);
    cr_assert(first == 0 || keys_seen(call->causal, first - 1, call->seq_q, call->seq_kv) <= key0,
              "query %d sees key %d and is in no tile", first - 1, key0);
    const int last = call->seq_q - first < Br ? call->seq_q - 1 : first + Br - 1;
    cr_assert(keys_seen(call->causal, last, call->seq_q, call->seq_kv) > key0,
              "no query of the first tile sees key %d", key0);
}

/* Where the keys of the block before begin, or 0 where a group of heads begins. */
static int previous_key(struct tile_order order, int block, int Bc)
{
    const bool first = block % (order.group * order.row_tiles) == 0;
    return first ? 0 : key_tile_of(order, block - 1, Bc).key0;
}

/* Each tile of keys of each head must be some block's, once. In each group of heads keys come in
 * order: with a mask the first are seen by most queries, and where blocks take turns, they wait for
 * the keys before. */
static void judge_key_tiles(const struct attention *call, const struct device_limits *device)
{
    (void)device;
    if (!plan_has_pairs(call))
        return;
    const struct attention_backward backward_call = plan_backward_of(call);
    const int Bc = BACKWARD_BLOCK_KEYS, kv_heads = call->batch * call->kv_heads;
    const struct tile_order order = key_order_of(&backward_call, Bc);
    const long long tiles = call->seq_kv / Bc + (call->seq_kv % Bc != 0), all = kv_heads * tiles;
    cr_assert(all <= INT_MAX && order.tiles == all);
    const bool few = all <= 128;
    uint64_t state = (uint64_t)all;
    struct canvas canvas;
    if (few)
        canvas_begin(&canvas, kv_heads, call->seq_kv, 1, Bc);
    for (int n = 0; n < (few ? all : 8); n++) {
        const int block = chosen_tile(&state, n, (int)all, few);
        const struct key_tile own = key_tile_of(order, block, Bc);
        cr_assert(own.kv_head >= 0 && own.kv_head < kv_heads);
        cr_assert(own.key0 >= 0 && own.key0 < call->seq_kv && own.key0 % Bc == 0);
        cr_assert(own.key0 >= previous_key(order, block, Bc), "keys before these come later");
        if (few)
            canvas_paint(&canvas, own.kv_head, own.kv_head + 1, own.key0, own.key0 + (long long)Bc);
        judge_first_query(call, own.key0, BACKWARD_WGMMA_QUERIES(call->head_dim));
        judge_first_query(call, own.key0, backward_persistent_queries(&backward_call));
        for (int key0 = own.key0; key0 < call->seq_kv && key0 < own.key0 + Bc;
             key0 += BACKWARD_KEYS)
            judge_first_query(call, key0, BACKWARD_QUERIES);
    }
    cr_assert(!few || canvas_end(&canvas), "not every tile of keys is owned once");
    judged++;
}

TEST(plans_06, tiles_of_keys_are_owned_once_and_meet_all_queries_that_see_them)
{
    judged = 0;
    cr_expect(plan_attention_calls(judge_key_tiles, 8, true) >= ATTENTION_CALLS);
    cr_expect(judged >= RANDOM_SHAPES / 2, "%d plans", judged);
}

/* A block's turn at a tile of queries must be the number of smaller tickets that meet the tile:
 * then it waits only for blocks that have started, and nobody waits for a turn that is nobody's. */
static void judge_turns(const struct attention *call, const struct device_limits *device)
{
    (void)device;
    const long long kv_heads = (long long)call->batch * call->kv_heads;
    if (!plan_has_pairs(call) || kv_heads * call->seq_kv > 128 * BACKWARD_BLOCK_KEYS)
        return;
    const struct attention_backward backward_call = plan_backward_of(call);
    const int Bc = BACKWARD_BLOCK_KEYS, Br = BACKWARD_WGMMA_QUERIES(call->head_dim);
    const bool causal = call->causal;
    const struct tile_order order = in_order_of(&backward_call, Bc);
    const int row_tiles = call->seq_q / Br + (call->seq_q % Br != 0);
    uint64_t state = (uint64_t)kv_heads;
    for (int n = 0; n < 4; n++) {
        const int row0 = chosen_tile(&state, n, row_tiles, row_tiles <= 4) % row_tiles * Br;
        const int head = (int)(plan_random(&state) % (uint64_t)kv_heads);
        const int meet = backward_key_tiles(causal, row0, call->seq_q, call->seq_kv, Br, Bc);
        int before = 0, owned = 0;
        for (int ticket = 0; ticket < order.tiles; ticket++) {
            const struct key_tile own = key_tile_in_runs(order, causal, ticket, Bc);
            if (own.kv_head != head)
                continue;
            owned++;
            if (backward_first_query(causal, own.key0, call->seq_q, call->seq_kv, Br) > row0)
                continue;
            const int turn = place_in_runs(order, own.key0 / Bc, meet);
            cr_assert(turn == before, "queries from %d on: keys from %d on have turn %d, not %d",
                      row0, own.key0, turn, before);
            before++;
        }
        cr_assert(before == meet, "%d blocks meet queries from %d on, not %d", before, row0, meet);
        cr_assert(owned == order.row_tiles);
    }
    judged++;
}

TEST(plans_06, turns_are_the_order_of_the_tickets)
{
    judged = 0;
    cr_expect(plan_attention_calls(judge_turns, 8, true) >= ATTENTION_CALLS);
    cr_expect(judged >= RANDOM_SHAPES / 4, "%d plans", judged);
}

/* Jobs must come once each, in the order of the heads that wait for them; then a keeper that waits
 * for a head waits for none whose jobs come behind its own. And where a head comes to another's
 * place, all of that one's tiles of keys come before all of its own. */
static void judge_jobs(const struct attention *call, const struct device_limits *device)
{
    if (!plan_has_pairs(call))
        return;
    const struct attention_backward backward_call = plan_backward_of(call);
    const struct tile_order order = key_order_of(&backward_call, BACKWARD_BLOCK_KEYS);
    const int heads = order.heads, pieces = 3;
    const int places = places_of(order, resident_blocks(order.tiles, device));
    cr_assert(places >= 1 && places <= heads);
    uint64_t state = (uint64_t)order.tiles;
    for (int n = 0; n < 8 && places < heads; n++) {
        const int head = places + (int)(plan_random(&state) % (uint64_t)(heads - places));
        const int group = head / order.group, before = (head - places) / order.group;
        cr_assert(before < group, "heads %d and %d, of one group, have one place", head - places,
                  head);
    }
    if (heads > 1 << 12)
        return;
    int *done = calloc(2 * (size_t)heads, sizeof *done), awaited = 0;
    cr_assert_not_null(done);
    for (int number = 0; number < 2 * heads * pieces; number++) {
        const struct job job = job_of(number, pieces, heads, places);
        const int by = job.kv_head + (job.makes_D ? 0 : places);
        cr_assert(job.kv_head >= 0 && job.kv_head < heads && by >= awaited, "job %d", number);
        cr_assert(job.piece == done[2 * job.kv_head + job.makes_D]++, "job %d", number);
        awaited = by;
    }
    for (int head = 0; head < 2 * heads; head++)
        cr_assert(done[head] == pieces);
    cr_assert(job_of(2ULL * heads * pieces, pieces, heads, places).kv_head >= heads);
    free(done);
    judged++;
}

TEST(plans_06, jobs_come_once_and_before_whoever_waits_for_them)
{
    const struct job last = job_of(2ULL * INT_MAX * 2 - 1, 2, INT_MAX, 70);
    cr_expect(!last.makes_D && last.kv_head == INT_MAX - 1 && last.piece == 1);
    judged = 0;
    cr_expect(plan_attention_calls(judge_jobs, 8, true) >= ATTENTION_CALLS);
    cr_expect(judged >= RANDOM_SHAPES / 2, "%d plans", judged);
}

/* The formulas loop over the tiles, as forward. A workspace holds D, and dQ in floats: rows as they
 * are, or whole tiles, of all heads or of those that have a place; and at most a turn of each 1,024
 * of these, and a counter. */
static void judge_gradients(const struct attention *call, const struct device_limits *device)
{
    (void)device;
    if (!plan_has_pairs(call) || call->seq_kv > 1 << 16)
        return;
    const struct attention_backward_kernel *row = step_rows(&step_06, &attention_backward_problem);
    const struct attention_backward backward_call = plan_backward_of(call);
    const double queries = (double)attention_query_rows(call);
    const int TALL = BACKWARD_TALL_QUERIES;
    const double padded =
        128.0 * fmax((double)plan_tiles(call, 128) * 128.0, (double)plan_tiles(call, TALL) * TALL);
    const double turns = padded / 1024.0 + 1.0;
    for (; row->about.name; row++, judged++) {
        plan_backward_row(row, call, 2);
        const double floats = (double)row->workspace(&backward_call) / sizeof(float);
        const bool few =
            row->launch == attention_backward_fused && !backward_has_tall_tiles(&backward_call);
        const double rows = few ? (double)call->seq_q : queries;
        cr_assert(floats >= queries + rows * call->head_dim && floats <= padded + queries + turns,
                  "%s: a workspace of %g floats", row->about.name, floats);
    }
}

TEST(plans_06, gradients_have_costs_and_workspaces_that_fit_their_types)
{
    judged = 0;
    plan_attention_calls(judge_gradients, 8, true);
    cr_expect(judged >= RANDOM_SHAPES, "%d costs", judged);
}

TEST(plans_06, a_call_without_queries_needs_no_workspace)
{
    const struct attention_backward none[] = {
        {.batch = 0, .heads = 2, .kv_heads = 1, .seq_q = 64, .seq_kv = 64, .head_dim = 64},
        {.batch = 1, .heads = 2, .kv_heads = 1, .seq_q = 0, .seq_kv = 64, .head_dim = 128}};
    const struct attention_backward_kernel *row = step_rows(&step_06, &attention_backward_problem);
    for (; row->about.name; row++)
        for (int i = 0; i < 2; i++)
            cr_expect(row->workspace(&none[i]) == 0, "%s", row->about.name);
}
