/* Step 04's kernels in reading order. Adding a kernel is adding a file and a row. */
#ifndef STEP_04_H
#define STEP_04_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

attention_fn attention_standard;             /* 1_standard.cu */
attention_fn attention_row_parallel;         /* 2_row_parallel.cu */
attention_fn attention_key_parallel_ordered; /* 3_key_parallel_ordered.cu */
attention_fn attention_key_parallel_atomic;  /* 4_key_parallel_atomic.cu */
attention_fn attention_key_parallel_block;   /* 5_key_parallel_block.cu */
attention_fn attention_flash_v1;             /* 6_flash_v1.cu, Br = 16, Bc = 16 */
attention_fn attention_flash_v1_registers;   /* 7_flash_v1_registers.cu */

attention_workspace_fn attention_standard_workspace;
attention_workspace_fn attention_key_parallel_ordered_workspace;
attention_workspace_fn attention_key_parallel_atomic_workspace;
attention_workspace_fn attention_flash_v1_workspace; /* of both FA1 kernels: l and m */

static const struct attention_kernel flash_v1_kernels[] = {
    {"standard", "three kernels; the scores are a matrix in global memory", attention_standard,
     attention_standard_workspace},
    {"row_parallel", "a warp per query, lanes side by side along d; keys one after the other",
     attention_row_parallel, NULL},
    {"key_parallel_ordered", "the keys of a query cut into chunks; their warps take turns in order",
     attention_key_parallel_ordered, attention_key_parallel_ordered_workspace},
    {"key_parallel_atomic",
     "the chunks in any order: atomic max and add, the grid waits between them",
     attention_key_parallel_atomic, attention_key_parallel_atomic_workspace},
    {"key_parallel_block", "a block per query deals the keys to its warps and merges on chip",
     attention_key_parallel_block, NULL},
    {"flash_v1", "tiles: keys outside, queries inside; O, l and m revisited in global memory",
     attention_flash_v1, attention_flash_v1_workspace},
    {"flash_v1_registers", "the same loops; a thread holds a rectangle of S and of O in registers",
     attention_flash_v1_registers, attention_flash_v1_workspace},
    {NULL, NULL, NULL, NULL},
};

/* The same sources with other template arguments: tiles that are not square, and the tiles for an
 * sm_75. */
attention_fn attention_flash_v1_16x32; /* Br = 16, Bc = 32 */
attention_fn attention_flash_v1_32x8;  /* Br = 32, Bc = 8 */
attention_fn attention_flash_v1_registers_64_kb;

/* FlashAttention-1 at every tile that this step has. */
static const struct attention_kernel flash_v1_tiles[] = {
    {"flash_v1", "Br = 16, Bc = 16", attention_flash_v1, attention_flash_v1_workspace},
    {"flash_v1_16x32", "Br = 16, Bc = 32", attention_flash_v1_16x32, attention_flash_v1_workspace},
    {"flash_v1_32x8", "Br = 32, Bc = 8", attention_flash_v1_32x8, attention_flash_v1_workspace},
    {"flash_v1_registers", "Bc = 128 where it fits", attention_flash_v1_registers,
     attention_flash_v1_workspace},
    {"flash_v1_registers_64_kb", "in 64 KB of shared memory", attention_flash_v1_registers_64_kb,
     attention_flash_v1_workspace},
    {NULL, NULL, NULL, NULL},
};

/*
 * What the FA1 kernels begin with, line 2 of the paper's algorithm: O = 0, l = 0, m = -inf, for
 * `rows` queries. LSE, if not null, becomes -inf, which is its value when no key ever comes.
 * initial_state.cu
 */
cudaError_t attention_initial_state(float *O, float *LSE, float *l, float *m, size_t rows,
                                    int head_dim, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
