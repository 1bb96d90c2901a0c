/* Which rows a cluster of blocks computes, and how they share one. */
#ifndef ONLINE_CLUSTER_H
#define ONLINE_CLUSTER_H

#include "device/tiles.cuh"

enum {
    CLUSTER_LANES = 1024, /* threads of a block */
    MAX_BLOCKS = 8,       /* of a cluster, on any device that has them */
    FEW_KEPT = 8,         /* float4 of a thread, in the kernel with fewer registers */
    MAX_KEPT = 11,        /* 44 of the 64 registers that each of 1024 threads can have */
    /* Of each thread in two blocks. With fewer, reading part of the row twice beats the cluster. */
    MIN_KEPT = 7
};

struct cluster_plan {
    int blocks;     /* of a cluster; 0: the row is online_lanes's */
    int kept;       /* FEW_KEPT or MAX_KEPT */
    long long grid; /* may be more than a grid holds */
};

/* As few blocks as can hold the row, so that each is as full as possible. */
static inline struct cluster_plan cluster_plan_of(int rows, int cols,
                                                  const struct device_limits *device)
{
    const int vectors = cols / 4, blocks = ceil_div(vectors, CLUSTER_LANES * MAX_KEPT);
    struct cluster_plan plan = {0, 0, 0};
    if (vectors <= 2 * CLUSTER_LANES * MIN_KEPT || blocks > MAX_BLOCKS || device->architecture < 90)
        return plan;
    plan.blocks = blocks;
    plan.kept = vectors <= CLUSTER_LANES * blocks * FEW_KEPT ? FEW_KEPT : MAX_KEPT;
    plan.grid = (long long)rows * blocks;
    return plan;
}

/* How many float4 each block keeps: whole warps of them, so that the next block's begin at a
 * multiple of 512 bytes. */
static inline __host__ __device__ int share_of_block(int vectors, int blocks)
{
    const int WARP_LANES = 32;
    return ceil_div(ceil_div(vectors, blocks), WARP_LANES) * WARP_LANES;
}

#endif
