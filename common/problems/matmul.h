/*
 * Steps 01 and 02 solve this problem: C = A · B in single precision.
 *
 *     C[i][j] = sum over k of A[i][k] * B[k][j]        A is [M, K], B is [K, N], C is [M, N]
 *
 * All three are row-major and contiguous. With a zero M or N the call succeeds and does nothing; K
 * = 0 gives C = 0.
 */
#ifndef COMMON_MATMUL_H
#define COMMON_MATMUL_H

#include "harness/problem.h"

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Every matmul kernel's C function has this type. A, B and C are device pointers. The function
 * launches on `stream` and does not wait. matmul_run() calls it, after checking the arguments and
 * finding C not empty.
 */
typedef cudaError_t matmul_fn(const float *A, const float *B, float *C, int M, int N, int K,
                              cudaStream_t stream);

struct matmul_kernel;
typedef struct cost matmul_cost_fn(const struct matmul_kernel *row, int M, int N, int K);

/* This is one row of a step's table. */
struct matmul_kernel {
    struct kernel about;
    matmul_fn *launch;
    matmul_cost_fn *cost;
    /* The cost of a kernel with one tile depends on these: the tile of C that a block computes,
     * and the elements that a load and a store move where the rows of a matrix are aligned to 16
     * bytes. */
    int BM, BN, load_width, store_width;
};

/* A table's row has the kernel's name, file and idea, then the rest of its members. */
#define MATMUL_ROW(n, f, i, ...)                                                                   \
    {                                                                                              \
        ABOUT(n, f, i), .launch = matmul_##n, __VA_ARGS__                                          \
    }

/*
 * Runs the kernel. Returns what the kernel's function returns, or refuses with a message
 * (refusal.h): cudaErrorNotSupported for a device that is too old, cudaErrorInvalidValue for a
 * negative size, a null or misaligned pointer to something that is not empty, and a C that overlaps
 * A or B. An empty C is success with nothing launched.
 */
cudaError_t matmul_run(const struct matmul_kernel *row, const float *A, const float *B, float *C,
                       int M, int N, int K, cudaStream_t stream);

/* As matmul_run, at sizes as the harness knows them and on arrays in the order of its tensors. */
cudaError_t matmul_run_sizes(const struct kernel *kernel, const long long sizes[MAX_SIZES],
                             void *const *device, void *workspace, cudaStream_t stream);

/* Returns the cost of a kernel with one tile: it reads A once for each tile across C, and B once
 * for each tile down. */
struct cost matmul_tiled_cost(const struct matmul_kernel *row, int M, int N, int K);

/* Returns the cost where each tile is loaded whole, with other elements in place of those past an
 * edge of C. The kernel loads A element by element, and B load_width elements at a time. */
struct cost matmul_whole_tiles_cost(const struct matmul_kernel *row, int M, int N, int K);
/* Counts the loads of `tiles` tiles, which need not be all of C's. */
struct cost matmul_tiles_cost(const struct matmul_kernel *row, long long tiles, int M, int N,
                              int K);

/* These are the sizes as the harness knows them. */
enum matmul_size { MATMUL_M, MATMUL_N, MATMUL_K };

extern const struct problem matmul_problem;

#ifdef __cplusplus
}
#endif

#endif
