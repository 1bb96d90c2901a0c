/*
 * Idea: a block carries one tile of A and one of B into shared memory, where all its threads read
 * them many times.
 *
 *     C[row][col] = sum over k of A[row][k] * B[k][col]     A [M, K], B [K, N], C [M, N], row-major
 *
 * A block owns a T x T tile of C, a thread one element of it. The block walks along K in steps of
 * T: its threads load a T x T tile of A and one of B, an element of each per thread, and each
 * element is then read by T threads.
 *
 * Cost: 2·M·N·K / T global loads (each element of A once per tile column of C, each of B once per
 * tile row), M·N stores. Two shared loads per multiply-add; that is the next limit.
 */
#include "02_step.h"
#include "device/tiles.cuh"

static const int T = 16;

__global__ void __launch_bounds__(T *T)
    shared_tile(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[T][T];
    __shared__ float Bs[T][T];

    /* Tiles are numbered along x alone: gridDim.x goes up to 2^31 - 1, gridDim.y stops at 65535. */
    const int tiles_across = ceil_div(N, T);
    const int y = threadIdx.x / T, x = threadIdx.x % T;
    const int row = blockIdx.x / tiles_across * T + y;
    const int col = blockIdx.x % tiles_across * T + x;

    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += T) {
        /* Past an edge the tile has zeros, which add nothing. All threads stay for the barriers. */
        As[y][x] = row < M && k0 + x < K ? A[(size_t)row * K + k0 + x] : 0.0f;
        Bs[y][x] = k0 + y < K && col < N ? B[(size_t)(k0 + y) * N + col] : 0.0f;
        __syncthreads(); /* the tiles are complete before any thread reads them */

        for (int k = 0; k < T; k++)
            sum += As[y][k] * Bs[k][x];
        __syncthreads(); /* every thread has read the tiles before a faster one overwrites them */
    }

    if (row < M && col < N)
        C[(size_t)row * N + col] = sum;
}

extern "C" cudaError_t matmul_shared_tile(const float *A, const float *B, float *C, int M, int N,
                                          int K, cudaStream_t stream)
{
    shared_tile<<<ceil_div(M, T) * ceil_div(N, T), T * T, 0, stream>>>(A, B, C, M, N, K);
    return cudaGetLastError();
}
