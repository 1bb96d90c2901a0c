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

#include "harness/problem.h"

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What every matmul kernel's C function looks like. A, B and C are device pointers; the work is
 * launched on `stream` and not waited for. Called by matmul_run(), which has checked the arguments
 * and found C not empty.
 */
typedef cudaError_t matmul_fn(const float *A, const float *B, float *C, int M, int N, int K,
                              cudaStream_t stream);

struct matmul_kernel;
typedef struct cost matmul_cost_fn(const struct matmul_kernel *row, int M, int N, int K);

/* One row of a step's table. */
struct matmul_kernel {
    struct kernel about;
    matmul_fn *launch;
    matmul_cost_fn *cost;
    /* Of a kernel with one tile, for its cost: the tile of C that a block computes, and the
     * elements that a load and a store move where the rows of a matrix are aligned to 16 bytes. */
    int BM, BN, load_width, store_width;
};

/* A row of a table: the kernel's name, file and idea, then what else is true of it. */
#define MATMUL_ROW(n, f, i, ...)                                                                   \
    {                                                                                              \
        ABOUT(n, f, i), .launch = matmul_##n, __VA_ARGS__                                          \
    }

/*
 * Runs the kernel. Returns what its function returns, or refuses with a message (refusal.h):
 * cudaErrorNotSupported for a device that is too old, cudaErrorInvalidValue for a negative size, a
 * null or misaligned pointer to something that is not empty, and a C that overlaps A or B. An empty
 * C is success with nothing launched.
 */
cudaError_t matmul_run(const struct matmul_kernel *row, const float *A, const float *B, float *C,
                       int M, int N, int K, cudaStream_t stream);

/* What a kernel of one tile costs: A once per tile across C, B once per tile down. */
struct cost matmul_tiled_cost(const struct matmul_kernel *row, int M, int N, int K);

/* The same where each tile is loaded whole, elements past an edge of C replaced by others: A
 * element by element, B load_width at a time. */
struct cost matmul_whole_tiles_cost(const struct matmul_kernel *row, int M, int N, int K);
/* The loads are those of `tiles` tiles, which need not be all of C's. */
struct cost matmul_tiles_cost(const struct matmul_kernel *row, long long tiles, int M, int N,
                              int K);

/* Sizes as the harness knows them. */
enum matmul_size { MATMUL_M, MATMUL_N, MATMUL_K };

extern const struct problem matmul_problem;

#ifdef __cplusplus
}
#endif

#endif
