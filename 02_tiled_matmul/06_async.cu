/*
 * Idea: copy from global to shared memory past the registers, several tiles before the arithmetic.
 *
 *     C[row][col] = sum over k of A[row][k] * B[k][col]     A [M, K], B [K, N], C [M, N], row-major
 *
 * A block owns a BM x BN tile of C and walks along K in steps of BK. A thread owns TM rows by TN
 * columns of the tile, in runs of four neighbours: rows 4·y .. 4·y + 3 and the same again BM/2
 * further down, columns likewise. The tile of A is transposed on its way into shared memory, so
 * that a run of four rows lies side by side there too.
 *
 * Shared memory holds STAGES tiles of each matrix: one being read, the others on their way. A copy
 * is issued and forgotten; a wait for its group, STAGES - 1 tiles later, says that it has arrived.
 * Copies of 4 bytes need no alignment, can transpose, and put zeros past the end of the matrix.
 *
 * Cost: M·N·K·(1/BM + 1/BN) global loads of 4 bytes, M·N stores (a quarter of the instructions
 * where rows are aligned to 16 bytes). (TM + TN) / 4 shared loads per TM·TN multiply-adds. STAGES
 * times the shared memory, and no registers for tiles on their way. On sm_75, which cannot copy
 * asynchronously, each copy is a load and a store.
 */
#include "02_step.h"
#include <ptx.cuh>
#include "device/tiles.cuh"
#include "device/vectors.cuh"

static const int BM = 128, BN = 128, BK = 8, STAGES = 4;
static const int TM = 8, TN = 8;
static const int THREADS_DOWN = BM / TM, THREADS_ACROSS = BN / TN,
                 THREADS = THREADS_DOWN * THREADS_ACROSS;
static_assert(THREADS % BK == 0 && THREADS % BN == 0,
              "a thread copies from one column of A's tile and one of B's");

/* A warp stores 8 neighbours in k by 4 rows of the transposed A; the padding puts all of them into
 * different banks. */
static const int PAD = 4;

/* Issues this thread's share of the copies of the tiles at k0, zeros past an edge, as one group. */
static __device__ void copy_tiles(float As[BK][BM + PAD], float Bs[BK][BN], const float *A,
                                  const float *B, int row0, int col0, int k0, int M, int N, int K)
{
    for (int i = 0; i < BM * BK / THREADS; i++) {
        const int row = threadIdx.x / BK + i * (THREADS / BK), k = threadIdx.x % BK;
        cp_async_4_zero_fill(shared_address(&As[k][row]), A + (size_t)(row0 + row) * K + k0 + k,
                             row0 + row < M && k0 + k < K ? sizeof(float) : 0);
    }
    for (int i = 0; i < BK * BN / THREADS; i++) {
        const int k = threadIdx.x / BN + i * (THREADS / BN), col = threadIdx.x % BN;
        cp_async_4_zero_fill(shared_address(&Bs[k][col]), B + (size_t)(k0 + k) * N + col0 + col,
                             k0 + k < K && col0 + col < N ? sizeof(float) : 0);
    }
    cp_async_commit();
}

__global__ void __launch_bounds__(THREADS, 2)
    async(const float *A, const float *B, float *C, int M, int N, int K, bool aligned_C)
{
    __shared__ __align__(16) float As[STAGES][BK][BM + PAD];
    __shared__ __align__(16) float Bs[STAGES][BK][BN];

    /* Tiles are numbered along x alone: gridDim.x goes up to 2^31 - 1, gridDim.y stops at 65535. */
    const int tiles_across = ceil_div(N, BN);
    const int row0 = blockIdx.x / tiles_across * BM;
    const int col0 = blockIdx.x % tiles_across * BN;
    const int y = threadIdx.x / THREADS_ACROSS, x = threadIdx.x % THREADS_ACROSS;

    for (int stage = 0; stage < STAGES - 1; stage++)
        copy_tiles(As[stage], Bs[stage], A, B, row0, col0, stage * BK, M, N, K);

    float sum[TM][TN] = {};
    for (int k0 = 0, stage = 0; k0 < K; k0 += BK, stage = (stage + 1) % STAGES) {
        /* All groups of this thread but the newest STAGES - 2 have arrived, this tile's too. */
        cp_async_wait<STAGES - 2>();
        /* Every thread's copies of this tile have arrived before any thread reads it, and every
           thread has read the tile before this one: its stage is free for the copies issued next.
         */
        __syncthreads();
        const int free_stage = (stage + STAGES - 1) % STAGES;
        copy_tiles(As[free_stage], Bs[free_stage], A, B, row0, col0, k0 + (STAGES - 1) * BK, M, N,
                   K);

        for (int k = 0; k < BK; k++) {
            __align__(16) float a[TM], b[TN];
            for (int i = 0; i < TM; i += 4)
                *(float4 *)&a[i] = *(const float4 *)&As[stage][k][4 * y + i * THREADS_DOWN];
            for (int j = 0; j < TN; j += 4)
                *(float4 *)&b[j] = *(const float4 *)&Bs[stage][k][4 * x + j * THREADS_ACROSS];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    sum[i][j] += a[i] * b[j];
        }
    }
    /* no copy is under way when the block's shared memory is given to another */
    cp_async_wait<0>();

    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4) {
            const int row = row0 + 4 * y + i / 4 * 4 * THREADS_DOWN + i % 4,
                      col = col0 + 4 * x + j * THREADS_ACROSS;
            store_4(C, row, col, M, N, aligned_C,
                    make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]));
        }
}

extern "C" cudaError_t matmul_async(const float *A, const float *B, float *C, int M, int N, int K,
                                    cudaStream_t stream)
{
    async<<<ceil_div(M, BM) * ceil_div(N, BN), THREADS, 0, stream>>>(A, B, C, M, N, K,
                                                                     rows_aligned(C, N));
    return cudaGetLastError();
}
