/*
 * Idea: the lanes of a warp form a patch that is nearly square, operands are read one step before
 * they are needed, and neighbouring products share a register: between the copies the inner loop is
 * multiply-adds almost alone.
 *
 *     C[row][col] = sum over k of A[row][k] * B[k][col]     A [M, K], B [K, N], C [M, N], row-major
 *
 * A block owns a BM x BN tile of C and walks along K in steps of BK. A warp owns a patch of 4·TM
 * rows by 8·TN columns of the tile, its lanes 4 down and 8 across; a thread owns TM rows by TN
 * columns of the patch, in runs of four neighbours: rows 4·lane_y .. 4·lane_y + 3 and the same
 * again 16 further down, columns likewise 32 apart. The tile of A is transposed on its way into
 * shared memory, so that a run of four rows lies side by side there too.
 *
 * Shared memory holds STAGES tiles of each matrix: one being read, the others on their way. The
 * operands of the next step are read during the products of this one, also across the barrier
 * between two tiles.
 *
 * Cost: as 06_async, and TM + TN more registers. A warp's step reads 4·TM + 8·TN different floats
 * for 32·TM·TN multiply-adds, where 2 lanes down and 16 across would read 2·TM + 16·TN.
 */
#include "02_tiled_matmul/02_step.h"
#include <ptx.cuh>
#include "device/rectangles.cuh"
#include "device/tiles.cuh"
#include "device/vectors.cuh"

static const int BM = 128, BN = 128, BK = 8, STAGES = 4;
static const int TM = 8, TN = 8;
static const int WARPS_ACROSS = BN / (LANES_ACROSS * TN), THREADS = BM / TM * (BN / TN);
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

/* Reads a thread's operands of one step: runs of four, from As_k and Bs_k on. */
static __device__ void read_operands(float a[TM], float b[TN], const float *As_k, const float *Bs_k)
{
    for (int i = 0; i < TM; i += 4)
        *(float4 *)&a[i] = *(const float4 *)&As_k[i * LANES_DOWN];
    for (int j = 0; j < TN; j += 4)
        *(float4 *)&b[j] = *(const float4 *)&Bs_k[j * LANES_ACROSS];
}

__global__ void __launch_bounds__(THREADS, 2)
    warp_tile(const float *A, const float *B, float *C, int M, int N, int K, bool aligned_C)
{
    __shared__ __align__(16) float As[STAGES][BK][BM + PAD];
    __shared__ __align__(16) float Bs[STAGES][BK][BN];

    /* Tiles are numbered along x alone: gridDim.x goes up to 2^31 - 1, gridDim.y stops at 65535. */
    const int tiles_across = ceil_div(N, BN);
    const int row0 = blockIdx.x / tiles_across * BM;
    const int col0 = blockIdx.x % tiles_across * BN;

    /* Where this thread's first row and column are in the tile. */
    const int warp = threadIdx.x / 32;
    const int y = warp / WARPS_ACROSS * LANES_DOWN * TM + 4 * lane_y();
    const int x = warp % WARPS_ACROSS * LANES_ACROSS * TN + 4 * lane_x();

    for (int stage = 0; stage < STAGES - 1; stage++)
        copy_tiles(As[stage], Bs[stage], A, B, row0, col0, stage * BK, M, N, K);

    float sum[TM][TN] = {};
    __align__(16) float a[2][TM], b[2][TN];
    /* All but the newest STAGES - 2 groups of this thread have arrived: the first has. */
    cp_async_wait<STAGES - 2>();
    /* every thread's copies of the first tile have arrived before any thread reads it */
    __syncthreads();
    read_operands(a[0], b[0], &As[0][0][y], &Bs[0][0][x]);

    int reading = 0, writing = STAGES - 1;
    for (int k0 = 0; k0 < K; k0 += BK) {
        copy_tiles(As[writing], Bs[writing], A, B, row0, col0, k0 + (STAGES - 1) * BK, M, N, K);

#pragma unroll
        for (int k = 0; k < BK; k++) {
            if (k == BK - 1) {
                cp_async_wait<STAGES - 2>();
                /* Every thread's copies of the next tile have arrived before any thread reads it,
                   and all threads have read this tile: its stage is free for the next copies. */
                __syncthreads();
                writing = reading;
                reading = (reading + 1) % STAGES;
            }
            const int next_k = (k + 1) % BK;
            read_operands(a[(k + 1) % 2], b[(k + 1) % 2], &As[reading][next_k][y],
                          &Bs[reading][next_k][x]);
            /* Serpentine: every product but the first shares a factor with the one before it, and
               reads one register less. */
            for (int i = 0; i < TM; i++)
                for (int step = 0; step < TN; step++) {
                    const int j = i % 2 == 0 ? step : TN - 1 - step;
                    sum[i][j] += a[k % 2][i] * b[k % 2][j];
                }
        }
    }
    /* no copy is under way when the block's shared memory is given to another */
    cp_async_wait<0>();

    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4) {
            const int row = row0 + y + i / 4 * 4 * LANES_DOWN + i % 4,
                      col = col0 + x + j * LANES_ACROSS;
            store_4(C, row, col, M, N, aligned_C,
                    make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]));
        }
}

extern "C" cudaError_t matmul_warp_tile(const float *A, const float *B, float *C, int M, int N,
                                        int K, cudaStream_t stream)
{
    warp_tile<<<ceil_div(M, BM) * ceil_div(N, BN), THREADS, 0, stream>>>(A, B, C, M, N, K,
                                                                         rows_aligned(C, N));
    return cudaGetLastError();
}
