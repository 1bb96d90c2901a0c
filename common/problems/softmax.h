/*
 * Step 03 solves this problem: softmax over the rows of a matrix in single precision.
 *
 *     output[r][c] = exp(input[r][c] - m_r) / l_r        m_r = max over c of input[r][c]
 *                                                        l_r = sum over c of exp(input[r][c] - m_r)
 *
 * input and output are [rows, cols], row-major and contiguous. Special values follow IEEE
 * arithmetic on that formula, as in PyTorch: a row that holds a NaN, a +inf, or nothing but -inf is
 * NaN throughout; beside finite values -inf gives 0. With zero rows or zero cols the call succeeds
 * and does nothing.
 */
#ifndef COMMON_SOFTMAX_H
#define COMMON_SOFTMAX_H

#include "harness/problem.h"

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Every softmax kernel's C function has this type. The device pointers are aligned to 4 bytes (not
 * more: a row of an odd number of columns starts anywhere). The function launches on `stream` and
 * does not wait. softmax_run() calls it, after checking the arguments and finding the output not
 * empty.
 */
typedef cudaError_t softmax_fn(const float *input, float *output, int rows, int cols,
                               cudaStream_t stream);

struct softmax_kernel;
typedef struct cost softmax_cost_fn(const struct softmax_kernel *row, int rows, int cols);

/* This is one row of a step's table. */
struct softmax_kernel {
    struct kernel about;
    softmax_fn *launch;
    softmax_cost_fn *cost;
    int sweeps; /* how often the kernel reads the matrix, for its cost */
};

/* A table's row has the kernel's name, file and idea, then the rest of its members. */
#define SOFTMAX_ROW(n, f, i, ...)                                                                  \
    {                                                                                              \
        ABOUT(n, f, i), .launch = softmax_##n, __VA_ARGS__                                         \
    }

/*
 * Runs the kernel. Returns what the kernel's function returns, or refuses with a message
 * (refusal.h): cudaErrorNotSupported for a device that is too old, cudaErrorInvalidValue for a
 * negative size, a null or misaligned pointer to something that is not empty, and an output that
 * overlaps the input. An empty output is success with nothing launched.
 */
cudaError_t softmax_run(const struct softmax_kernel *row, const float *input, float *output,
                        int rows, int cols, cudaStream_t stream);

/* As softmax_run, at sizes as the harness knows them and on arrays in the order of its tensors. */
cudaError_t softmax_run_sizes(const struct kernel *kernel, const long long sizes[MAX_SIZES],
                              void *const *device, void *workspace, cudaStream_t stream);

/* These are the sizes as the harness knows them. */
enum softmax_size { SOFTMAX_ROWS, SOFTMAX_COLS };

extern const struct problem softmax_problem;

#ifdef __cplusplus
}
#endif

#endif
