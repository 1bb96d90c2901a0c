/* Step 01: the C functions of its kernels, in reading order, and the step itself. 01_step.c has the
 * rows. */
#ifndef STEP_01_H
#define STEP_01_H

#include "problems/matmul.h"

#ifdef __cplusplus
extern "C" {
#endif

matmul_fn matmul_uncoalesced, matmul_coalesced;

struct step;
extern const struct step step_01;

#ifdef __cplusplus
}
#endif

#endif
