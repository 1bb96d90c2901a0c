/* Step 03's rows, a table for each ladder: common/problems/softmax.h says what the fields are. */
#include "03_step.h"
#include "harness/ladder.h"
#include "03_online_softmax/limit/8_online_lanes.h"
#include "03_online_softmax/limit/9_online_cluster.h"
#include "device/device.h"
#include "harness/refusal.h"
#include "lanes.h"

/* One element at a time, the matrix read `sweeps` times. */
static struct cost scalars_cost(int sweeps, int rows, int cols)
{
    const long long elements = (long long)rows * cols, loads = sweeps * elements;
    return (struct cost){loads, elements, sizeof(float) * loads, sizeof(float) * elements};
}

static struct cost sweeps_cost(const struct softmax_kernel *row, int rows, int cols)
{
    return scalars_cost(row->sweeps, rows, cols);
}

/* A float4 at a time between the first multiple of 16 bytes in a row and its last; the `excess` of
 * them that registers do not hold is loaded twice. */
static struct cost vectors_cost(int rows, int cols, int vectors_kept)
{
    struct cost cost = {0};
    for (int start = 0; start < 4; start++) { /* row r begins r * cols floats off */
        const int same = rows / 4 + (start < rows % 4);
        const int to_alignment = (4 - start * (cols % 4) % 4) % 4;
        const int head = to_alignment < cols ? to_alignment : cols;
        const int vectors = (cols - head) / 4, ends = cols - 4 * vectors;
        const int excess = vectors > vectors_kept ? vectors - vectors_kept : 0;
        cost.loads += (long long)same * (ends + vectors + excess);
        cost.stores += (long long)same * (ends + vectors);
        cost.bytes_read += sizeof(float) * same * (long long)(cols + 4LL * excess);
    }
    cost.bytes_written = sizeof(float) * rows * (long long)cols;
    return cost;
}

static struct cost online_registers_cost(const struct softmax_kernel *row, int rows, int cols)
{
    (void)row;
    return scalars_cost(row_owner_of(cols).holds ? 1 : 2, rows, cols);
}

static struct cost online_ragged_cost(const struct softmax_kernel *row, int rows, int cols)
{
    return row_owner_of(cols).holds ? vectors_cost(rows, cols, cols)
                                    : online_registers_cost(row, rows, cols);
}

static struct cost online_vectors_cost(const struct softmax_kernel *row, int rows, int cols)
{
    return cols % 4 == 0 ? online_ragged_cost(row, rows, cols)
                         : online_registers_cost(row, rows, cols);
}

static struct cost online_lanes_cost(const struct softmax_kernel *row, int rows, int cols)
{
    const struct row_shape shape = row_shape_of(rows, cols);
    (void)row;
    return vectors_cost(rows, cols, shape.lanes * shape.kept);
}

static struct cost online_cluster_cost(const struct softmax_kernel *row, int rows, int cols)
{
    struct device_limits device;
    current_device(&device);
    return cluster_plan_of(rows, cols, &device).blocks > 0 ? vectors_cost(rows, cols, cols)
                                                           : online_lanes_cost(row, rows, cols);
}

/* These lie on both sides of each size of cluster, and of each share of a thread, that
 * online_cluster chooses between, and past the last. */
#define CLUSTER_EDGES                                                                              \
    "--rows 1 --cols 57344,57347,57348,61441,65539,65540,90115,90116,135169,135172,180228,262145," \
    "360449,360452 --inputs normal,ascending,normal,ascending,normal,ascending,normal,ascending,"  \
    "normal,ascending,normal,ascending,normal,ascending;"                                          \
    "--rows 1 --cols 57347,65540,90116,135172,180228,360449 --offset 4,8,12,4,8,12;"               \
    "--rows 1 --cols 60000 --offset 4,8,12 --offset-of output;"                                    \
    "--rows 39 --cols 57349 --inputs special"

static const struct softmax_kernel core[] = {
    SOFTMAX_ROW(three_pass, "1_three_pass.cu",
                "one thread per row; the row is read for its maximum, its sum and its result",
                .about.claims = "--rows 32 --cols 512: global_load_bytes >= 160000",
                .cost = sweeps_cost, .sweeps = 3, .about.shown_sizes = "--rows 32 --cols 512"),
    SOFTMAX_ROW(online, "2_online.cu",
                "maximum and sum in one sweep: the sum is rescaled when the maximum moves",
                .about.claims = "--rows 32 --cols 512: global_loads <= 40960, threads >= 32",
                .about.after = "three_pass", .cost = sweeps_cost, .sweeps = 2,
                .about.shown_sizes = "--rows 32 --cols 512"),
    SOFTMAX_ROW(online_warp, "3_online_warp.cu",
                "a warp per row, coalesced; 32 running sums merged by shuffles",
                .about.claims = "--rows 32 --cols 512: global_load_sectors <= 5120, global_loads "
                                "<= 40960, threads >= 800",
                .about.after = "online", .cost = sweeps_cost, .sweeps = 2),
    SOFTMAX_ROW(online_block, "4_online_block.cu",
                "a block per row; its warps' sums merged through shared memory",
                .about.claims = "--rows 3 --cols 2053: blocks >= 3, shared_stores >= 12, barriers "
                                ">= 3, global_load_sectors <= 2250",
                .about.after = "online_warp", .cost = sweeps_cost, .sweeps = 2,
                .about.own_sizes = "--rows 3 --cols 2053..2100"),
    SOFTMAX_ROW(
        online_registers, "5_online_registers.cu", "the row is read once and kept in registers",
        .about.claims =
            "--rows 3 --cols 2053: global_loads <= 7700, global_load_sectors <= 1125, blocks >= 3",
        .about.after = "online_block", .cost = online_registers_cost,
        .about.own_sizes = "--rows 3 --cols 2053..2100"),
    {.about.name = NULL},
};

static const struct softmax_kernel limit[] = {
    SOFTMAX_ROW(online_vectors, "6_online_vectors.cu",
                "rows at multiples of 16 bytes are read as float4",
                .about.claims = "--rows 3 --cols 2052: global_loads <= 1930, global_stores <= 1930",
                .about.after = "online_registers", .cost = online_vectors_cost,
                .about.own_sizes = "--rows 3 --cols 2052..2100/4"),
    SOFTMAX_ROW(online_ragged, "7_online_ragged.cu",
                "float4 in rows that begin anywhere: the ends go one by one",
                .about.claims = "--rows 3 --cols 2053: global_loads <= 1935, global_stores <= 1935",
                .about.after = "online_vectors", .about.timed_at = "16384x4095",
                .cost = online_ragged_cost, .about.own_sizes = "--rows 3 --cols 2053..2100"),
    SOFTMAX_ROW(online_lanes, "8_online_lanes.cu",
                "threads and registers for every length of row, from 8 lanes to a block",
                .about.claims = "--rows 32 --cols 512: global_loads <= 5120, global_stores <= 5120",
                .about.after = "online_ragged", .about.timed_at = "65536x128",
                .about.edges = CLUSTER_EDGES, .cost = online_lanes_cost),
    SOFTMAX_ROW(online_cluster, "9_online_cluster.cu",
                "rows too long for a block are kept by a cluster of blocks",
                .about.claims = "--rows 1 --cols 66000: global_loads <= 20600, blocks >= 2",
                .about.after = "online_lanes", .about.architecture = "sm_90",
                .about.falls_back = true, .about.timed_at = "2048x131072",
                .about.edges = CLUSTER_EDGES, .cost = online_cluster_cost,
                .about.own_sizes = "--rows 1 --cols 66000..66400/4"),
    {.about.name = NULL},
};

const struct step step_03 = {
    "03_online_softmax", {{"core", &softmax_problem, core}, {"limit", &softmax_problem, limit}}};
