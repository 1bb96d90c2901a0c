/*
 * Idea: one thread computes TM x TN elements of C: each value read from shared memory serves many.
 *
 *     C[row][col] = sum over k of A[row][k] * B[k][col]     A [M, K], B [K, N], C [M, N], row-major
 *
 * A block owns a BM x BN tile of C and walks along K in steps of BK. A thread owns TM rows by TN
 * columns of the tile, BM/TM rows and BN/TN columns apart, so that at any moment neighbouring
 * threads touch neighbouring columns. At each k it reads TM values of A and TN of B into registers
 * and multiplies every one with every other.
 *
 * Cost: M·N·K·(1/BM + 1/BN) global loads, M·N stores. TM + TN shared loads per TM·TN multiply-adds.
 * TM·TN registers for the sums.
 */
#include "02_step.h"
#include "device/tiles.cuh"

static const int BM = 128, BN = 128, BK = 8;
static const int TM = 8, TN = 8;
static const int THREADS_DOWN = BM / TM, THREADS_ACROSS = BN / TN,
                 THREADS = THREADS_DOWN * THREADS_ACROSS;
static_assert(THREADS % BK == 0 && THREADS % BN == 0,
              "a thread loads from one column of A's tile and one of B's");

__global__ void __launch_bounds__(THREADS, 2)
    register_tile(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[BM][BK];
    __shared__ float Bs[BK][BN];

    /* Tiles are numbered along x alone: gridDim.x goes up to 2^31 - 1, gridDim.y stops at 65535. */
    const int tiles_across = ceil_div(N, BN);
    const int row0 = blockIdx.x / tiles_across * BM;
    const int col0 = blockIdx.x % tiles_across * BN;
    const int y = threadIdx.x / THREADS_ACROSS, x = threadIdx.x % THREADS_ACROSS;

    float sum[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        /* Past an edge the tile has zeros, which add nothing. All threads stay for the barriers. */
        for (int i = 0; i < BM * BK / THREADS; i++) {
            const int row = threadIdx.x / BK + i * (THREADS / BK), k = threadIdx.x % BK;
            As[row][k] = row0 + row < M && k0 + k < K ? A[(size_t)(row0 + row) * K + k0 + k] : 0.0f;
        }
        for (int i = 0; i < BK * BN / THREADS; i++) {
            const int k = threadIdx.x / BN + i * (THREADS / BN), col = threadIdx.x % BN;
            Bs[k][col] = k0 + k < K && col0 + col < N ? B[(size_t)(k0 + k) * N + col0 + col] : 0.0f;
        }
        __syncthreads(); /* the tiles are complete before any thread reads them */

        for (int k = 0; k < BK; k++) {
            float a[TM], b[TN];
            for (int i = 0; i < TM; i++)
                a[i] = As[y + i * THREADS_DOWN][k];
            for (int j = 0; j < TN; j++)
                b[j] = Bs[k][x + j * THREADS_ACROSS];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    sum[i][j] += a[i] * b[j];
        }
        __syncthreads(); /* every thread has read the tiles before a faster one overwrites them */
    }

    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++) {
            const int row = row0 + y + i * THREADS_DOWN, col = col0 + x + j * THREADS_ACROSS;
            if (row < M && col < N)
                C[(size_t)row * N + col] = sum[i][j];
        }
}

extern "C" cudaError_t matmul_register_tile(const float *A, const float *B, float *C, int M, int N,
                                            int K, cudaStream_t stream)
{
    register_tile<<<ceil_div(M, BM) * ceil_div(N, BN), THREADS, 0, stream>>>(A, B, C, M, N, K);
    return cudaGetLastError();
}
