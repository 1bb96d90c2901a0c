/*
 * Step 02's kernels in reading order. Adding a kernel is adding its file and a row here:
 * common/problems/matmul.h says what the fields are.
 *
 * The rows are read twice: for the declarations of their functions, and, in C, as the table.
 */
#ifdef KERNEL

KERNEL(shared_tile, "01_shared_tile.cu",
       "a block shares a tile of A and of B through shared memory", .about.begins = true,
       .cost = matmul_tiled_cost, .BM = 16, .BN = 16, .load_width = 1, .store_width = 1)
KERNEL(column_tile, "02_column_tile.cu", "a thread computes a column of 8 elements",
       .cost = matmul_tiled_cost, .BM = 64, .BN = 64, .load_width = 1, .store_width = 1)
KERNEL(register_tile, "03_register_tile.cu", "a thread computes 8 x 8 elements from registers",
       .cost = matmul_tiled_cost, .BM = 128, .BN = 128, .load_width = 1, .store_width = 1)
KERNEL(vectorized, "04_vectorized.cu", "16 bytes per load, from global and from shared memory",
       .cost = matmul_tiled_cost, .BM = 128, .BN = 128, .load_width = 4, .store_width = 4)
KERNEL(pipelined, "05_pipelined.cu",
       "the next tile travels through registers during the arithmetic", .cost = matmul_tiled_cost,
       .BM = 128, .BN = 128, .load_width = 4, .store_width = 4)
KERNEL(async, "06_async.cu", "tiles travel past the registers, three ahead",
       .cost = matmul_tiled_cost, .BM = 128, .BN = 128, .load_width = 1, .store_width = 4)
KERNEL(warp_tile, "07_warp_tile.cu",
       "square warp tiles, operands one step ahead: the inner loop is almost all multiply-add",
       .cost = matmul_tiled_cost, .BM = 128, .BN = 128, .load_width = 1, .store_width = 4)
KERNEL(deep_tile, "08_deep_tile.cu", "tiles twice as deep: half as many barriers",
       .cost = matmul_tiled_cost, .BM = 128, .BN = 128, .load_width = 1, .store_width = 4)
KERNEL(ragged_first, "09_ragged_first.cu",
       "the ragged tile comes first, and nothing is compared in the loop",
       .cost = matmul_whole_tiles_cost, .BM = 128, .BN = 128, .load_width = 1, .store_width = 4)
KERNEL(wide_tile, "10_wide_tile.cu", "8 x 16 elements per thread, and 16-byte copies of B",
       .about.architecture = "sm_80", .cost = matmul_whole_tiles_cost, .BM = 128, .BN = 256,
       .load_width = 4, .store_width = 4)
KERNEL(scheduled, "11_scheduled.cu",
       "each read, copy and product has its place in the loop, and stays there",
       .about.architecture = "sm_80", .cost = matmul_whole_tiles_cost, .BM = 128, .BN = 256,
       .load_width = 4, .store_width = 4)
KERNEL(sgemm, "12_sgemm.cu", "smaller tiles where 128 x 256 would leave processors idle",
       .cost = sgemm_cost, .load_width = 4, .store_width = 4)
KERNEL(sgemm_cluster, "13_sgemm_cluster.cu",
       "where tiles are few, blocks and groups of warps share one, each with a share of K",
       .about.begins = true, .about.architecture = "sm_90", .about.falls_back = true,
       .cost = sgemm_cluster_cost, .load_width = 4, .store_width = 4)

#else
#ifndef STEP_02_H
#define STEP_02_H

#include "problems/matmul.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KERNEL MATMUL_DECLARATION
#include "02_step.h"
#undef KERNEL

#ifdef __cplusplus
}
#else

/* These choose tiles by the device. */
#include "02_tiled_matmul/limit/12_sgemm.h"
#include "02_tiled_matmul/limit/13_sgemm_cluster.h"

#define KERNEL MATMUL_ROW
static const struct matmul_kernel tiled_matmul_kernels[] = {
#include "02_step.h"
    {.about.name = NULL},
};
#undef KERNEL

#endif
#endif
#endif
