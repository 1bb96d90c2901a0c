/* Step 03's kernels in reading order. Adding a kernel is adding a file and a row. */
#ifndef STEP_03_H
#define STEP_03_H

#include "softmax.h"

#ifdef __cplusplus
extern "C" {
#endif

softmax_fn softmax_three_pass;     /* 1_three_pass.cu */
softmax_fn softmax_online;         /* 2_online.cu */
softmax_fn softmax_online_warp;    /* 3_online_warp.cu */
softmax_fn softmax_online_block;   /* 4_online_block.cu */
softmax_fn softmax_online_cluster; /* 5_online_cluster.cu */

static const struct softmax_kernel online_softmax_kernels[] = {
    {"three_pass", "one thread per row; the row is read for its maximum, its sum and its result",
     softmax_three_pass},
    {"online", "maximum and sum in one sweep: the sum is rescaled when the maximum moves",
     softmax_online},
    {"online_warp", "a warp per row, coalesced; 32 running sums merged by shuffles",
     softmax_online_warp},
    {"online_block", "a block per row, read once as float4 and kept in registers",
     softmax_online_block},
    {"online_cluster", "rows too long for a block are kept by a cluster of blocks",
     softmax_online_cluster},
    {NULL, NULL, NULL},
};

#ifdef __cplusplus
}
#endif

#endif
