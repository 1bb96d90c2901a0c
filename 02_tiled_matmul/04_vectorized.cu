/*
 * Idea: move four neighbouring floats with one instruction, from global and from shared memory.
 *
 *     C[row][col] = sum over k of A[row][k] * B[k][col]     A [M, K], B [K, N], C [M, N], row-major
 *
 * A block owns a BM x BN tile of C and walks along K in steps of BK. A thread owns TM rows by TN
 * columns of the tile, in runs of four neighbours: rows 4·y .. 4·y + 3 and the same again BM/2
 * further down, columns likewise. The tile of A is transposed on its way into shared memory, so
 * that a run of four rows lies side by side there too.
 *
 * Cost: M·N·K·(1/BM + 1/BN) / 4 global loads of 16 bytes where rows are aligned to 16 bytes (K and
 * N multiples of 4), of 4 bytes and four times as many where they are not. (TM + TN) / 4 shared
 * loads per TM·TN multiply-adds.
 */
#include "02_step.h"
#include "device/tiles.cuh"
#include "device/vectors.cuh"

static const int BM = 128, BN = 128, BK = 8;
static const int TM = 8, TN = 8;
static const int THREADS_DOWN = BM / TM, THREADS_ACROSS = BN / TN,
                 THREADS = THREADS_DOWN * THREADS_ACROSS;
static_assert(BM * BK == 4 * THREADS && BK * BN == 4 * THREADS,
              "each thread loads one float4 of A and one of B");

/* A warp stores 16 neighbours of row k and 16 of row k + 4 of the transposed A; the padding puts
 * them 16 banks apart. */
static const int PAD = 4;

__global__ void __launch_bounds__(THREADS, 2)
    vectorized(const float *A, const float *B, float *C, int M, int N, int K, bool aligned_A,
               bool aligned_B, bool aligned_C)
{
    __shared__ __align__(16) float As[BK][BM + PAD];
    __shared__ __align__(16) float Bs[BK][BN];

    /* Tiles are numbered along x alone: gridDim.x goes up to 2^31 - 1, gridDim.y stops at 65535. */
    const int tiles_across = ceil_div(N, BN);
    const int row0 = blockIdx.x / tiles_across * BM;
    const int col0 = blockIdx.x % tiles_across * BN;
    const int y = threadIdx.x / THREADS_ACROSS, x = threadIdx.x % THREADS_ACROSS;

    /* The float4 of each tile that this thread carries. */
    const int row_A = threadIdx.x / (BK / 4), k_A = threadIdx.x % (BK / 4) * 4;
    const int k_B = threadIdx.x / (BN / 4), col_B = threadIdx.x % (BN / 4) * 4;

    float sum[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        /* Past an edge the tile has zeros, which add nothing. All threads stay for the barriers. */
        const float4 from_A = load_4(A, row0 + row_A, k0 + k_A, M, K, aligned_A);
        const float4 from_B = load_4(B, k0 + k_B, col0 + col_B, K, N, aligned_B);
        As[k_A + 0][row_A] = from_A.x;
        As[k_A + 1][row_A] = from_A.y;
        As[k_A + 2][row_A] = from_A.z;
        As[k_A + 3][row_A] = from_A.w;
        *(float4 *)&Bs[k_B][col_B] = from_B;
        __syncthreads(); /* the tiles are complete before any thread reads them */

        for (int k = 0; k < BK; k++) {
            __align__(16) float a[TM], b[TN];
            for (int i = 0; i < TM; i += 4)
                *(float4 *)&a[i] = *(const float4 *)&As[k][4 * y + i * THREADS_DOWN];
            for (int j = 0; j < TN; j += 4)
                *(float4 *)&b[j] = *(const float4 *)&Bs[k][4 * x + j * THREADS_ACROSS];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    sum[i][j] += a[i] * b[j];
        }
        __syncthreads(); /* every thread has read the tiles before a faster one overwrites them */
    }

    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4) {
            const int row = row0 + 4 * y + i / 4 * 4 * THREADS_DOWN + i % 4,
                      col = col0 + 4 * x + j * THREADS_ACROSS;
            store_4(C, row, col, M, N, aligned_C,
                    make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]));
        }
}

extern "C" cudaError_t matmul_vectorized(const float *A, const float *B, float *C, int M, int N,
                                         int K, cudaStream_t stream)
{
    vectorized<<<ceil_div(M, BM) * ceil_div(N, BN), THREADS, 0, stream>>>(
        A, B, C, M, N, K, rows_aligned(A, K), rows_aligned(B, N), rows_aligned(C, N));
    return cudaGetLastError();
}
