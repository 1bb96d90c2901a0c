// needs: sm_80
/*
 * Idea: twice as many sums per thread, so that each operand that is read serves more of them; and
 * B, which needs no transposing, is copied 16 bytes at a time.
 *
 *     C[row][col] = sum over k of A[row][k] * B[k][col]     A [M, K], B [K, N], C [M, N], row-major
 *
 * A block owns a BM x BN tile of C and walks along K in steps of BK. A warp owns a patch of 4·TM
 * rows by 8·TN columns of the tile, its lanes 4 down and 8 across; a thread owns TM rows by TN
 * columns of the patch, in runs of four neighbours: rows 4·lane_y .. 4·lane_y + 3 and the same
 * again 16 further down, columns likewise 32 apart. The tile of A is transposed on its way into
 * shared memory, so that a run of four rows lies side by side there too.
 *
 * Tiles lie along K so that they end where K ends: the ragged one comes first. Rows and columns
 * past an edge are replaced by others before it, and the sums of the replacements are not stored.
 *
 * A thread's sums take TM·TN = 128 registers, so a multiprocessor has room for one block. The tile
 * is wide, not tall: the copies of A are of single elements, those of B of four.
 *
 * Cost: M·N·K·(1/BM + 1/BN) global loads of 4 bytes, with M and N rounded up to whole tiles; B's
 * are a quarter as many where its rows are aligned to 16 bytes, and so are the M·N stores where C's
 * are. (TM + TN) / 4 shared loads per TM·TN multiply-adds.
 */
#include "02_tiled_matmul/02_step.h"
#include <ptx.cuh>
#include "device/rectangles.cuh"
#include "device/tiles.cuh"
#include "device/vectors.cuh"

static const int BM = 128, BN = 256, BK = 16, STAGES = 3;
static const int TM = 8, TN = 16;
static const int THREADS = BM / TM * (BN / TN);

/* A warp stores 8 neighbours in k by 4 rows of the transposed A; the padding puts all of them into
 * different banks. */
static const int PAD = 4;
static const int LANES_ALONG_K = 8;
static_assert(BK == 2 * LANES_ALONG_K,
              "a thread copies two elements of each of its rows of A's tile");

/* STAGES times A's tile transposed, then B's. */
static const int SHARED_BYTES = STAGES * BK * (BM + PAD + BN) * (int)sizeof(float);

/* Reads a thread's operands of one step: runs of four, from As_k and Bs_k on. */
static __device__ void read_operands(float a[TM], float b[TN], const float *As_k, const float *Bs_k)
{
    for (int i = 0; i < TM; i += 4)
        *(float4 *)&a[i] = *(const float4 *)&As_k[i * LANES_DOWN];
    for (int j = 0; j < TN; j += 4)
        *(float4 *)&b[j] = *(const float4 *)&Bs_k[j * LANES_ACROSS];
}

/* Copies WIDTH neighbouring elements, or zeros. */
template <int WIDTH>
static __device__ __forceinline__ void copy_async(uint32_t to, const float *from, bool exists)
{
    if constexpr (WIDTH == 4)
        cp_async_16_zero_fill(to, from, exists ? sizeof(float4) : 0);
    else
        cp_async_4_zero_fill(to, from, exists ? sizeof(float) : 0);
}

template <int WIDTH>
__global__ void __launch_bounds__(THREADS)
    wide_tile(const float *A, const float *B, float *C, int M, int N, int K, bool aligned_C)
{
    extern __shared__ __align__(16) float stages[];
    constexpr int WARPS_ACROSS = BN / (LANES_ACROSS * TN);
    constexpr int PITCH_A = BM + PAD, STAGE = BK * (PITCH_A + BN);
    constexpr int ROW_STEP = THREADS / LANES_ALONG_K, ROWS_A = BM / ROW_STEP;
    constexpr int LANES_ALONG_N = BN / WIDTH;
    constexpr int K_STEP = THREADS / LANES_ALONG_N, ROWS_B = BK / K_STEP;
    static_assert(THREADS % LANES_ALONG_N == 0, "a thread copies from one column of B's tile");

    /* Tiles are numbered along x alone: gridDim.x goes up to 2^31 - 1, gridDim.y stops at 65535. */
    const int tiles_across = ceil_div(N, BN);
    const int row0 = blockIdx.x / tiles_across * BM;
    const int col0 = blockIdx.x % tiles_across * BN;

    /* Where this thread's first row and column are in the tile. */
    const int warp = threadIdx.x / 32;
    const int y = warp / WARPS_ACROSS * LANES_DOWN * TM + 4 * lane_y();
    const int x = warp % WARPS_ACROSS * LANES_ACROSS * TN + 4 * lane_x();

    float *const As = stages, *const Bs = stages + BK * PITCH_A;
    /* The last tile along K ends where K does; the first begins `missing` elements before it. */
    const int tiles = ceil_div(K, BK), missing = tiles * BK - K;

    /* When the tile is ragged, its rows are the BM rows that end at the edge of A, begun in the
       middle. Columns of B likewise. */
    const int wrap_row = max(min(row0, M - BM), 0), rows = min(M, BM);
    const int wrap_col = max(min(col0, N - BN), 0), cols = min(N, BN);

    /* This thread copies 2 elements each of ROWS_A rows of A, WIDTH each of ROWS_B rows of B. */
    const int k_A = threadIdx.x % LANES_ALONG_K, row_A = threadIdx.x / LANES_ALONG_K;
    const int k_B = threadIdx.x / LANES_ALONG_N, col_B = threadIdx.x % LANES_ALONG_N * WIDTH;
    const float *from_A[ROWS_A];
    for (int i = 0; i < ROWS_A; i++) {
        const int row = wrap_row + (row0 - wrap_row + row_A + i * ROW_STEP) % rows;
        from_A[i] = A + (size_t)row * K - missing + k_A;
    }
    const float *from_B =
        B + (ptrdiff_t)(k_B - missing) * N + wrap_col + (col0 - wrap_col + col_B) % cols;
    const uint32_t to_A = shared_address(&As[k_A * PITCH_A + row_A]);
    const uint32_t to_B = shared_address(&Bs[k_B * BN + col_B]);

    /* Issues copy i, A's before B's, of the tile that comes `ahead` tiles after the one being
       multiplied; zeros where it does not exist, and for its first `zeros` elements along K. A
       pointer to A moves on by a tile with its second copy in the loop, that to B with each copy.
     */
    const auto copy = [&](int i, int stage, int ahead, bool exists, int zeros) {
        if (i < 2 * ROWS_A) {
            const int k = i % 2 * LANES_ALONG_K;
            cp_async_4_zero_fill(to_A + sizeof(float) * (stage + k * PITCH_A + i / 2 * ROW_STEP),
                                 from_A[i / 2] + ahead * BK + k,
                                 exists && k_A + k >= zeros ? sizeof(float) : 0);
            if (k != 0 && ahead == STAGES - 1)
                from_A[i / 2] += BK;
        } else if (i < 2 * ROWS_A + ROWS_B) {
            const int k = (i - 2 * ROWS_A) * K_STEP;
            copy_async<WIDTH>(to_B + sizeof(float) * (stage + k * BN), from_B,
                              exists && k_B + k >= zeros);
            from_B += (size_t)K_STEP * N;
        }
    };

    for (int stage = 0; stage < STAGES - 1; stage++) {
#pragma unroll
        for (int i = 0; i < 2 * ROWS_A + ROWS_B; i++)
            copy(i, stage * STAGE, stage, stage < tiles, stage == 0 ? missing : 0);
        cp_async_commit();
    }

    float sum[TM][TN] = {};
    __align__(16) float a[2][TM], b[2][TN];
    /* All but the newest STAGES - 2 groups of this thread have arrived: the first has. */
    cp_async_wait<STAGES - 2>();
    /* every thread's copies of the first tile have arrived before any thread reads it */
    __syncthreads();
    read_operands(a[0], b[0], &As[y], &Bs[x]);

    int reading = 0, writing = (STAGES - 1) * STAGE;
    for (int tile = 0; tile < tiles; tile++) {
#pragma unroll
        for (int i = 0; i < 2 * ROWS_A + ROWS_B; i++)
            copy(i, writing, STAGES - 1, tile + STAGES - 1 < tiles, 0);
        cp_async_commit();

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

typedef void wide_tile_kernel(const float *A, const float *B, float *C, int M, int N, int K,
                              bool aligned_C);

extern "C" cudaError_t matmul_wide_tile(const float *A, const float *B, float *C, int M, int N,
                                        int K, cudaStream_t stream)
{
    wide_tile_kernel *const kernel = rows_aligned(B, N) ? wide_tile<4> : wide_tile<1>;
    cudaError_t status =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
    if (status != cudaSuccess)
        return status;
    kernel<<<ceil_div(M, BM) * ceil_div(N, BN), THREADS, SHARED_BYTES, stream>>>(
        A, B, C, M, N, K, rows_aligned(C, N));
    return cudaGetLastError();
}
