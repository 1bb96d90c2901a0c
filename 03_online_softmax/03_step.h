/*
 * Step 03's kernels in reading order. Adding a kernel is adding its file and a row here:
 * common/softmax.h says what the fields are.
 *
 * The rows are read twice: for the declarations of their functions, and, in C, as the table.
 */
#ifdef KERNEL

KERNEL(three_pass, "1_three_pass.cu",
       "one thread per row; the row is read for its maximum, its sum and its result",
       .about.begins = true, .cost = sweeps_cost, .sweeps = 3)
KERNEL(online, "2_online.cu",
       "maximum and sum in one sweep: the sum is rescaled when the maximum moves",
       .cost = sweeps_cost, .sweeps = 2)
KERNEL(online_warp, "3_online_warp.cu",
       "a warp per row, coalesced; 32 running sums merged by shuffles", .cost = sweeps_cost,
       .sweeps = 2)
KERNEL(online_block, "4_online_block.cu",
       "a block per row, read once as float4 and kept in registers", .about.begins = true,
       .cost = online_block_cost)
KERNEL(online_cluster, "5_online_cluster.cu",
       "rows too long for a block are kept by a cluster of blocks", .about.architecture = "sm_90",
       .about.falls_back = true, .cost = online_cluster_cost)

#else
#ifndef STEP_03_H
#define STEP_03_H

#include "backend.h"
#include "softmax.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KERNEL SOFTMAX_DECLARATION
#include "03_step.h"
#undef KERNEL

#ifdef __cplusplus
}
#else

/* One element at a time. */
static struct cost sweeps_cost(const struct softmax_kernel *row, int rows, int cols)
{
    const long long elements = (long long)rows * cols;
    const long long loads = row->sweeps * elements;
    return (struct cost){loads, elements, sizeof(float) * loads, sizeof(float) * elements};
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

static struct cost online_block_cost(const struct softmax_kernel *row, int rows, int cols)
{
    const int most_kept = 1024 * 8; /* threads, and vectors of each */
    (void)row;
    return vectors_cost(rows, cols, most_kept);
}

/* Up to 8 blocks of 1024 threads keep 11 vectors each, where two blocks of 7 would not do. */
static struct cost online_cluster_cost(const struct softmax_kernel *row, int rows, int cols)
{
    const int vectors = cols / 4, least = 2 * 1024 * 7, most = 8 * 1024 * 11;
    if (vectors <= least || vectors > most || backend_architecture() < 90)
        return online_block_cost(row, rows, cols);
    return vectors_cost(rows, cols, cols);
}

#define KERNEL SOFTMAX_ROW
static const struct softmax_kernel online_softmax_kernels[] = {
#include "03_step.h"
    {.about.name = NULL},
};
#undef KERNEL

#endif
#endif
#endif
