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

#include "harness/problem.h"

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What every softmax kernel's C function looks like. Device pointers, aligned to 4 bytes (not more:
 * a row of an odd number of columns starts anywhere); launched on `stream` and not waited for.
 * Called by softmax_run(), which has checked the arguments and found the output not empty.
 */
typedef cudaError_t softmax_fn(const float *input, float *output, int rows, int cols,
                               cudaStream_t stream);

struct softmax_kernel;
typedef struct cost softmax_cost_fn(const struct softmax_kernel *row, int rows, int cols);

/* One row of a step's table. */
struct softmax_kernel {
    struct kernel about;
    softmax_fn *launch;
    softmax_cost_fn *cost;
    int sweeps; /* how often it reads the matrix, for its cost */
};

/* A row of a table: the kernel's name, file and idea, then what else is true of it. */
#define SOFTMAX_ROW(n, f, i, ...)                                                                  \
    {                                                                                              \
        ABOUT(n, f, i), .launch = softmax_##n, __VA_ARGS__                                         \
    }

/*
 * Runs the kernel. Returns what its function returns, or refuses with a message (refusal.h):
 * cudaErrorNotSupported for a device that is too old, cudaErrorInvalidValue for a negative size, a
 * null or misaligned pointer to something that is not empty, and an output that overlaps the input.
 * An empty output is success with nothing launched.
 */
cudaError_t softmax_run(const struct softmax_kernel *row, const float *input, float *output,
                        int rows, int cols, cudaStream_t stream);

/* Sizes as the harness knows them. */
enum softmax_size { SOFTMAX_ROWS, SOFTMAX_COLS };

extern const struct problem softmax_problem;

#ifdef __cplusplus
}
#endif

#endif
