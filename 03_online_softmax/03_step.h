/* Step 03: the C functions of its kernels, in reading order, and the step itself. 03_step.c has the
 * rows. */
#ifndef STEP_03_H
#define STEP_03_H

#include "problems/softmax.h"

#ifdef __cplusplus
extern "C" {
#endif

softmax_fn softmax_three_pass, softmax_online, softmax_online_warp, softmax_online_block,
    softmax_online_registers, softmax_online_vectors, softmax_online_ragged, softmax_online_lanes,
    softmax_online_cluster;

struct step;
extern const struct step step_03;

#ifdef __cplusplus
}
#endif

#endif
