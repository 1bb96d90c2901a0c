/*
 * The problem of step 03: softmax over the rows of a matrix in single precision.
 *
 *     output[r][c] = exp(input[r][c] - m_r) / l_r        m_r = max over c of input[r][c]
 *                                                        l_r = sum over c of exp(input[r][c] - m_r)
 *
 * input and output are [rows, cols], row-major and contiguous. Special values follow IEEE
 * arithmetic on that formula, as PyTorch does: a row that holds a NaN, a +inf, or nothing but -inf
 * is NaN throughout; beside finite values -inf gives 0. Zero rows or zero cols is success with
 * nothing done.
 */
#ifndef COMMON_SOFTMAX_H
#define COMMON_SOFTMAX_H

#include "problem.h"

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What every softmax kernel's C function looks like. Device pointers, aligned to 4 bytes (not more:
 * a row of an odd number of columns starts anywhere); launched on `stream` and not waited for.
 */
typedef cudaError_t softmax_fn(const float *input, float *output, int rows, int cols,
                               cudaStream_t stream);

/* One row of a step's table; the table ends with a row whose name is null. */
struct softmax_kernel {
    const char *name;
    const char *idea;
    softmax_fn *run;
};

/*
 * Refuses (cudaErrorInvalidValue and a sentence, see refusal.h) a negative size, a null or
 * misaligned pointer to something that is not empty, and an output that overlaps the input.
 */
cudaError_t softmax_check_arguments(const float *input, const float *output, int rows, int cols);

/* Sizes as the harness knows them. */
enum softmax_size { SOFTMAX_ROWS, SOFTMAX_COLS };

extern const struct problem softmax_problem;

#ifdef __cplusplus
}
#endif

#endif
