/*
 * Idea: tiles twice as deep along K, so that a block meets at half as many barriers.
 *
 *     C[row][col] = sum over k of A[row][k] * B[k][col]     A [M, K], B [K, N], C [M, N], row-major
 *
 * A block owns a BM x BN tile of C and walks along K in steps of BK. A warp owns a patch of 4·TM
 * rows by 8·TN columns of the tile, its lanes 4 down and 8 across; a thread owns TM rows by TN
 * columns of the patch, in runs of four neighbours: rows 4·lane_y .. 4·lane_y + 3 and the same
 * again 16 further down, columns likewise 32 apart. The tile of A is transposed on its way into
 * shared memory, so that a run of four rows lies side by side there too.
 *
 * Shared memory holds STAGES tiles of each matrix: one being read, the others on their way. Three
 * stages of depth 16 keep more of K on its way than four of depth 8. They take more than the 48 KB
 * that a kernel may declare, so the launcher asks for them. The operands of the next step are read
 * during the products of this one, also across the barrier between two tiles.
 *
 * Cost: as 07_warp_tile, with half its barriers and one and a half times its shared memory.
 */
#include "02_tiled_matmul/02_step.h"
#include <ptx.cuh>
#include "device/rectangles.cuh"
#include "device/tiles.cuh"
#include "device/vectors.cuh"

static const int BM = 128, BN = 128, BK = 16, STAGES = 3;
static const int TM = 8, TN = 8;
static const int WARPS_ACROSS = BN / (LANES_ACROSS * TN), THREADS = BM / TM * (BN / TN);

/* A warp stores 8 neighbours in k by 4 rows of the transposed A; the padding puts all of them into
 * different banks. */
static const int PAD = 4;
static const int LANES_ALONG_K = 8;
static const int ROW_STEP = THREADS / LANES_ALONG_K, K_STEP = THREADS / BN;
static_assert(BK == 2 * LANES_ALONG_K && THREADS % BN == 0,
              "a thread copies two elements of each of its rows of A's tile, one column of B's");

/* Floats of one stage: A's tile transposed, then B's. */
static const int PITCH_A = BM + PAD, STAGE = BK * (PITCH_A + BN);
static const int SHARED_BYTES = STAGES * STAGE * sizeof(float);

/* Issues this thread's share of the copies of the tiles at k0, zeros past an edge, as one group. */
static __device__ void copy_tiles(float *As, float *Bs, const float *A, const float *B, int row0,
                                  int col0, int k0, int M, int N, int K)
{
    for (int i = 0; i < BM * BK / THREADS; i++) {
        const int row = threadIdx.x / LANES_ALONG_K + i / 2 * ROW_STEP,
                  k = threadIdx.x % LANES_ALONG_K + i % 2 * LANES_ALONG_K;
        cp_async_4_zero_fill(shared_address(&As[k * PITCH_A + row]),
                             A + (size_t)(row0 + row) * K + k0 + k,
                             row0 + row < M && k0 + k < K ? sizeof(float) : 0);
    }
    for (int i = 0; i < BK * BN / THREADS; i++) {
        const int k = threadIdx.x / BN + i * K_STEP, col = threadIdx.x % BN;
        cp_async_4_zero_fill(shared_address(&Bs[k * BN + col]),
                             B + (size_t)(k0 + k) * N + col0 + col,
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
    deep_tile(const float *A, const float *B, float *C, int M, int N, int K, bool aligned_C)
{
    extern __shared__ __align__(16) float stages[];

    /* Tiles are numbered along x alone: gridDim.x goes up to 2^31 - 1, gridDim.y stops at 65535. */
    const int tiles_across = ceil_div(N, BN);
    const int row0 = blockIdx.x / tiles_across * BM;
    const int col0 = blockIdx.x % tiles_across * BN;

    /* Where this thread's first row and column are in the tile. */
    const int warp = threadIdx.x / 32;
    const int y = warp / WARPS_ACROSS * LANES_DOWN * TM + 4 * lane_y();
    const int x = warp % WARPS_ACROSS * LANES_ACROSS * TN + 4 * lane_x();

    float *const As = stages, *const Bs = stages + BK * PITCH_A;
    for (int stage = 0; stage < STAGES - 1; stage++)
        copy_tiles(&As[stage * STAGE], &Bs[stage * STAGE], A, B, row0, col0, stage * BK, M, N, K);

    float sum[TM][TN] = {};
    __align__(16) float a[2][TM], b[2][TN];
    /* All but the newest STAGES - 2 groups of this thread have arrived: the first has. */
    cp_async_wait<STAGES - 2>();
    /* every thread's copies of the first tile have arrived before any thread reads it */
    __syncthreads();
    read_operands(a[0], b[0], &As[y], &Bs[x]);

    int reading = 0, writing = (STAGES - 1) * STAGE;
    for (int k0 = 0; k0 < K; k0 += BK) {
        copy_tiles(&As[writing], &Bs[writing], A, B, row0, col0, k0 + (STAGES - 1) * BK, M, N, K);

#pragma unroll
        for (int k = 0; k < BK; k++) {
            if (k == BK - 1) {
                cp_async_wait<STAGES - 2>();
                /* Every thread's copies of the next tile have arrived before any thread reads it,
                   and all threads have read this tile: its stage is free for the next copies. */
                __syncthreads();
                writing = reading;
                reading = reading == (STAGES - 1) * STAGE ? 0 : reading + STAGE;
            }
            const int next_k = (k + 1) % BK;
            read_operands(a[(k + 1) % 2], b[(k + 1) % 2], &As[reading + next_k * PITCH_A + y],
                          &Bs[reading + next_k * BN + x]);
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

extern "C" cudaError_t matmul_deep_tile(const float *A, const float *B, float *C, int M, int N,
                                        int K, cudaStream_t stream)
{
    cudaError_t status =
        cudaFuncSetAttribute(deep_tile, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
    if (status != cudaSuccess)
        return status;
    deep_tile<<<ceil_div(M, BM) * ceil_div(N, BN), THREADS, SHARED_BYTES, stream>>>(
        A, B, C, M, N, K, rows_aligned(C, N));
    return cudaGetLastError();
}
