/* Proofs of step 03's plans: who owns a row of any length, and what its threads keep. */
#include "harness/ladder.h"
#include "device/device.h"
#include "tests/support/harness.h"
#include "plans.h"
#include "harness/refusal.h"

/* The rows' functions ask this device. */
static struct device_limits tested;

static cudaError_t tested_device(struct device_limits *limits)
{
    *limits = tested;
    return cudaSuccess;
}
#define current_device tested_device

#include "03_online_softmax/03_step.c"

static const struct softmax_kernel *online_softmax_kernels(void)
{
    return step_rows(&step_03, &softmax_problem);
}

typedef void shape_judge(int rows, int cols);

/* Judges edge shapes and random ones on the devices in turn. A shape has rows and columns. */
static int each_shape(shape_judge *judge)
{
    static const int edges[] = {128,     256,       512,       1024,          2048,  4096,
                                8192,    16384,     32768,     57344,         90112, 360448,
                                4194304, 90112 * 2, 90112 * 3, MAX_EXTENT - 1};
    static const int rows[] = {1, 2, 15, 16, 17, 70000, MAX_EXTENT};
    uint64_t state = 3;
    int judged = 0;
    for (size_t device = 0; device < plan_device_count; device++) {
        tested = plan_devices[device];
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            for (size_t e = 0; e < sizeof edges / sizeof *edges; e++)
                for (int cols = edges[e] - 1; cols <= edges[e] + 1; cols++, judged++)
                    judge(rows[r], cols);
            for (const int *edge = plan_edges + 1; *edge >= 0; edge++, judged++)
                judge(rows[r], *edge);
        }
    }
    for (int cols = 1; cols <= 33000; cols++, judged++)
        judge(3, cols);
    for (int n = 0; n < RANDOM_SHAPES; n++, judged++) {
        tested = plan_devices[n % plan_device_count];
        const int all = plan_length(&state, MAX_EXTENT - 1) + 1;
        judge(all, plan_length(&state, MAX_EXTENT - 1) + 1);
    }
    return judged;
}

enum { SHAPES = RANDOM_SHAPES + 50000 };

static int judged;

static void judge_owner(int rows, int cols)
{
    const struct row_owner owner = row_owner_of(cols);
    const long long held = (long long)owner.lanes * KEPT_COLS;
    (void)rows;
    cr_assert(owner.lanes == 32 || owner.lanes == 128 || owner.lanes == 512 || owner.lanes == 1024);
    cr_assert(!owner.holds || (owner.lanes > 32 && cols <= held), "%d threads for %d columns",
              owner.lanes, cols);
    cr_assert(owner.holds || owner.lanes == 32 || cols > 1024 * KEPT_COLS,
              "%d columns are read twice", cols);
    judged += owner.holds;
}

TEST(plans_03, a_block_that_holds_a_row_holds_all_of_it)
{
    judged = 0;
    cr_expect(each_shape(judge_owner) >= SHAPES);
    cr_expect(judged >= 4000, "%d held rows", judged);
}

static void judge_lanes(int rows, int cols)
{
    const struct row_shape shape = row_shape_of(rows, cols);
    const int rows_of_block = shape.threads / shape.lanes;
    cr_assert(shape.lanes >= 6 && shape.threads % shape.lanes == 0 && shape.threads <= 1024);
    cr_assert(shape.threads % 32 == 0 && (shape.lanes >= 32 || 32 % shape.lanes == 0));
    cr_assert(shape.excess || cols / 4 <= shape.lanes * shape.kept, "%d lanes for %d columns",
              shape.lanes, cols);
    cr_assert(shape.blocks > 0 && (long long)shape.blocks * rows_of_block >= rows &&
              (shape.blocks - 1LL) * rows_of_block < rows);
    judged++;
}

TEST(plans_03, lanes_cover_every_row_once)
{
    judged = 0;
    const int shapes = each_shape(judge_lanes);
    cr_expect(shapes >= SHAPES && judged == shapes);
}

/* A row begins 0 to 3 floats past a multiple of 16 bytes, which leaves fewer floats for float4. */
static void judge_cluster(int rows, int cols)
{
    const struct cluster_plan plan = cluster_plan_of(rows, cols, &tested);
    if (plan.blocks == 0)
        return;
    judged++;
    cr_assert(tested.architecture >= 90 && plan.blocks >= 2 && plan.blocks <= MAX_BLOCKS);
    cr_assert(plan.kept == FEW_KEPT || plan.kept == MAX_KEPT);
    cr_assert(plan.grid == (long long)rows * plan.blocks && plan.grid % plan.blocks == 0);
    for (int head = 0; head < 4; head++) {
        const int vectors = (cols - head) / 4, share = share_of_block(vectors, plan.blocks);
        cr_assert(share > 0 && share % 32 == 0 && share <= CLUSTER_LANES * plan.kept,
                  "%d float4 for %d threads", share, CLUSTER_LANES);
        cr_assert(share * plan.blocks >= vectors, "%d blocks do not hold %d float4", plan.blocks,
                  vectors);
    }
}

TEST(plans_03, clusters_hold_every_row_that_they_get)
{
    judged = 0;
    cr_expect(each_shape(judge_cluster) >= SHAPES);
    for (int cols = 57000; cols < 361000; cols++) {
        tested = plan_devices[plan_device_count / 8 * 5 + cols % 5]; /* an sm_90 */
        judge_cluster(3, cols);
    }
    cr_expect(judged >= 303000, "%d clusters", judged);
}

static void judge_rows(int rows, int cols)
{
    const long long sizes[MAX_SIZES] = {[SOFTMAX_ROWS] = rows, [SOFTMAX_COLS] = cols};
    const double elements = (double)rows * cols;
    for (const struct softmax_kernel *row = online_softmax_kernels(); row->about.name; row++) {
        const struct cost cost = softmax_problem.cost(&row->about, sizes);
        cr_assert((double)cost.loads >= elements / 4 && (double)cost.stores >= elements / 4 &&
                      (double)cost.bytes_read >= elements && (double)cost.bytes_written >= elements,
                  "%s: %d x %d", row->about.name, rows, cols);
        judged++;
    }
    static const long long empty[3][MAX_SIZES] = {
        {0, 0}, {[SOFTMAX_ROWS] = 5}, {[SOFTMAX_COLS] = 5}};
    const struct softmax_kernel *row = &online_softmax_kernels()[judged % 9];
    const struct cost none = softmax_problem.cost(&row->about, empty[judged % 3]);
    cr_assert(none.loads == 0 && none.stores == 0 && none.bytes_read == 0 &&
              none.bytes_written == 0);
}

TEST(plans_03, costs_fit_their_types)
{
    judged = 0;
    const int shapes = each_shape(judge_rows);
    cr_expect(shapes >= SHAPES && judged == 9 * shapes, "%d costs", judged);
}
