/*
 * The problem of steps 01 and 02: C = A · B in single precision.
 *
 *     C[i][j] = sum over k of A[i][k] * B[k][j]        A is [M, K], B is [K, N], C is [M, N]
 *
 * All three row-major and contiguous. A zero M or N is success with nothing done; K = 0 gives C =
 * 0.
 */
#ifndef COMMON_MATMUL_H
#define COMMON_MATMUL_H

#include "problem.h"

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What every matmul kernel's C function looks like. A, B and C are device pointers; the work is
 * launched on `stream` and not waited for. Returns cudaErrorInvalidValue, with nothing launched,
 * for what matmul_check_arguments() refuses.
 */
typedef cudaError_t matmul_fn(const float *A, const float *B, float *C, int M, int N, int K,
                              cudaStream_t stream);

/* One row of a step's table; the table ends with a row whose name is null. */
struct matmul_kernel {
    const char *name;
    const char *idea;
    matmul_fn *run;
};

/*
 * Refuses (cudaErrorInvalidValue and a sentence, see refusal.h) a negative size, a null or
 * misaligned pointer to something that is not empty, and a C that overlaps A or B.
 */
cudaError_t matmul_check_arguments(const float *A, const float *B, const float *C, int M, int N,
                                   int K);

/* Sizes as the harness knows them. */
enum matmul_size { MATMUL_M, MATMUL_N, MATMUL_K };

extern const struct problem matmul_problem;

#ifdef __cplusplus
}
#endif

#endif
