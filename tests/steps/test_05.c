/* Step 05: FlashAttention-2. */
#include "harness/ladder.h"
#include "05_flash_v2/05_step.h"
#include "05_flash_v2/2_flash_v2.h"
#include "attention_cases.h"
#include "attention_numbers.h"

static const struct attention_kernel *flash_v2_kernels(void)
{
    return step_rows(&step_05, &attention_problem);
}

/* tests/steps/tiles_05.cu has the same sources at tiles that are not square, and at those for an
 * sm_75. */
attention_fn attention_flash_v2_16x32, attention_flash_v2_32x8;
attention_fn attention_flash_v2_base_2_64_kb;

static struct cost base_2_64_kb_cost(const struct attention_kernel *row,
                                     const struct attention *call)
{
    (void)row;
    return tiles_of_queries_cost(call, call->head_dim <= 96 ? 64 : 32, width(call), width(call));
}

static const struct attention_kernel other_tiles[] = {
    ATTENTION_ROW(flash_v2_16x32, "tiles_05.cu", "Br = 16, Bc = 32", .max_head_dim = 128,
                  .cost = flash_v2_cost, .Br = {16, 16}),
    ATTENTION_ROW(flash_v2_32x8, "tiles_05.cu", "Br = 32, Bc = 8", .max_head_dim = 128,
                  .cost = flash_v2_cost, .Br = {32, 32}),
    ATTENTION_ROW(flash_v2_base_2_64_kb, "tiles_05.cu", "64 KB", .max_head_dim = 128,
                  .cost = base_2_64_kb_cost),
    {.about.name = NULL},
};

static bool count(const char *name, struct size size, struct counters *counters)
{
    return count_of(flash_v2_kernels(), name, size, counters);
}

static const struct attention_kernel *split_kv(void)
{
    return (const struct attention_kernel *)ladder_find(&attention_problem, flash_v2_kernels(),
                                                        "split_kv");
}

/* ---------------------------------------------------------------------------------------------- */
/* Every kernel, every shape */

CALL_TEST(cases, part_1, ladder_cases(&attention_problem, flash_v2_kernels(), 0, 6))
CALL_TEST(cases, part_2, ladder_cases(&attention_problem, flash_v2_kernels(), 1, 6))
CALL_TEST(cases, part_3, ladder_cases(&attention_problem, flash_v2_kernels(), 2, 6))
CALL_TEST(cases, part_4, ladder_cases(&attention_problem, flash_v2_kernels(), 3, 6))
CALL_TEST(cases, part_5, ladder_cases(&attention_problem, flash_v2_kernels(), 4, 6))
CALL_TEST(cases, part_6, ladder_cases(&attention_problem, flash_v2_kernels(), 5, 6))
CALL_TEST(cases, own, ladder_own_cases(&attention_problem, flash_v2_kernels()))
CALL_TEST(shapes, failed_once, ladder_failed_once(&step_05, &attention_problem))

TEST(shapes, other_tiles)
{
    static const int seq[][2] = {{1, 1},   {31, 33}, {32, 8},  {65, 40},
                                 {33, 97}, {15, 7},  {70, 67}, {133, 35}};
    static const int head_dim[] = {20, 64, 90, 128};
    for (size_t i = 0; i < sizeof seq / sizeof *seq; i++) {
        const struct size size = {1, 2, 1, seq[i][0], seq[i][1], head_dim[i % 4]};
        check_sizes(other_tiles, size, INPUTS_NORMAL, 51 + i, i % 3 == 2 ? 4 : 0);
    }
}

/* So many keys are cut into 342 runs of 257, the last of which would begin past the end of the
 * keys: it is left out, or it is empty. */
TEST(shapes, more_runs_than_the_keys_fill)
{
    const void *decode = ladder_find(&attention_problem, flash_v2_kernels(), "split_kv_naive");
    check_sizes(decode, (struct size){1, 3, 3, 1, 87553, 4}, INPUTS_ASCENDING, 61, 0);
}

CALL_TEST(shapes, more_than_65535_blocks, check_many_blocks(flash_v2_kernels(), TENSOR_F32))
CALL_TEST(shapes, past_2_to_the_31_elements,
          check_past_2_to_the_31_elements(flash_v2_kernels(), TENSOR_F32))

/* ---------------------------------------------------------------------------------------------- */
/* Through the C functions: what the command line cannot ask for */

CALL_TEST(contract, LSE_is_optional, check_LSE_is_optional(flash_v2_kernels(), TENSOR_F32))
CALL_TEST(contract, no_keys, check_no_keys(flash_v2_kernels(), TENSOR_F32))
CALL_TEST(contract, any_scale, check_any_scale(flash_v2_kernels(), TENSOR_F32))
CALL_TEST(contract, overflowing_scores, check_overflowing_scores(flash_v2_kernels());
          check_overflowing_scores(other_tiles))
CALL_TEST(contract, nan_scores,
          check_nan_scores(flash_v2_kernels(), (struct size){1, 1, 1, 7, 300, 20});
          check_nan_scores(other_tiles, (struct size){1, 1, 1, 7, 300, 20}))
CALL_TEST(contract, very_small_scores, check_very_small_scores(flash_v2_kernels());
          check_very_small_scores(other_tiles))
CALL_TEST(contract, refused_scales, check_refused_scales(flash_v2_kernels()))
CALL_TEST(contract, refused_calls, check_refused_calls(flash_v2_kernels(), TENSOR_F32))

/* There are so few queries that split_kv wants a workspace. */
TEST(contract, refused_pointers)
{
    const struct size size = {1, 1, 1, 1, 600, 16};
    const struct attention call = call_of(size);
    cr_assert(split_kv()->workspace(&call) > 0);
    check_refused_pointers(flash_v2_kernels(), size);
}

/* No kernel may have room for the N × N scores: each row gets at most this many floats, however
 * long it is. */
TEST(contract, workspace_is_linear)
{
    /* split_kv_naive takes 1024 blocks of 16 rows, or fewer than twice as many where more runs than
     * needed fit. */
    const int rows_in_flight = 2 * 1024 * 16;
    for (int seq = 1; seq <= 1 << 24; seq *= 2) {
        for (int seq_q = 1; seq_q <= seq;
             seq_q = seq_q < seq && seq_q * 64 > seq ? seq : seq_q * 64) {
            const struct attention call = call_of((struct size){1, 1, 1, seq_q, seq, 64});
            const size_t most = ((size_t)rows_in_flight + seq_q) * (64 + 1) * sizeof(float);
            for (const struct attention_kernel *row = flash_v2_kernels(); row->about.name; row++) {
                const size_t bytes = row->workspace ? row->workspace(&call) : 0;
                cr_expect(bytes <= most, "%s: %d queries, %d keys: %zu bytes", row->about.name,
                          seq_q, seq, bytes);
            }
        }
    }
    struct attention call = call_of((struct size){1, 1, 1, 16384, 16384, 64});
    cr_expect(split_kv()->workspace(&call) == 0, "the queries alone fill the grid");
    call.kv_heads = 0; /* it may be asked about nonsense */
    cr_expect(split_kv()->workspace(&call) == 0);
    call = call_of((struct size){1 << 20, 1 << 20, 1, 1 << 20, 16384, 64});
    cr_expect(split_kv()->workspace(&call) == 0);
}

/* ---------------------------------------------------------------------------------------------- */
/* What the rows say that the kernels do */

TEST(counters, costs)
{
    static const struct size counted[] = {{1, 1, 1, 128, 64, 16}, {1, 1, 1, 66, 70, 64},
                                          {1, 2, 1, 17, 33, 20},  {1, 1, 1, 3, 129, 128},
                                          {1, 1, 1, 1, 530, 37},  {1, 1, 1, 70, 37, 90},
                                          {1, 1, 1, 140, 9, 32}};
    check_costs(flash_v2_kernels(), counted, sizeof counted / sizeof *counted);
    check_costs(other_tiles, counted, sizeof counted / sizeof *counted);
}

/* Loads of 16 bytes a lane take a quarter of the instructions. */
TEST(counters, wide_loads)
{
    struct counters counters;
    const struct size size = {1, 1, 1, 1, 1024, 64};
    if (!ladder_counts(&split_kv()->about) || !count("split_kv", size, &counters))
        return;
    cr_expect(counters.global_loads < counters.global_load_bytes / 15, "%llu loads for %llu bytes",
              counters.global_loads, counters.global_load_bytes);
}

/*
 * These are the sectors and bank conflicts of whole tiles. Each LSE is a store of its own, and
 * K_tile[key · d + k] of the first kernel lies in few banks. In split_kv all groups ask for the
 * same queries. Where the keys are split, its merge and the naive one's read LSE by broadcasts or
 * one by one.
 */
TEST(counters, traffic)
{
    static const struct traffic many_queries[] = {
        {"flash_v2_exchanged", 0, 1.046, 4.052},
        {"flash_v2", 0, 1.046, 0},
        {"split_kv_naive", 0, 1.046, 0},
        {"flash_v2_rectangles", 0, 1.046, 0},
        {"flash_v2_async", 0, 1.046, 0},
        {"flash_v2_large_tiles", 0, 1.046, 0},
        {"flash_v2_base_2", 0, 1.046, 0},
        {"split_kv", 13.0 / 14, 1.108, 0},
        {NULL, 0, 0, 0},
    };
    static const struct traffic one_query[] = {
        {"flash_v2_exchanged", 0, 1.108, 3.455},
        {"flash_v2", 0, 1.108, 0},
        {"split_kv_naive", 1.028, 2.486, 0},
        {"flash_v2_rectangles", 0, 1.108, 0},
        {"flash_v2_async", 0, 1.108, 0},
        {"flash_v2_large_tiles", 0, 1.108, 0},
        {"flash_v2_base_2", 0, 1.108, 0},
        {"split_kv", 0.9845, 1.108, 0},
        {NULL, 0, 0, 0},
    };
    check_traffic(flash_v2_kernels(), (struct size){1, 1, 1, 128, 192, 64}, many_queries);
    check_traffic(flash_v2_kernels(), (struct size){1, 1, 1, 1, 1024, 64}, one_query);
}

TEST(counters, barriers)
{
    const struct size size = {1, 1, 1, 130, 70, 64};
    struct counters counters;
    static const struct {
        const char *name;
        int Br, Bc, per_tile, per_block;
    } expected[] = {{"flash_v2_exchanged", 16, 16, 4, 1},    {"flash_v2", 16, 16, 2, 0},
                    {"flash_v2_rectangles", 64, 32, 2, 0},   {"flash_v2_async", 64, 32, 4, 0},
                    {"flash_v2_large_tiles", 128, 64, 4, 0}, {"flash_v2_base_2", 128, 64, 4, 0}};
    EACH_EXPECTED (&attention_problem, flash_v2_kernels(), row, expected) {
        if (!count(row->name, size, &counters))
            continue;
        const long long barriers =
            tiles(130, row->Br) * (row->per_tile * tiles(70, row->Bc) + row->per_block);
        cr_expect(counters.barriers == (unsigned long long)barriers,
                  "%s: %llu barriers, %lld expected", row->name, counters.barriers, barriers);
    }
}

/* K lies transposed with padded rows, so no thread waits for a bank. */
TEST(counters, no_bank_conflicts)
{
    const struct size size = {1, 1, 1, 130, 70, 64};
    EACH_COUNTED (kernel, flash_v2_kernels() + 1) {
        struct counters counters;
        if (!count(kernel->about.name, size, &counters))
            continue;
        cr_expect(counters.shared_wavefronts == counters.shared_wavefronts_ideal,
                  "%s: %llu wavefronts, ideally %llu", kernel->about.name,
                  counters.shared_wavefronts, counters.shared_wavefronts_ideal);
    }
}

/* Tiles, and the number of runs that the keys are split into, are other ones on the other
 * devices. */
TEST(devices, several)
{
    static const struct size cases[] = {
        {1, 2, 1, 9, 70, 30}, {1, 2, 1, 70, 40, 64}, {1, 2, 1, 9, 40, 128}, {1, 1, 1, 1, 1500, 64}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ladder_devices(&attention_problem, flash_v2_kernels(), SIZES(cases[i]));
}

/* There is one case for each width, and for each number of rows and runs, that the kernels choose.
 * The second is the first with other heads. */
TEST(launches, errors_and_streams)
{
    static const struct size cases[] = {
        {1, 2, 1, 17, 35, 64},  {1, 2, 2, 17, 35, 64},  {1, 1, 1, 1, 600, 16}, {1, 2, 2, 9, 35, 30},
        {1, 1, 1, 17, 20, 128}, {1, 2, 1, 1, 700, 128}, {2, 1, 1, 5, 35, 90}};
    check_launches(flash_v2_kernels(), cases, sizeof cases / sizeof *cases);
    check_many_launches(flash_v2_kernels(), (struct size){1, 3, 1, 1, 300, 16});
}

/* The numbers are what the kernels did when they were judged: a faster way changes them. */
TEST(counters, work_heads)
{
    static const struct work expected[] = {
        {"flash_v2_exchanged", 10, 2560, 3326960, 250},
        {"flash_v2", 10, 2560, 3932160, 120},
        {"flash_v2_rectangles", 4, 512, 344064, 24},
        {"flash_v2_async", 4, 512, 344064, 48},
        {"flash_v2_large_tiles", 2, 256, 262144, 16},
        {"flash_v2_base_2", 2, 256, 262144, 16},
        {"split_kv_naive", 10, 2560, 3932160, 120},
        {"split_kv", 35, 8960, 53760, 35},
        {NULL, 0, 0, 0, 0},
    };
    ladder_work(&attention_problem, flash_v2_kernels(), SIZES(((struct size){1, 2, 1, 70, 90, 64})),
                expected);
}

TEST(counters, work_one_query)
{
    static const struct work expected[] = {
        {"flash_v2_exchanged", 2, 512, 315868, 306},
        {"flash_v2", 2, 512, 4980736, 152},
        {"flash_v2_rectangles", 2, 256, 1089536, 76},
        {"flash_v2_async", 2, 256, 1089536, 152},
        {"flash_v2_large_tiles", 2, 256, 1310720, 80},
        {"flash_v2_base_2", 2, 256, 1310720, 80},
        {"split_kv_naive", 7, 1568, 5111808, 156},
        {"split_kv", 5, 1280, 5376, 5},
        {NULL, 0, 0, 0, 0},
    };
    ladder_work(&attention_problem, flash_v2_kernels(), SIZES(((struct size){1, 2, 1, 1, 600, 64})),
                expected);
}
