/* Step 02: the tiled matmul, from a tile in shared memory to a kernel as fast as the vendor's. */
#include "harness/ladder.h"
#include "02_tiled_matmul/02_step.h"
#include "matmul_cases.h"

static const struct matmul_kernel *tiled_matmul_kernels(void)
{
    return step_rows(&step_02, &matmul_problem);
}

CALL_TEST(cases, part_1, ladder_cases(&matmul_problem, tiled_matmul_kernels(), 0, 4))
CALL_TEST(cases, part_2, ladder_cases(&matmul_problem, tiled_matmul_kernels(), 1, 4))
CALL_TEST(cases, part_3, ladder_cases(&matmul_problem, tiled_matmul_kernels(), 2, 4))
CALL_TEST(cases, part_4, ladder_cases(&matmul_problem, tiled_matmul_kernels(), 3, 4))
CALL_TEST(cases, own, ladder_own_cases(&matmul_problem, tiled_matmul_kernels()))
CALL_TEST(shapes, failed_once, ladder_failed_once(&step_02, &matmul_problem))
CALL_TEST(shapes, long_sides, check_long_sides(tiled_matmul_kernels()))
CALL_TEST(shapes, past_2_to_the_31_elements,
          check_past_2_to_the_31_elements(tiled_matmul_kernels()))
CALL_TEST(arguments, refused, check_refusals(tiled_matmul_kernels()))

/* These tables are parts of the ladder: from wide_tile on, which have 128 x 256 tiles; sgemm and
 * sgemm_cluster, which choose between tiles; and the last of these. */
static const struct matmul_kernel *from(const char *name)
{
    return (const struct matmul_kernel *)ladder_find(&matmul_problem, tiled_matmul_kernels(), name);
}

static const struct matmul_kernel *wide_rungs(void)
{
    return from("wide_tile");
}

static const struct matmul_kernel *last_rungs(void)
{
    return from("sgemm");
}

static const struct matmul_kernel *sgemm_cluster_alone(void)
{
    return from("sgemm_cluster");
}

/* The rows' edges give 128 x 256 tiles to the CPU backend's 8 multiprocessors, these to a GPU's
 * many, with each edge ragged or not. */
TEST(wide, large_tiles)
{
    static const struct matmul_case many[] = {
        {4096, 2048, 64}, {4095, 2047, 129}, {100, 33000, 70}, {16500, 201, 70}};
    if (ladder_full_size_or_skip("tiles for more than 8 multiprocessors"))
        check_cases(wide_rungs(), many, sizeof many / sizeof *many, 750);
}

/*
 * The row's edges meet each choice of sgemm_cluster on the CPU backend's 8 multiprocessors, these
 * on a GPU's 132: tall and wide tiles for 1, 2 and 8 blocks of one group and 1 and 2 blocks of two;
 * tiles of 80 x 160; large tiles with a second launch for the rest.
 */
TEST(sgemm, clusters)
{
    static const struct matmul_case many[] = {
        {1600, 1600, 64}, {1599, 1601, 67}, {12800, 64, 64}, {12799, 61, 67}, {8192, 64, 256},
        {8190, 61, 301},  {2048, 64, 256},  {2041, 61, 301}, {64, 12800, 64}, {61, 12799, 67},
        {64, 8192, 256},  {61, 8190, 301},  {64, 2048, 256}, {61, 2041, 301}, {1000, 777, 300},
        {960, 800, 256},  {1537, 2816, 64}, {1540, 2819, 67}};
    if (ladder_full_size_or_skip("tiles for more than 8 multiprocessors"))
        check_cases(sgemm_cluster_alone(), many, sizeof many / sizeof *many, 1100);
}

/* The shares are always added in the same order, so every run must give the same bits, whichever
 * block arrives first. */
TEST(sgemm, clusters_repeat)
{
    /* The cases have clusters of 2 and of 8 blocks, and blocks of two groups, one and two to a
     * cluster. */
    static const struct matmul_case cases[] = {
        {70, 90, 60}, {70, 90, 500}, {1020, 62, 50}, {70, 90, 120}, {155, 317, 130}};
    if (!ladder_runs(&sgemm_cluster_alone()->about))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct matmul_case c = cases[i];
        struct trial trial =
            ladder_trial(&matmul_problem, MATMUL_SIZES(c.M, c.N, c.K), INPUTS_NORMAL, 900 + i, 0);
        const struct tensor *C = &trial.tensors[trial.input_count];
        const size_t bytes = C->rows * C->cols * sizeof(float);
        float *first = malloc(bytes);
        for (int order = 0; thread_orders[order]; order++) {
            setenv(ORDER_VARIABLE, thread_orders[order], 1);
            const struct verdict verdict = trial_run(&trial, &sgemm_cluster_alone()->about);
            unsetenv(ORDER_VARIABLE);
            cr_assert(verdict.status == VERDICT_PASS, "%s", verdict.reason);
            if (order == 0)
                memcpy(first, trial.host[trial.input_count], bytes);
            cr_expect(memcmp(first, trial.host[trial.input_count], bytes) == 0,
                      "%dx%dx%d, order %s gives other bits", c.M, c.N, c.K, thread_orders[order]);
        }
        free(first);
        trial_destroy(&trial);
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* What each kernel does, counted, against closed formulas */

/* This is what a kernel does to C [M, N] = A [M, K] · B [K, N] with tiles BM x BN, in steps of BK
 * along K. */
struct expected {
    const char *name;
    int BM, BN, BK, threads;
    int shared_loads;       /* of one thread at one k */
    int barriers_per_block; /* apart from those of each tile */
    int barriers_per_tile;
    bool reads_on; /* it reads the first operands of a tile that does not exist */
};

static const struct expected ladder[] = {
    {"shared_tile", 16, 16, 16, 256, 2, 0, 2, false},
    {"column_tile", 64, 64, 8, 512, 9, 0, 2, false},
    {"register_tile", 128, 128, 8, 256, 16, 0, 2, false},
    {"vectorized", 128, 128, 8, 256, 4, 0, 2, false},
    {"pipelined", 128, 128, 8, 256, 4, 0, 1, false},
    {"async", 128, 128, 8, 256, 4, 0, 1, false},
    {"warp_tile", 128, 128, 8, 256, 4, 1, 1, true},
    {"deep_tile", 128, 128, 16, 256, 4, 1, 1, true},
    {"ragged_first", 128, 128, 16, 256, 4, 1, 1, true},
    {"wide_tile", 128, 256, 16, 256, 6, 1, 1, true},
    {"scheduled", 128, 256, 16, 256, 6, 1, 1, true},
};

static unsigned long long tiles(int n, int tile)
{
    return (unsigned long long)((n + tile - 1) / tile);
}

/* Requires counters.x == value; the message names the kernel and the case. */
#define EXPECT_COUNT(x, value)                                                                     \
    cr_expect(counters.x == (value), "%s %dx%dx%d: " #x " is %llu, not %llu", name, c.M, c.N, c.K, \
              counters.x, (unsigned long long)(value))

static void check_counters(const struct expected *e, struct matmul_case c)
{
    const char *name = e->name;
    const unsigned long long blocks = tiles(c.M, e->BM) * tiles(c.N, e->BN),
                             steps = tiles(c.K, e->BK);
    struct counters counters;
    if (!count(tiled_matmul_kernels(), name, c.M, c.N, c.K, &counters))
        return;

    EXPECT_COUNT(shared_loads, blocks * (steps * e->BK + (e->reads_on ? 1 : 0)) *
                                   (unsigned)(e->threads * e->shared_loads));
    EXPECT_COUNT(barriers, blocks * ((unsigned)e->barriers_per_block +
                                     steps * (unsigned)e->barriers_per_tile));
    EXPECT_COUNT(shared_wavefronts, counters.shared_wavefronts_ideal); /* no bank conflicts */
    EXPECT_COUNT(atomics, 0ull);
}

/* These are sizes at which the tests below count nothing else. */
TEST(counters, costs)
{
    static const struct matmul_case cases[] = {
        {64, 48, 8}, {63, 47, 8}, {129, 257, 9}, {20, 30, 130}, {5, 7, 0}};
    static const struct matmul_case more[] = {
        {64, 64, 64}, {128, 256, 16}, {130, 70, 36}, {33, 50, 19}};
    check_costs(tiled_matmul_kernels(), cases, sizeof cases / sizeof *cases);
    check_costs(last_rungs(), more, sizeof more / sizeof *more);
    /* At these sizes sgemm would choose another tile, and read half as much. */
    static const struct matmul_case clusters_alone[] = {
        {388, 388, 44}, {155, 317, 130}, {520, 515, 70}};
    check_costs(sgemm_cluster_alone(), clusters_alone, 3);
}

TEST(counters, shared_memory_and_barriers)
{
    static const struct matmul_case cases[] = {
        {64, 64, 64}, {128, 256, 16}, {130, 70, 36}, {33, 50, 19}};
    EACH_EXPECTED (&matmul_problem, tiled_matmul_kernels(), e, ladder)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            check_counters(e, cases[i]);
}

static void check_traffic(const struct matmul_kernel *table, struct matmul_case c,
                          const struct traffic *expected)
{
    ladder_traffic(&matmul_problem, table, MATMUL_SIZES(c.M, c.N, c.K), expected);
}

/* Every kernel must use whole sectors and have no bank conflicts, even a cluster of 8 blocks. There
 * C is narrower than the widest tiles, so their warps ask for the same columns of B again. */
TEST(counters, traffic)
{
    static const struct traffic ideal[] = {{NULL, 0, 0, 0}};
    static const struct traffic narrow[] = {
        {"wide_tile", 2.0 / 3, 0, 0}, {"scheduled", 2.0 / 3, 0, 0}, {NULL, 0, 0, 0}};
    check_traffic(tiled_matmul_kernels(), (struct matmul_case){128, 256, 64}, ideal);
    check_traffic(last_rungs(), (struct matmul_case){512, 512, 16}, ideal);
    check_traffic(tiled_matmul_kernels(), (struct matmul_case){128, 64, 256}, narrow);
}

/* The lesson's formula holds where the tile divides the sizes: 2·M·N·K / T. */
TEST(counters, shared_tile_divides_loads_by_its_side)
{
    struct counters counters;
    if (ladder_counts(&tiled_matmul_kernels()->about) &&
        count(tiled_matmul_kernels(), "shared_tile", 64, 64, 64, &counters))
        cr_expect(counters.global_loads == 2 * 64 * 64 * 64 / 16, "%llu loads",
                  counters.global_loads);
}

/* tests/steps/tiles_02.cu defines this. */
cudaError_t tiles_02_read_words(const int *word, int width, float *sum);

/* Counts the wavefronts of one launch of read_words. Its lanes read the given words, or nothing
 * when width is 0. */
static unsigned long long wavefronts_of(const int *word, int width)
{
    struct device_buffer words, sums;
    struct counters counters;
    cr_assert(device_buffer_create(&words, 32 * sizeof *word, 0) == cudaSuccess);
    cr_assert(device_buffer_create(&sums, 32 * sizeof(float), 0) == cudaSuccess);
    cr_assert(device_buffer_upload(&words, word) == cudaSuccess);
    backend_counters_reset();
    cr_assert(tiles_02_read_words(words.data, width, sums.data) == cudaSuccess);
    cr_assert(backend_counters(&counters));
    device_buffer_destroy(&words);
    device_buffer_destroy(&sums);
    return counters.shared_wavefronts;
}

/* Checks the wavefronts of a read by `across` columns of lanes, in which the lane in row y and
 * column x wants the word y * row_words + x * column_words. */
static void check_wavefronts(int across, int row_words, int column_words, int width,
                             unsigned long long wavefronts)
{
    struct counters counters;
    if (!backend_counters(&counters))
        return;
    int word[32];
    for (int lane = 0; lane < 32; lane++)
        word[lane] = lane / across * row_words + lane % across * column_words;
    const unsigned long long without = wavefronts_of(word, 0), with = wavefronts_of(word, width);
    cr_expect(with - without == wavefronts,
              "%d lanes across, rows %d words apart, columns %d: %llu wavefronts, not %llu", across,
              row_words, column_words, with - without, wavefronts);
}

/* Checks what the lesson says of layouts, including those that the kernels avoid. */
TEST(counters, bank_conflicts)
{
    /* In shared_tile a warp has 2 x 16 lanes: As[y][k] and Bs[k][x]; with B transposed, Bs[x][k],
     * the pitch is 16 words or 17. */
    check_wavefronts(16, 16, 0, 1, 1);
    check_wavefronts(16, 0, 1, 1, 1);
    check_wavefronts(16, 0, 16, 1, 8);
    check_wavefronts(16, 0, 17, 1, 1);
    /* In register_tile columns are 8 apart or side by side, and rows of A's tile 8 apart (64 words)
     * or 1. */
    check_wavefronts(16, 0, 8, 1, 4);
    check_wavefronts(16, 0, 1, 1, 1);
    check_wavefronts(16, 64, 0, 1, 2);
    check_wavefronts(16, 8, 0, 1, 1);
    /* In vectorized the transposed A is stored, 16 rows of k and of k + 4; the pitch is 128 or
     * 132. */
    check_wavefronts(16, 4 * 128, 1, 1, 2);
    check_wavefronts(16, 4 * 132, 1, 1, 1);
    /* In async there are 4 rows by 8 neighbours in k, or 16 neighbours in k at the same pitch, as
     * in a tile 16 deep. */
    check_wavefronts(8, 1, 128, 1, 8);
    check_wavefronts(8, 1, 132, 1, 1);
    check_wavefronts(16, 1, 132, 1, 2);
}

/* sgemm and sgemm_cluster choose the shape of a tile, and the number of shares of K. Where a rest
 * is left, these are the rest's, and the first launch computes whole tiles of 128 x 256. */
struct chosen {
    const char *name;
    struct matmul_case c;
    int BM, BN;
    int blocks, groups; /* of a cluster; of a block */
    bool rest;
};

/* Adds the cost of `tiles` tiles with `elements` elements of C. */
static void add_tiles(struct counters *sum, const struct chosen *chosen, unsigned long long tiles,
                      unsigned long long elements)
{
    const unsigned long long BM = chosen->BM, BN = chosen->BN, BK = 16;
    const unsigned long long blocks = chosen->blocks, shares = blocks * chosen->groups;
    const unsigned long long steps = (chosen->c.K + BK - 1) / BK;
    const unsigned long long TM = BN == 160 ? 10 : 8, TN = BN == 256 ? 16 : TM;
    const unsigned long long width = chosen->c.N % 4 == 0 ? 4 : 1, threads = BM * BN / (TM * TN);
    sum->launches++;
    /* In each block two barriers are the cluster's. */
    sum->barriers += tiles * (shares + steps + (shares > 1 ? 2 * blocks : 0));
    /* The thread that stores an element reads every share's sum for it. */
    sum->shared_loads +=
        tiles * (shares + BK * steps) * threads * ((TM + TN) / (TM == 10 ? 2 : 4)) +
        (shares > 1 ? shares * elements / width : 0);
}

static void check_choice(const struct chosen *chosen)
{
    const char *name = chosen->name;
    const struct matmul_case c = chosen->c;
    const unsigned long long inside = chosen->rest ? c.M / 128 * (c.N / 256) : 0;
    const struct chosen large = {name, c, 128, 256, 1, 1, false};
    struct counters counters, sum = {0};
    if (!count(tiled_matmul_kernels(), name, c.M, c.N, c.K, &counters))
        return;

    if (inside > 0)
        add_tiles(&sum, &large, inside, 0);
    /* The tiles beside the large ones begin at the first column that those leave. */
    const unsigned long long rows = inside > 0 ? c.M / 128 * 128ull : 0,
                             cols = inside > 0 ? c.N / 256 * 256ull : 0;
    add_tiles(&sum, chosen,
              rows / chosen->BM * tiles(c.N - (int)cols, chosen->BN) +
                  tiles(c.M - (int)rows, chosen->BM) * tiles(c.N, chosen->BN),
              (unsigned long long)c.M * c.N - rows * cols);
    EXPECT_COUNT(launches, sum.launches);
    EXPECT_COUNT(atomics, 0ull);
    EXPECT_COUNT(barriers, sum.barriers);
    EXPECT_COUNT(shared_loads, sum.shared_loads);
    EXPECT_COUNT(shared_wavefronts, counters.shared_wavefronts_ideal);
}

/* The choices are those on the CPU backend's 8 multiprocessors. */
TEST(counters, choices)
{
    static const struct chosen cases[] = {
        {"sgemm", {64, 64, 64}, 64, 128, 1, 1, false},
        {"sgemm", {60, 99, 50}, 64, 128, 1, 1, false},
        {"sgemm", {100, 60, 300}, 128, 64, 1, 1, false},
        {"sgemm", {500, 501, 9}, 128, 256, 1, 1, false},
        {"sgemm_cluster", {100, 2039, 20}, 128, 256, 1, 1, false},
        {"sgemm_cluster", {1020, 60, 20}, 128, 64, 1, 1, false},
        {"sgemm_cluster", {1150, 61, 50}, 128, 64, 2, 1, false},
        {"sgemm_cluster", {1020, 62, 50}, 128, 64, 1, 2, false},
        {"sgemm_cluster", {500, 60, 120}, 128, 64, 2, 2, false},
        {"sgemm_cluster", {128, 64, 256}, 128, 64, 8, 1, false},
        {"sgemm_cluster", {60, 1020, 20}, 64, 128, 1, 1, false},
        {"sgemm_cluster", {61, 1150, 50}, 64, 128, 2, 1, false},
        {"sgemm_cluster", {60, 1020, 50}, 64, 128, 1, 2, false},
        {"sgemm_cluster", {60, 501, 120}, 64, 128, 2, 2, false},
        {"sgemm_cluster", {60, 100, 250}, 64, 128, 8, 1, false},
        {"sgemm_cluster", {160, 320, 96}, 80, 160, 2, 2, false},
        {"sgemm_cluster", {155, 317, 130}, 80, 160, 2, 2, false},
        {"sgemm_cluster", {513, 512, 20}, 64, 128, 1, 1, .rest = true},
        {"sgemm_cluster", {520, 515, 70}, 64, 128, 1, 1, .rest = true},
    };
    static const struct chosen without_clusters = {
        "sgemm_cluster", {60, 100, 250}, 64, 128, 1, 1, false};
    EACH_EXPECTED (&matmul_problem, tiled_matmul_kernels(), chosen, cases)
        check_choice(chosen);
    setenv("SIMT_ARCH", "80", 1);
    if (ladder_counts(&sgemm_cluster_alone()->about))
        check_choice(&without_clusters);
    unsetenv("SIMT_ARCH");
}

/* The choice of a tile depends on the device. */
TEST(devices, several)
{
    static const struct matmul_case cases[] = {{500, 501, 9}, {60, 100, 250}, {129, 65, 33}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ladder_devices(&matmul_problem, tiled_matmul_kernels(),
                       MATMUL_SIZES(cases[i].M, cases[i].N, cases[i].K));
}

CALL_TEST(devices, turing,
          ladder_on_architecture(&matmul_problem, tiled_matmul_kernels(),
                                 MATMUL_SIZES(129, 257, 35), 75))
CALL_TEST(devices, ada,
          ladder_on_architecture(&matmul_problem, tiled_matmul_kernels(),
                                 MATMUL_SIZES(129, 257, 35), 89))

/* A grid has at most 2^31 - 1 blocks. */
TEST(arguments, more_blocks_than_a_grid_has)
{
    float element = 0.0f;
    if (backend_architecture() < 90 || !ladder_runs(&sgemm_cluster_alone()->about))
        return; /* sgemm would run */
    refusal_clear();
    const cudaError_t status =
        sgemm_cluster_alone()->launch(&element, &element, &element, 1 << 23, 1 << 23, 16, NULL);
    cr_expect(status == cudaErrorInvalidValue, "%s", cudaGetErrorName(status));
    cr_expect(strstr(refusal(), "2147483648 blocks") != NULL, "'%s'", refusal());
}

/* The last rungs choose between kernels: each choice has one case. */
TEST(launches, errors_and_streams)
{
    static const struct matmul_case cases[] = {{33, 65, 17}, {70, 20, 40}};
    static const struct matmul_case choices[] = {
        {512, 512, 16}, {500, 60, 120}, {61, 130, 250}, {1020, 62, 50}};
    check_launches(tiled_matmul_kernels(), cases, sizeof cases / sizeof *cases);
    check_launches(last_rungs(), choices, sizeof choices / sizeof *choices);
}

/* The numbers are what the kernels did when they were judged: a faster way changes them. */
TEST(counters, work_ragged)
{
    static const struct work expected[] = {
        {"shared_tile", 247, 63232, 4046848, 988}, {"column_tile", 20, 10240, 2211840, 120},
        {"register_tile", 6, 1536, 589824, 36},    {"vectorized", 6, 1536, 147456, 36},
        {"pipelined", 6, 1536, 147456, 18},        {"async", 6, 1536, 147456, 18},
        {"warp_tile", 6, 1536, 153600, 24},        {"deep_tile", 6, 1536, 202752, 18},
        {"ragged_first", 6, 1536, 202752, 18},     {"wide_tile", 3, 768, 152064, 9},
        {"scheduled", 3, 768, 152064, 9},          {"sgemm", 10, 1280, 168960, 30},
        {"sgemm_cluster", 10, 1280, 168960, 30},   {NULL, 0, 0, 0, 0},
    };
    ladder_work(&matmul_problem, tiled_matmul_kernels(), MATMUL_SIZES(300, 200, 20), expected);
}
