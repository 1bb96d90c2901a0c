/* Step 03: softmax over the rows of a matrix. */
#include "harness/ladder.h"
#include "03_online_softmax/03_step.h"
#include "03_online_softmax/running_softmax.cuh"
#include "tests/support/harness.h"
#include "tests/support/ladder.h"
#include "harness/refusal.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct softmax_kernel *online_softmax_kernels(void)
{
    return step_rows(&step_03, &softmax_problem);
}

static void check(long long rows, long long cols, enum input_kind kind, uint64_t seed,
                  size_t offset)
{
    ladder_check(&softmax_problem, online_softmax_kernels(), SOFTMAX_SIZES(rows, cols), kind, seed,
                 offset);
}

/* From this many columns on, a row is longer than a block keeps in registers. From online_lanes on,
 * kernels then do something else; the others do what they do with half as many. */
enum { CLUSTERED = 57344 };

/* Returns the kernels to try with rows of that length. */
static const void *table_for(long long cols)
{
    return cols < CLUSTERED
               ? (const void *)online_softmax_kernels()
               : ladder_find(&softmax_problem, online_softmax_kernels(), "online_lanes");
}

static bool count(const char *name, long long rows, long long cols, struct counters *counters)
{
    return ladder_count(&softmax_problem, online_softmax_kernels(), name, SOFTMAX_SIZES(rows, cols),
                        counters);
}

/* ---------------------------------------------------------------------------------------------- */
/* Every kernel, every shape */

CALL_TEST(cases, part_1, ladder_cases(&softmax_problem, online_softmax_kernels(), 0, 4))
CALL_TEST(cases, part_2, ladder_cases(&softmax_problem, online_softmax_kernels(), 1, 4))
CALL_TEST(cases, part_3, ladder_cases(&softmax_problem, online_softmax_kernels(), 2, 4))
CALL_TEST(cases, part_4, ladder_cases(&softmax_problem, online_softmax_kernels(), 3, 4))
CALL_TEST(cases, own, ladder_own_cases(&softmax_problem, online_softmax_kernels()))
CALL_TEST(shapes, failed_once, ladder_failed_once(&step_03, &softmax_problem))

/* There are more rows than gridDim.y can count, for each number of threads that a row has. */
TEST(shapes, more_than_65535_blocks)
{
    if (!ladder_full_size_or_skip("more than 65535 blocks"))
        return;
    check(2200000, 5, INPUTS_NORMAL, 127, 0);
    check(70000, 1028, INPUTS_NORMAL, 128, 0);
    check(70000, 1031, INPUTS_NORMAL, 129, 0);
}

/* ---------------------------------------------------------------------------------------------- */
/* Matrices that no generator makes */

/* Kernels are compared with the reference, so its own results are checked here. */
TEST(matrices, special_values_of_the_reference)
{
    static const float row[][3] = {{-INFINITY, 0.0f, 0.0f},
                                   {-INFINITY, -INFINITY, -INFINITY},
                                   {INFINITY, 0.0f, 0.0f},
                                   {NAN, 0.0f, -INFINITY}};
    const long long *const sizes = SOFTMAX_SIZES(4, 3);
    const void *inputs[] = {row};
    double result[3], error_scale[3];
    double *value = result, *scale = error_scale;
    ladder_reference(&softmax_problem, sizes, inputs, 0, &value, &scale);
    cr_expect(result[0] == 0.0 && result[1] == 0.5 && result[2] == 0.5);
    cr_expect(error_scale[0] == (double)FLT_MIN && error_scale[1] == 0.5 + (double)FLT_MIN);
    for (size_t r = 1; r < 4; r++) {
        ladder_reference(&softmax_problem, sizes, inputs, r, &value, &scale);
        for (int col = 0; col < 3; col++)
            cr_expect(isnan(result[col]), "row %zu, column %d is %g", r, col, result[col]);
    }
}

/* The matrix is 0.747 everywhere but in the last row. */
CALL_TEST(matrices, past_2_to_the_31_elements,
          ladder_past_2_to_the_31(&softmax_problem, online_softmax_kernels(),
                                  SOFTMAX_SIZES(70000, 32768), SOFTMAX_SIZES(1, 32768),
                                  (int[]){0x3f}))

/* ---------------------------------------------------------------------------------------------- */
/* The merge of running states */

static bool nearly(struct running_softmax a, struct running_softmax b, double roundings_allowed)
{
    return a.m == b.m &&
           fabs((double)a.l - b.l) <= roundings_allowed * UNIT_ROUNDOFF_F32 * fabs(b.l);
}

/* Draws a state that might arise: some maximum, and a sum that includes at least the maximum's own
 * e^0. Now and then the state is empty. */
static struct running_softmax some_state(uint64_t index)
{
    const struct running_softmax state = {(float)(10.0 * input_normal(83, 0, index)),
                                          (float)(1.0 + 100.0 * input_uniform(83, 1, index))};
    return input_bits(83, 2, index) % 16 == 0 ? running_softmax_empty() : state;
}

TEST(merge, empty_state_is_the_identity)
{
    for (uint64_t i = 0; i < 1000; i++) {
        const struct running_softmax a = some_state(i);
        cr_expect(nearly(running_softmax_merge(a, running_softmax_empty()), a, 0.0));
        cr_expect(nearly(running_softmax_merge(running_softmax_empty(), a), a, 0.0));
    }
}

TEST(merge, commutes)
{
    for (uint64_t i = 0; i < 1000; i++) {
        const struct running_softmax a = some_state(2 * i), b = some_state(2 * i + 1);
        cr_expect(nearly(running_softmax_merge(a, b), running_softmax_merge(b, a), 2.0));
    }
}

/*
 * Each side makes two merges: four exponentials of 2 roundings, with half a rounding more of the
 * argument where it weighs most (t·e^-t <= 0.37), two multiplications and two additions. Both sides
 * together stay below 2 · 10.
 */
TEST(merge, associates)
{
    for (uint64_t i = 0; i < 1000; i++) {
        const struct running_softmax a = some_state(3 * i), b = some_state(3 * i + 1),
                                     c = some_state(3 * i + 2);
        const struct running_softmax left = running_softmax_merge(running_softmax_merge(a, b), c);
        const struct running_softmax right = running_softmax_merge(a, running_softmax_merge(b, c));
        cr_expect(nearly(left, right, 20.0), "(%g, %g) and (%g, %g)", (double)left.m,
                  (double)left.l, (double)right.m, (double)right.l);
    }
}

/* Pairs drawn at random are merged until one state is left. A tree of any shape must give the row's
 * maximum and sum. */
TEST(merge, any_tree_gives_the_row)
{
    enum { COLS = 777 };
    for (uint64_t tree = 0; tree < 20; tree++) {
        struct running_softmax state[COLS];
        double m = -INFINITY, l = 0.0;
        for (uint64_t col = 0; col < COLS; col++) {
            const float x = (float)(5.0 * input_normal(89, tree, col));
            m = fmax(m, x);
            state[col] = running_softmax_of(x);
        }
        for (int col = 0; col < COLS; col++)
            l += exp(state[col].m - m);
        for (uint64_t left = COLS; left > 1; left--) {
            const uint64_t a = input_bits(97, tree, left) % left;
            const struct running_softmax taken = state[a];
            state[a] = state[left - 1];
            const uint64_t b = input_bits(101, tree, left) % (left - 1);
            state[b] = running_softmax_merge(taken, state[b]);
        }
        cr_expect(
            nearly(state[0], (struct running_softmax){(float)m, (float)l}, roundings(COLS) + 8.0),
            "(%.9g, %.9g), should be (%.9g, %.9g)", (double)state[0].m, (double)state[0].l, m, l);
    }
}

TEST(merge, special_values)
{
    const struct running_softmax nothing = running_softmax_empty(), two = {2.0f, 3.0f};
    const struct running_softmax masked = running_softmax_of(-INFINITY);
    cr_expect(nearly(running_softmax_merge(two, masked), two, 0.0), "-inf adds nothing");
    cr_expect(running_softmax_merge(nothing, masked).l == 0.0f, "nor to nothing");
    cr_expect(running_softmax_merge(masked, masked).l == 0.0f, "nor to itself");
    cr_expect(isnan(running_softmax_merge(two, running_softmax_of(INFINITY)).l),
              "+inf spoils the sum");
    cr_expect(isnan(running_softmax_merge(two, running_softmax_of(NAN)).l), "so does a NaN");
    const struct running_softmax spoilt = running_softmax_merge(nothing, running_softmax_of(NAN));
    cr_expect(isnan(running_softmax_merge(spoilt, nothing).l), "for good");
    cr_expect(isnan(running_softmax_merge(nothing, spoilt).l), "from either side");
}

/* ---------------------------------------------------------------------------------------------- */
/* What is refused */

TEST(refusals, sizes_and_arrays)
{
    const struct softmax_kernel *const table = online_softmax_kernels();
    const long long *const good = SOFTMAX_SIZES(2, 64);
    ladder_refused_size(&softmax_problem, table, good, SOFTMAX_ROWS, -1,
                        "rows is -1; it must be in 0 .. 2147482624");
    ladder_refused_size(&softmax_problem, table, good, SOFTMAX_COLS, -3,
                        "cols is -3; it must be in 0 .. 2147482624");
    ladder_refused_size(&softmax_problem, table, good, SOFTMAX_ROWS, INT_MAX,
                        "rows is 2147483647; it must be in 0 .. 2147482624");
    ladder_refused_arrays(&softmax_problem, table, good, 2);
}

/* A grid has at most 2^31 - 1 blocks, and a row of a cluster takes at least two. */
TEST(refusals, more_blocks_than_a_grid_has)
{
    float *memory = NULL;
    cr_assert(cudaMalloc((void **)&memory, 2 * sizeof *memory) == cudaSuccess);
    if (backend_architecture() < 90 ||
        !ladder_runs(ladder_find(&softmax_problem, online_softmax_kernels(), "online_cluster")))
        return; /* online_lanes would run */
    refusal_clear();
    const cudaError_t status = softmax_online_cluster(memory, memory + 1, MAX_EXTENT, 60000, NULL);
    cr_expect(status == cudaErrorInvalidValue, "%s", cudaGetErrorName(status));
    cr_expect(strstr(refusal(), "4294965248 blocks") != NULL, "'%s'", refusal());
    cudaFree(memory);
}

TEST(refusals, empty_is_success)
{
    EACH_KERNEL (kernel, online_softmax_kernels()) {
        cr_expect(softmax_run(kernel, NULL, NULL, 0, 17, NULL) == cudaSuccess, "%s, no rows",
                  kernel->about.name);
        cr_expect(softmax_run(kernel, NULL, NULL, 17, 0, NULL) == cudaSuccess, "%s, no columns",
                  kernel->about.name);
        cr_expect(cudaDeviceSynchronize() == cudaSuccess);
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* What the lesson says about the kernels (asserted where accesses are counted) */

static void expect_count(const char *name, const char *what, unsigned long long counted,
                         unsigned long long formula)
{
    cr_expect(counted == formula, "%s: %llu %s, the formula says %llu", name, counted, what,
              formula);
}

/* Rows begin anywhere, and lengths lie on both sides of each choice that the kernels from
 * online_block on make. */
TEST(counters, costs)
{
    static const int shapes[][2] = {{64, 256},  {9, 1},      {5, 127},    {3, 1024},  {2, 1025},
                                    {2, 1028},  {7, 4095},   {5, 4096},   {2, 16383}, {2, 32768},
                                    {1, 32769}, {1, 32771},  {3, 32773},  {1, 57347}, {3, 57348},
                                    {1, 90116}, {1, 131071}, {1, 360451}, {1, 360452}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        ladder_costs(&softmax_problem, table_for(shapes[i][1]),
                     SOFTMAX_SIZES(shapes[i][0], shapes[i][1]));
    }
}

/* With a thread per row, every lane has a sector of its own. With a warp or block per row, or a
 * cluster, every sector is used whole and lanes have banks of their own. */
TEST(counters, traffic)
{
    static const long long shapes[][2] = {{32, 4096}, {2, 65536}};
    static const struct traffic expected[] = {
        {"three_pass", 8, 8, 0}, {"online", 8, 8, 0}, {NULL, 0, 0, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        ladder_traffic(&softmax_problem, online_softmax_kernels(),
                       SOFTMAX_SIZES(shapes[i][0], shapes[i][1]), expected);
    }
}

/* Each row takes barriers where more than one warp owns it. */
TEST(counters, barriers)
{
    static const struct {
        const char *name;
    } blocks[] = {{"online_block"},
                  {"online_registers"},
                  {"online_vectors"},
                  {"online_ragged"},
                  {"online_lanes"}};
    static const unsigned long long shapes[][3] = {{9, 1, 0},    {2, 1024, 0},  {2, 1025, 1},
                                                   {3, 4100, 1}, {2, 16383, 1}, {1, 32772, 1}};
    EACH_EXPECTED (&softmax_problem, online_softmax_kernels(), block, blocks)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            struct counters did;
            if (count(block->name, (long long)shapes[i][0], (long long)shapes[i][1], &did))
                expect_count(block->name, "barriers", did.barriers, shapes[i][0] * shapes[i][2]);
        }
}

/*
 * Each block has one barrier of its own and two of the cluster, and stores its state in every
 * block. There are as many blocks as hold the row at 11 float4 a thread. Rows that two blocks would
 * hold at 7, and those that 8 do not hold, are left to online_lanes.
 */
TEST(counters, online_cluster)
{
    static const unsigned long long shapes[][3] = {{2, 57347, 1},  {3, 57348, 2},  {2, 90115, 2},
                                                   {1, 90116, 3},  {1, 131071, 3}, {1, 135172, 4},
                                                   {1, 360451, 8}, {1, 360452, 1}};
    struct counters did;
    if (!ladder_counts(ladder_find(&softmax_problem, online_softmax_kernels(), "online_cluster")))
        return;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const unsigned long long rows = shapes[i][0], blocks = shapes[i][2];
        if (!count("online_cluster", (long long)rows, (long long)shapes[i][1], &did))
            return;
        expect_count("online_cluster", "launches", did.launches, 1);
        expect_count("online_cluster", "barriers", did.barriers,
                     rows * blocks * (blocks > 1 ? 3 : 1));
        expect_count("online_cluster", "shared stores", did.shared_stores,
                     rows * blocks * (32 + (blocks > 1 ? blocks : 0)));
    }
    setenv("SIMT_ARCH", "80", 1); /* this device has no clusters */
    if (count("online_cluster", 1, 60000, &did))
        expect_count("online_cluster on sm_80", "barriers", did.barriers, 1);
}

/* One row length stands for each of the kernels that the later ones choose between. */
TEST(launches, errors_and_streams)
{
    static const long long cols[] = {20, 1000, 1028, 5000, 20000, 33000, 60000, 70000, 200000};
    enum { CASES = sizeof cols / sizeof *cols };
    for (int i = 0; i < CASES; i++) {
        const long long *const sizes = SOFTMAX_SIZES(2, cols[i]);
        ladder_returns_errors(&softmax_problem, table_for(cols[i]), sizes);
        ladder_streams(
            &softmax_problem, table_for(cols[i]), sizes,
            SOFTMAX_SIZES(cols[(i + 1) % CASES] < 10000 ? 19 : 3, cols[(i + 1) % CASES]));
        ladder_older_errors(&softmax_problem, table_for(cols[i]), sizes);
    }
    ladder_launches(&softmax_problem, online_softmax_kernels(), SOFTMAX_SIZES(19, 70));
}

/* Rows of 60000 columns are a cluster's on an sm_90, and a block's on an sm_75. */
TEST(devices, several)
{
    static const long long cols[] = {20, 1000, 5000, 60000};
    for (size_t i = 0; i < sizeof cols / sizeof *cols; i++)
        ladder_devices(&softmax_problem, online_softmax_kernels(), SOFTMAX_SIZES(9, cols[i]));
}

CALL_TEST(devices, turing,
          ladder_on_architecture(&softmax_problem, online_softmax_kernels(),
                                 SOFTMAX_SIZES(3, 60000), 75))

/* The numbers are what the kernels did when they were judged: a faster way changes them. */
TEST(counters, work_short_rows)
{
    static const struct work expected[] = {
        {"three_pass", 1, 128, 0, 0},        {"online", 1, 128, 0, 0},
        {"online_warp", 9, 2304, 0, 0},      {"online_block", 9, 2304, 0, 0},
        {"online_registers", 9, 2304, 0, 0}, {"online_vectors", 9, 2304, 0, 0},
        {"online_ragged", 9, 2304, 0, 0},    {"online_lanes", 5, 640, 0, 0},
        {"online_cluster", 5, 640, 0, 0},    {NULL, 0, 0, 0, 0},
    };
    ladder_work(&softmax_problem, online_softmax_kernels(), SOFTMAX_SIZES(70, 20), expected);
}

TEST(counters, work_rows)
{
    static const struct work expected[] = {
        {"three_pass", 1, 128, 0, 0},          {"online", 1, 128, 0, 0},
        {"online_warp", 2, 512, 0, 0},         {"online_block", 9, 1152, 144, 9},
        {"online_registers", 9, 1152, 144, 9}, {"online_vectors", 9, 1152, 144, 9},
        {"online_ragged", 9, 1152, 144, 9},    {"online_lanes", 9, 1152, 144, 9},
        {"online_cluster", 9, 1152, 144, 9},   {NULL, 0, 0, 0, 0},
    };
    ladder_work(&softmax_problem, online_softmax_kernels(), SOFTMAX_SIZES(9, 2000), expected);
}

TEST(counters, work_long_rows)
{
    static const struct work expected[] = {
        {"three_pass", 1, 128, 0, 0},           {"online", 1, 128, 0, 0},
        {"online_warp", 1, 256, 0, 0},          {"online_block", 2, 2048, 2048, 2},
        {"online_registers", 2, 2048, 2048, 2}, {"online_vectors", 2, 2048, 2048, 2},
        {"online_ragged", 2, 2048, 2048, 2},    {"online_lanes", 2, 2048, 2048, 2},
        {"online_cluster", 4, 4096, 5120, 12},  {NULL, 0, 0, 0, 0},
    };
    ladder_work(&softmax_problem, online_softmax_kernels(), SOFTMAX_SIZES(2, 60000), expected);
}
