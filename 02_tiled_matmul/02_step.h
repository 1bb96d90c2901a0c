/* Step 02: the C functions of its kernels, in reading order, and the step itself. 02_step.c has the
 * rows. */
#ifndef STEP_02_H
#define STEP_02_H

#include "problems/matmul.h"

#ifdef __cplusplus
extern "C" {
#endif

matmul_fn matmul_shared_tile, matmul_column_tile, matmul_register_tile, matmul_vectorized,
    matmul_pipelined, matmul_async, matmul_warp_tile, matmul_deep_tile, matmul_ragged_first,
    matmul_wide_tile, matmul_scheduled, matmul_sgemm, matmul_sgemm_cluster;

struct step;
extern const struct step step_02;

#ifdef __cplusplus
}
#endif

#endif
