/* Step 05: the C functions of its kernels, in reading order, and the step itself. 05_step.c has the
 * rows. */
#ifndef STEP_05_H
#define STEP_05_H

#include "problems/attention.h"
#include "problems/attention_backward.h"

#ifdef __cplusplus
extern "C" {
#endif

attention_fn attention_flash_v2_exchanged, attention_flash_v2, attention_flash_v2_rectangles,
    attention_flash_v2_async, attention_flash_v2_large_tiles, attention_flash_v2_base_2,
    attention_split_kv_naive, attention_split_kv;

attention_backward_fn attention_backward_standard, attention_backward_recompute,
    attention_backward_two_pass, attention_backward_registers, attention_backward_async,
    attention_backward_vector_adds;

/* Starts D = rowsum(dO∘O) on the call's stream. */
cudaError_t attention_backward_row_dots(const struct attention_backward *call, float *D);

struct step;
extern const struct step step_05;

#ifdef __cplusplus
}
#endif

#endif
