/* Step 06's kernels in reading order. Adding a kernel is adding a file and a row. */
#ifndef STEP_06_H
#define STEP_06_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

attention_half_fn attention_half;          /* 01_half.cu */
attention_half_fn attention_wmma;          /* 02_wmma.cu */
attention_half_fn attention_mma;           /* 03_mma.cu */
attention_half_fn attention_mma_pipelined; /* 04_mma_pipelined.cu */
attention_half_fn attention_tma_wgmma;     /* 05_tma_wgmma.cu */
attention_half_fn attention_producer_warp; /* 06_producer_warp.cu */
attention_half_fn attention_overlap;       /* 07_overlap.cu */
attention_half_fn attention_ping_pong;     /* 08_ping_pong.cu */
attention_half_fn attention_tma_store;     /* 09_tma_store.cu */
attention_half_fn attention_hopper;        /* 10_hopper.cu */

static const struct attention_half_kernel causal_half_kernels[] = {
    {"half", "half storage, float arithmetic on CUDA cores; a causal mask skips the tiles it hides",
     attention_half, NULL},
    {"wmma", "tensor cores through wmma fragments; S and P pass through shared memory",
     attention_wmma, NULL},
    {"mma", "mma.sync and ldmatrix: S and P never leave the registers", attention_mma, NULL},
    {"mma_pipelined", "cp.async double buffering, swizzled tiles, 32 rows a warp",
     attention_mma_pipelined, NULL},
    {"tma_wgmma", "tiles by the copy engine onto mbarriers, products by four warps at once",
     attention_tma_wgmma, NULL},
    {"producer_warp", "one warp loads, the others compute, registers move to them",
     attention_producer_warp, NULL},
    {"overlap", "the next Q*K^T runs under this softmax", attention_overlap, NULL},
    {"ping_pong", "the warpgroups take turns: softmax of one under the products of the other",
     attention_ping_pong, NULL},
    {"tma_store", "O leaves through shared memory and the copy engine", attention_tma_store, NULL},
    {"hopper", "blocks stay and draw tiles from a counter, the pipeline runs on across them",
     attention_hopper, NULL},
    {NULL, NULL, NULL, NULL},
};

#ifdef __cplusplus
}
#endif

#endif
