/* Step 02's kernels in reading order. Adding a kernel is adding a file and a row. */
#ifndef STEP_02_H
#define STEP_02_H

#include "matmul.h"

#ifdef __cplusplus
extern "C" {
#endif

matmul_fn matmul_shared_tile;   /* 1_shared_tile.cu */
matmul_fn matmul_register_tile; /* 2_register_tile.cu */
matmul_fn matmul_vectorized;    /* 3_vectorized.cu */
matmul_fn matmul_pipelined;     /* 4_pipelined.cu */
matmul_fn matmul_async;         /* 5_async.cu */
matmul_fn matmul_warp_tile;     /* 6_warp_tile.cu */
matmul_fn matmul_sgemm;         /* 7_sgemm.cu */
matmul_fn matmul_sgemm_cluster; /* 8_sgemm_cluster.cu */

static const struct matmul_kernel tiled_matmul_kernels[] = {
    {"shared_tile", "a block shares a tile of A and of B through shared memory",
     matmul_shared_tile},
    {"register_tile", "a thread computes 8 x 8 elements from registers", matmul_register_tile},
    {"vectorized", "16 bytes per load, from global and from shared memory", matmul_vectorized},
    {"pipelined", "the next tile travels through registers during the arithmetic",
     matmul_pipelined},
    {"async", "tiles travel past the registers, three ahead", matmul_async},
    {"warp_tile",
     "square warp tiles, operands one step ahead: the inner loop is almost all multiply-add",
     matmul_warp_tile},
    {"sgemm", "128 x 256 tiles, or smaller ones where those would leave processors idle",
     matmul_sgemm},
    {"sgemm_cluster",
     "where tiles are few, blocks and groups of warps share one, each with a share of K",
     matmul_sgemm_cluster},
    {NULL, NULL, NULL},
};

#ifdef __cplusplus
}
#endif

#endif
