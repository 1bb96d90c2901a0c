/*
 * Idea: one thread computes one element of C, and neighbouring threads walk DOWN a column.
 *
 *     C[row][col] = sum over k of A[row][k] * B[k][col]     A [M, K], B [K, N], C [M, N], row-major
 *
 * A block owns a 32 x 32 tile of C, a thread one element of it, a warp one column of 32 rows. At
 * each k its lanes read 32 elements of A that lie K floats apart, each in a 32-byte sector of its
 * own, and one element of B that all share.
 *
 * Cost: 2·M·N·K global loads, M·N stores, 4 bytes each. Sectors per request: A 32, B 1, C 32.
 */
#include "01_step.h"
#include "device/tiles.cuh"

static const int TILE = 32;

__global__ void uncoalesced(const float *A, const float *B, float *C, int M, int N, int K)
{
    /* Tiles are numbered along x alone: gridDim.x goes up to 2^31 - 1, gridDim.y stops at 65535. */
    const int tiles_across = ceil_div(N, TILE);
    const int row = blockIdx.x / tiles_across * TILE + threadIdx.x % TILE;
    const int col = blockIdx.x % tiles_across * TILE + threadIdx.x / TILE;

    if (row < M && col < N) {
        float sum = 0.0f;
        for (int k = 0; k < K; k++)
            sum += A[(size_t)row * K + k] * B[(size_t)k * N + col];
        C[(size_t)row * N + col] = sum;
    }
}

extern "C" cudaError_t matmul_uncoalesced(const float *A, const float *B, float *C, int M, int N,
                                          int K, cudaStream_t stream)
{
    uncoalesced<<<ceil_div(M, TILE) * ceil_div(N, TILE), TILE * TILE, 0, stream>>>(A, B, C, M, N,
                                                                                   K);
    return cudaGetLastError();
}
