/* Step 04: the C functions of its kernels, in reading order, and the step itself. 04_step.c has the
 * rows. */
#ifndef STEP_04_H
#define STEP_04_H

#include "problems/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

attention_fn attention_standard, attention_row_per_thread, attention_row_parallel,
    attention_key_parallel_ordered, attention_key_parallel_atomic, attention_key_parallel_block,
    attention_flash_v1, attention_flash_v1_register_tile, attention_flash_v1_wide_tile,
    attention_flash_v1_warps, attention_flash_v1_ahead, attention_flash_v1_large_tiles,
    attention_flash_v1_base_2, attention_flash_v1_async;

/*
 * What the FA1 kernels begin with, line 2 of the paper's algorithm: O = 0, and for each query l =
 * 0, m = -inf. LSE, if not null, becomes -inf, which is its value when no key ever comes.
 * initial_state.cu
 */
cudaError_t attention_initial_state(const struct attention *call);

struct step;
extern const struct step step_04;

#ifdef __cplusplus
}
#endif

#endif
