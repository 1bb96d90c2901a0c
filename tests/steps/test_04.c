/* Step 04: from the scores in memory to FlashAttention-1. */
#include "harness/ladder.h"
#include "04_flash_v1/04_step.h"
#include "04_flash_v1/07_flash_v1.h"
#include "attention_cases.h"
#include "attention_numbers.h"

static const struct attention_kernel *flash_v1_kernels(void)
{
    return step_rows(&step_04, &attention_problem);
}

/* tests/steps/tiles_04.cu has the same sources at tiles that are not square, and at those for an
 * sm_75. */
attention_fn attention_flash_v1_16x32, attention_flash_v1_32x8;
attention_fn attention_flash_v1_async_64_kb;

static struct cost small_tiles_cost(const struct attention_kernel *row,
                                    const struct attention *call)
{
    return tiles_of_keys_cost(call, row->Bc[call->head_dim > 64], 1, false);
}

static struct cost small_tiles_known_start_cost(const struct attention_kernel *row,
                                                const struct attention *call)
{
    return tiles_of_keys_cost(call, row->Bc[call->head_dim > 64], 1, true);
}

#define FA1 .max_head_dim = 128, .workspace = statistics_workspace

static const struct attention_kernel other_tiles[] = {
    ATTENTION_ROW(flash_v1_16x32, "tiles_04.cu", "Br = 16, Bc = 32", FA1, .cost = small_tiles_cost,
                  .Bc = {32, 32}),
    ATTENTION_ROW(flash_v1_32x8, "tiles_04.cu", "Br = 32, Bc = 8", FA1, .cost = small_tiles_cost,
                  .Bc = {8, 8}),
    ATTENTION_ROW(flash_v1_async_64_kb, "tiles_04.cu", "64 KB", FA1,
                  .cost = small_tiles_known_start_cost, .Bc = {64, 32}),
    {.about.name = NULL},
};

static void check(struct size size, enum input_kind kind, uint64_t seed, size_t offset)
{
    check_sizes(flash_v1_kernels(), size, kind, seed, offset);
}

/* The kernels that go tile by tile are fast enough to try at many more shapes than those that go
 * key by key. */
static const struct attention_kernel *tiled(void)
{
    return (const struct attention_kernel *)ladder_find(&attention_problem, flash_v1_kernels(),
                                                        "flash_v1");
}

static void check_tiles(struct size size, enum input_kind kind, uint64_t seed, size_t offset)
{
    check_sizes(tiled(), size, kind, seed, offset);
    check_sizes(other_tiles, size, kind, seed, offset);
}

/* ---------------------------------------------------------------------------------------------- */
/* Every kernel, every shape */

CALL_TEST(cases, part_1, ladder_cases(&attention_problem, flash_v1_kernels(), 0, 6))
CALL_TEST(cases, part_2, ladder_cases(&attention_problem, flash_v1_kernels(), 1, 6))
CALL_TEST(cases, part_3, ladder_cases(&attention_problem, flash_v1_kernels(), 2, 6))
CALL_TEST(cases, part_4, ladder_cases(&attention_problem, flash_v1_kernels(), 3, 6))
CALL_TEST(cases, part_5, ladder_cases(&attention_problem, flash_v1_kernels(), 4, 6))
CALL_TEST(cases, part_6, ladder_cases(&attention_problem, flash_v1_kernels(), 5, 6))
CALL_TEST(cases, own, ladder_own_cases(&attention_problem, flash_v1_kernels()))
CALL_TEST(shapes, failed_once, ladder_failed_once(&step_04, &attention_problem))

CALL_TEST(shapes, more_than_65535_blocks, check_many_blocks(flash_v1_kernels(), TENSOR_F32))
CALL_TEST(shapes, past_2_to_the_31_elements,
          check_past_2_to_the_31_elements(flash_v1_kernels(), TENSOR_F32))

/* ---------------------------------------------------------------------------------------------- */
/* FlashAttention-1 at every tile: tiles - 1, tiles, tiles + 1, two full ones and a tail, both
 * ways */

TEST(tiles, sequences)
{
    static const int seq[] = {1,  7,  8,  9,  15, 16,  17,  31,  32,  33,  47,  48,
                              49, 63, 64, 65, 95, 100, 127, 128, 129, 255, 256, 257};
    for (size_t i = 0; i < sizeof seq / sizeof *seq; i++) {
        check_tiles((struct size){1, 1, 1, seq[i], 67, 36}, INPUTS_NORMAL, 101 + i, 0);
        check_tiles((struct size){1, 1, 1, 35, seq[i], 36}, INPUTS_NORMAL, 131 + i, 0);
    }
    check_tiles((struct size){1, 2, 1, 200, 140, 64}, INPUTS_NORMAL, 161, 0);
}

TEST(tiles, head_dims)
{
    for (int head_dim = 1; head_dim <= 128;
         head_dim += head_dim % 32 < 2 || head_dim % 32 > 29 ? 1 : 9)
        check_tiles((struct size){1, 1, 1, 35, 141, head_dim}, INPUTS_NORMAL,
                    171 + (uint64_t)head_dim, 0);
}

/* Each loop runs at least three times while everything that may change between its turns does:
 * heads of two key/value heads with a padded head_dim, many chunks, slices and tiles, and their
 * tails. */
TEST(tiles, many_turns)
{
    check((struct size){1, 2, 2, 40, 40, 40}, INPUTS_NORMAL, 401, 0);
    check((struct size){1, 4, 2, 70, 161, 40}, INPUTS_DESCENDING, 402, 0);
    check_tiles((struct size){1, 2, 2, 300, 300, 40}, INPUTS_ASCENDING, 403, 0);
    check_tiles((struct size){1, 1, 1, 300, 200, 100}, INPUTS_NORMAL, 404, 4);
}

TEST(tiles, heads_and_inputs)
{
    for (int kind = 0; kind < INPUT_KINDS; kind++) {
        check_tiles((struct size){1, 2, 1, 41, 150, 64}, (enum input_kind)kind, 301, 0);
        check_tiles((struct size){2, 1, 1, 70, 23, 80}, (enum input_kind)kind, 302, 4);
        check_tiles((struct size){1, 1, 1, 50, 200, 128}, (enum input_kind)kind, 303, 0);
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* Through the C functions: what the command line cannot ask for */

CALL_TEST(contract, LSE_is_optional, check_LSE_is_optional(flash_v1_kernels(), TENSOR_F32);
          check_LSE_is_optional(other_tiles, TENSOR_F32))
CALL_TEST(contract, no_keys, check_no_keys(flash_v1_kernels(), TENSOR_F32);
          check_no_keys(other_tiles, TENSOR_F32))
CALL_TEST(contract, any_scale, check_any_scale(flash_v1_kernels(), TENSOR_F32))
CALL_TEST(contract, overflowing_scores, check_overflowing_scores(flash_v1_kernels());
          check_overflowing_scores(other_tiles))
CALL_TEST(contract, nan_scores,
          check_nan_scores(flash_v1_kernels(), (struct size){1, 1, 1, 7, 300, 20});
          check_nan_scores(other_tiles, (struct size){1, 1, 1, 7, 300, 20}))
CALL_TEST(contract, very_small_scores, check_very_small_scores(flash_v1_kernels());
          check_very_small_scores(other_tiles))
CALL_TEST(contract, refused_scales, check_refused_scales(flash_v1_kernels()))
CALL_TEST(contract, refused_calls, check_refused_calls(flash_v1_kernels(), TENSOR_F32))
CALL_TEST(contract, refused_pointers,
          check_refused_pointers(flash_v1_kernels(), (struct size){1, 2, 1, 9, 70, 16}))

/* The scores of one head at 16384 are 1 GiB, and only standard needs them all; the others need a
 * few floats per query. */
TEST(contract, workspace)
{
    for (int seq = 1; seq <= 1 << 20; seq *= 2) {
        const struct attention call = call_of((struct size){2, 3, 1, seq, 2 * seq, 64});
        const size_t queries = (size_t)6 * seq;
        cr_expect(flash_v1_kernels()->workspace(&call) == queries * 2 * seq * sizeof(float));
        for (const struct attention_kernel *row = flash_v1_kernels() + 1; row->about.name; row++) {
            const size_t bytes = row->workspace ? row->workspace(&call) : 0;
            cr_expect(bytes <= queries * 12 + 4, "%s: %zu bytes for %zu queries", row->about.name,
                      bytes, queries);
        }
    }
    const struct attention head = call_of((struct size){1, 1, 1, 16384, 16384, 64});
    cr_expect(flash_v1_kernels()->workspace(&head) == (size_t)1 << 30);
    cr_expect(tiled()->workspace(&head) == (size_t)2 * 16384 * sizeof(float));
}

/* ---------------------------------------------------------------------------------------------- */
/* What the rows say that the kernels do */

static const struct size counted[] = {
    {1, 2, 1, 64, 64, 16},  {1, 1, 1, 50, 70, 33},  {2, 2, 1, 17, 130, 20}, {1, 1, 1, 3, 1, 1},
    {1, 1, 1, 3, 129, 128}, {1, 1, 1, 20, 140, 64}, {1, 1, 1, 20, 70, 90},
};
enum { COUNTED = sizeof counted / sizeof *counted };

TEST(counters, costs_of_other_tiles)
{
    check_costs(other_tiles, counted, COUNTED);
}

TEST(counters, costs_barriers_and_atomics)
{
    for (int i = 0; i < COUNTED; i++) {
        const struct size size = counted[i];
        const long long heads = size.batch * size.heads, rows = heads * size.seq_q;
        const long long chunks = tiles(size.seq_kv, 32), Bc = size.head_dim > 64 ? 32 : 64;
        const long long warps = size.head_dim <= 64 ? 6 : size.head_dim <= 96 ? 5 : 3;
        const struct {
            const char *name;
            long long barriers, atomics; /* -1 atomics: as many as turns are asked for */
        } expected[] = {
            {"row_per_thread", 0, 0},
            {"row_parallel", 0, 0},
            {"key_parallel_ordered", 0, -1},
            /* Each chunk of 32 keys has a maximum, a sum, and one atomic for each element of O. */
            {"key_parallel_atomic", 0, rows * chunks * (2 + size.head_dim)},
            {"key_parallel_block", rows, 0},
            {"flash_v1", heads * tiles(size.seq_kv, 16) * (1 + 3 * tiles(size.seq_q, 16)), 0},
            {"flash_v1_register_tile",
             heads * tiles(size.seq_kv, 16) *
                 (1 + 5 * tiles(size.seq_q, size.head_dim <= 64 ? 128 : 64)),
             0},
            {"flash_v1_wide_tile",
             heads * tiles(size.seq_kv, Bc) *
                 (1 + 5 * tiles(size.seq_q, 16 * (size.head_dim <= 32 ? 8 : warps))),
             0},
            {"flash_v1_warps", 2 * heads * tiles(size.seq_kv, Bc), 0},
            {"flash_v1_ahead", 2 * heads * tiles(size.seq_kv, Bc), 0},
            {"flash_v1_async", 3 * heads * tiles(size.seq_kv, size.head_dim % 4 ? Bc : 128), 0},
        };
        enum { EXPECTED = sizeof expected / sizeof *expected };
        EACH_COUNTED (kernel, flash_v1_kernels()) {
            const char *name = kernel->about.name;
            struct counters counters;
            int k = 0;
            while (k < EXPECTED && strcmp(name, expected[k].name) != 0)
                k++;
            if (!count_of(flash_v1_kernels(), name, size, &counters) || k == EXPECTED)
                continue;
            cr_expect(expected[k].atomics < 0 ||
                          counters.atomics == (unsigned long long)expected[k].atomics,
                      "%s: %llu atomics, %lld expected", name, counters.atomics,
                      expected[k].atomics);
            cr_expect(counters.barriers == (unsigned long long)expected[k].barriers,
                      "%s: %llu barriers, %lld expected", name, counters.barriers,
                      expected[k].barriers);
        }
    }
}

/*
 * These are the sectors and bank conflicts of whole tiles. Whole sectors are 1, a broadcast of a
 * float to a warp is 1/4, and lanes in rows of their own are 8. A warp that stores one float of
 * LSE, l or m takes a sector for it.
 *
 * A warp of row_per_thread loads K and V by broadcasts, and Q and O from 32 different rows. In
 * standard's scores the lanes are 32 keys apart by d and share the query. The tiles of 08 to 11
 * load O by rectangles, a float at a time; those of 12 to 14 load four at a time. In flash_v1's
 * K_tile, K_tile[col · d + k], 16 lanes meet in one bank; elsewhere only the lanes that add up a
 * row of S do.
 */
TEST(counters, traffic)
{
    static const struct traffic expected[] = {
        {"standard", 2.359, 1.022, 0},
        {"row_per_thread", 2.847, 7.999, 0},
        {"row_parallel", 0, 1.108, 0},
        {"key_parallel_ordered", 0.992, 1.313, 0},
        {"key_parallel_atomic", 0.992, 1.103, 0},
        {"key_parallel_block", 0, 1.108, 0},
        {"flash_v1", 1.041, 1.086, 4.039},
        {"flash_v1_register_tile", 2.315, 3.577, 0},
        {"flash_v1_wide_tile", 1.990, 2.920, 1.018},
        {"flash_v1_warps", 1.885, 2.995, 1.020},
        {"flash_v1_ahead", 1.990, 2.995, 1.020},
        {"flash_v1_large_tiles", 0, 1.067, 1.033},
        {"flash_v1_base_2", 0, 1.067, 1.033},
        {"flash_v1_async", 0, 1.134, 1.033},
        {NULL, 0, 0, 0},
    };
    check_traffic(flash_v1_kernels(), (struct size){1, 1, 1, 128, 128, 64}, expected);
}

/* Kernels whose blocks grow with the queries times the keys can need more than a grid has. They
 * must say so before they touch anything. */
TEST(refusals, more_blocks_than_a_grid_has)
{
    static const char *const names[] = {"standard", "key_parallel_ordered", "key_parallel_atomic"};
    const struct attention call = call_of((struct size){1, 1, 1, 1 << 20, 1 << 20, 1});
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct attention_kernel *row = (const struct attention_kernel *)ladder_find(
            &attention_problem, flash_v1_kernels(), names[i]);
        if (!ladder_runs(&row->about))
            continue;
        refusal_clear();
        const cudaError_t status = row->launch(&call);
        cr_expect(status == cudaErrorInvalidValue, "%s: %s", names[i], cudaGetErrorName(status));
        cr_expect(strstr(refusal(), " blocks") != NULL, "%s: '%s'", names[i], refusal());
    }
}

/* On an sm_75 a block has 64 KB of shared memory: tiles are smaller, warps fewer, and one kernel
 * refuses. A GPU has only its own limit. */
CONDITIONAL_TEST(launches, least_shared_memory, ladder_architecture(75))
{
    check((struct size){1, 2, 1, 9, 70, 30}, INPUTS_NORMAL, 101, 0);
    check((struct size){1, 2, 1, 9, 70, 64}, INPUTS_NORMAL, 102, 0);
    check((struct size){1, 2, 1, 9, 40, 90}, INPUTS_NORMAL, 103, 0);
    check((struct size){1, 2, 1, 9, 40, 128}, INPUTS_NORMAL, 104, 0);
    expect_skipped(flash_v1_kernels(), "flash_v1_wide_tile", (struct size){1, 1, 1, 9, 40, 128},
                   "66560 bytes of shared");
}

/* Tiles are smaller on an sm_75. */
TEST(devices, several)
{
    static const struct size cases[] = {
        {1, 2, 1, 9, 70, 30}, {1, 5, 1, 70, 40, 64}, {1, 2, 1, 9, 40, 90}, {1, 2, 1, 9, 40, 128}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ladder_devices(&attention_problem, flash_v1_kernels(), SIZES(cases[i]));
}

/* One head_dim stands for each of the tiles that the kernels choose between. The second case is the
 * first with other heads. */
TEST(launches, errors_and_streams)
{
    static const struct size cases[] = {{1, 2, 1, 17, 35, 64},
                                        {1, 2, 2, 17, 35, 64},
                                        {1, 2, 2, 9, 35, 30},
                                        {1, 1, 1, 17, 20, 128},
                                        {2, 1, 1, 5, 35, 90}};
    check_launches(flash_v1_kernels(), cases, sizeof cases / sizeof *cases);
    check_many_launches(flash_v1_kernels(), (struct size){1, 9, 9, 2, 5, 4});
}

/* The numbers are what the kernels did when they were judged: a faster way changes them. */
TEST(counters, work_heads)
{
    static const struct work expected[] = {
        {"standard", 104, 26624, 0, 0},
        {"row_per_thread", 2, 256, 0, 0},
        {"row_parallel", 35, 4480, 0, 0},
        {"key_parallel_ordered", 106, 13568, 0, 0},
        {"key_parallel_atomic", 354, 49920, 0, 0},
        {"key_parallel_block", 140, 35840, 241920, 140},
        {"flash_v1", 38, 9728, 3371760, 192},
        {"flash_v1_register_tile", 38, 9728, 665016, 72},
        {"flash_v1_wide_tile", 38, 9600, 312456, 24},
        {"flash_v1_warps", 38, 9600, 209280, 8},
        {"flash_v1_ahead", 38, 9600, 209280, 8},
        {"flash_v1_large_tiles", 38, 9728, 142848, 4},
        {"flash_v1_base_2", 38, 9728, 142848, 4},
        {"flash_v1_async", 2, 512, 380928, 6},
        {NULL, 0, 0, 0, 0},
    };
    ladder_work(&attention_problem, flash_v1_kernels(), SIZES(((struct size){1, 2, 1, 70, 90, 64})),
                expected);
}
