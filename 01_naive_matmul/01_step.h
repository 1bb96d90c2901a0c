/*
 * Step 01's kernels in reading order. Adding a kernel is adding its file and a row here:
 * common/problems/matmul.h says what the fields are.
 *
 * The rows are read twice: for the declarations of their functions, and, in C, as the table.
 */
#ifdef KERNEL

KERNEL(uncoalesced, "1_uncoalesced.cu",
       "one thread per element of C; neighbouring threads walk down a column", .about.begins = true,
       .cost = naive_cost)
KERNEL(coalesced, "2_coalesced.cu", "the same arithmetic; neighbouring threads walk along a row",
       .cost = naive_cost)

#else
#ifndef STEP_01_H
#define STEP_01_H

#include "problems/matmul.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KERNEL MATMUL_DECLARATION
#include "01_step.h"
#undef KERNEL

#ifdef __cplusplus
}
#else

/* Two loads per multiply-add. */
static struct cost naive_cost(const struct matmul_kernel *row, int M, int N, int K)
{
    (void)row;
    const long long elements = (long long)M * N;
    const long long loads = 2 * elements * K;
    return (struct cost){loads, elements, sizeof(float) * loads, sizeof(float) * elements};
}

#define KERNEL MATMUL_ROW
static const struct matmul_kernel naive_matmul_kernels[] = {
#include "01_step.h"
    {.about.name = NULL},
};
#undef KERNEL

#endif
#endif
#endif
