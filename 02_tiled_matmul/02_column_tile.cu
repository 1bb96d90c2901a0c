/*
 * Idea: one thread computes a column of TM elements of C, so each value of B that it reads from
 * shared memory serves TM of them.
 *
 *     C[row][col] = sum over k of A[row][k] * B[k][col]     A [M, K], B [K, N], C [M, N], row-major
 *
 * A block owns a BM x BN tile of C and walks along K in steps of BK. A thread owns TM rows of one
 * column of the tile, BM/TM rows apart. At each k it reads one value of B into a register and
 * multiplies it with TM values of A.
 *
 * Cost: M·N·K·(1/BM + 1/BN) global loads, M·N stores. TM + 1 shared loads per TM multiply-adds. TM
 * registers for the sums.
 */
#include "02_step.h"
#include "device/tiles.cuh"

static const int BM = 64, BN = 64, BK = 8;
static const int TM = 8;
static const int THREADS_DOWN = BM / TM, THREADS_ACROSS = BN,
                 THREADS = THREADS_DOWN * THREADS_ACROSS;
static_assert(BM * BK == THREADS && BK * BN == THREADS,
              "each thread loads one element of A and one of B");

__global__ void __launch_bounds__(THREADS)
    column_tile(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    /* Tiles are numbered along x alone: gridDim.x goes up to 2^31 - 1, gridDim.y stops at 65535. */
    const int tiles_across = ceil_div(N, BN);
    const int row0 = blockIdx.x / tiles_across * BM;
    const int col0 = blockIdx.x % tiles_across * BN;
    const int y = threadIdx.x / THREADS_ACROSS, x = threadIdx.x % THREADS_ACROSS;

    /* The element of each tile that this thread carries. */
    const int row_A = threadIdx.x / BK, k_A = threadIdx.x % BK;
    const int k_B = threadIdx.x / BN, col_B = threadIdx.x % BN;

    float sum[TM] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        /* Past an edge the tile has zeros, which add nothing. All threads stay for the barriers. */
        As[row_A][k_A] =
            row0 + row_A < M && k0 + k_A < K ? A[(size_t)(row0 + row_A) * K + k0 + k_A] : 0.0f;
        Bs[k_B][col_B] =
            k0 + k_B < K && col0 + col_B < N ? B[(size_t)(k0 + k_B) * N + col0 + col_B] : 0.0f;
        __syncthreads(); /* the tiles are complete before any thread reads them */

        for (int k = 0; k < BK; k++) {
            const float b = Bs[k][x];
            for (int i = 0; i < TM; i++)
                sum[i] += As[y + i * THREADS_DOWN][k] * b;
        }
        __syncthreads(); /* every thread has read the tiles before a faster one overwrites them */
    }

    for (int i = 0; i < TM; i++) {
        const int row = row0 + y + i * THREADS_DOWN, col = col0 + x;
        if (row < M && col < N)
            C[(size_t)row * N + col] = sum[i];
    }
}

extern "C" cudaError_t matmul_column_tile(const float *A, const float *B, float *C, int M, int N,
                                          int K, cudaStream_t stream)
{
    column_tile<<<ceil_div(M, BM) * ceil_div(N, BN), THREADS, 0, stream>>>(A, B, C, M, N, K);
    return cudaGetLastError();
}
