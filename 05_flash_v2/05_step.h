/* Step 05's kernels in reading order. Adding a kernel is adding a file and a row. */
#ifndef STEP_05_H
#define STEP_05_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

attention_fn attention_flash_v2;           /* 1_flash_v2.cu */
attention_fn attention_flash_v2_registers; /* 2_flash_v2_registers.cu */
attention_fn attention_split_kv;           /* 3_split_kv.cu */

attention_workspace_fn attention_split_kv_workspace;

/* The same sources with other template arguments: tiles that are not square, and the tiles for an
 * sm_75. */
attention_fn attention_flash_v2_16x32; /* Br = 16, Bc = 32 */
attention_fn attention_flash_v2_32x8;  /* Br = 32, Bc = 8 */
attention_fn attention_flash_v2_registers_64_kb;

/*
 * What the lesson's formulas, and the tests that assert them, are in. flash_v2: Br queries by Bc
 * keys, the tile of flash_v1. flash_v2_registers: the same for a head_dim of 33 .. 64 where a block
 * may have 106 KiB of shared memory. split_kv: the rows of a block where there is more than one to
 * take.
 */
enum {
    FLASH_V2_BR = 16,
    FLASH_V2_BC = 16,
    FLASH_V2_REGISTERS_BR = 128,
    FLASH_V2_REGISTERS_BC = 64,
    SPLIT_KV_R = 4,
};

static const struct attention_kernel flash_v2_kernels[] = {
    {"flash_v2",
     "a block owns a tile of queries and walks the keys; O is divided by l once, at the end",
     attention_flash_v2, NULL},
    {"flash_v2_registers", "a warp owns its rows, a thread a square of S and of O in registers",
     attention_flash_v2_registers, NULL},
    {"split_kv", "the keys split over blocks; partial (O, LSE) merged by a second kernel",
     attention_split_kv, attention_split_kv_workspace},
    {NULL, NULL, NULL, NULL},
};

static const struct attention_kernel flash_v2_tiles[] = {
    {"flash_v2_16x32", "Br = 16, Bc = 32", attention_flash_v2_16x32, NULL},
    {"flash_v2_32x8", "Br = 32, Bc = 8", attention_flash_v2_32x8, NULL},
    {"flash_v2_registers_64_kb", "in 64 KB of shared memory", attention_flash_v2_registers_64_kb,
     NULL},
    {NULL, NULL, NULL, NULL},
};

#ifdef __cplusplus
}
#endif

#endif
