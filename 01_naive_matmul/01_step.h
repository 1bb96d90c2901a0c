/* Step 01's kernels in reading order. Adding a kernel is adding a file and a row. */
#ifndef STEP_01_H
#define STEP_01_H

#include "matmul.h"

#ifdef __cplusplus
extern "C" {
#endif

matmul_fn matmul_uncoalesced; /* 1_uncoalesced.cu */
matmul_fn matmul_coalesced;   /* 2_coalesced.cu */

static const struct matmul_kernel naive_matmul_kernels[] = {
    {"uncoalesced", "one thread per element of C; neighbouring threads walk down a column",
     matmul_uncoalesced},
    {"coalesced", "the same arithmetic; neighbouring threads walk along a row", matmul_coalesced},
    {NULL, NULL, NULL},
};

#ifdef __cplusplus
}
#endif

#endif
