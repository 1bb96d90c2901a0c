/*
 * Idea: the tile that fills the processor, and nothing in the loop that could be settled before it.
 *
 *     C[row][col] = sum over k of A[row][k] * B[k][col]        A [M, K], B [K, N], C [M, N], row-major
 *
 * A block owns a BM x BN tile of C and walks along K in steps of BK. A warp owns a patch of 4·TM rows by 8·TN
 * columns of the tile, its lanes 4 down and 8 across; a thread owns TM rows by TN columns of the patch, in
 * runs of four neighbours: rows 4·lane_y .. 4·lane_y + 3 and the same again 16 further down, columns likewise
 * 32 apart. The tile of A is transposed on its way into shared memory, so that a run of four rows lies side
 * by side there too.
 *
 * What is new since 6_warp_tile:
 *   - Three shapes of tile, chosen by how evenly they load the multiprocessors: 256 x 128 with 16 x 8 sums a
 *     thread, and for small or long thin products 128 x 64 and 64 x 128 with 8 x 8. Where even those are too
 *     few, two blocks share a tile of C, take half of K each, and add to zeros (split-K): two terms have only
 *     one order to be added in.
 *   - The copies in the loop compare nothing. Tiles lie along K so that they end where K ends: the ragged one
 *     comes FIRST, before the loop. A row or column past an edge is replaced by one of the BM rows or BN
 *     columns before the edge, and what it yields is not stored. (Not always by the same: lanes that copy the
 *     same word wait in line.)
 *   - The copies are spread over the steps of a tile, so that they do not stand in the way of the reads.
 *
 * Cost: M·N·K·(1/BM + 1/BN) global loads of 4 bytes, with M and N rounded up to whole tiles in the part that
 * they contribute; M·N stores (a quarter of the instructions where rows are aligned to 16 bytes), with
 * split-K 2·M·N atomic additions instead. (TM + TN) / 4 shared loads per TM·TN multiply-adds.
 */
#include "02_step.h"
#include "ptx.cuh"
#include "tiles.cuh"
#include "vectors.cuh"

#include <math.h>

static const int BK = 16, STAGES = 4;
static const int TN = 8;
static const int LANES_DOWN = 4, LANES_ACROSS = 8;

/* A warp stores 8 neighbours in k by 4 rows of the transposed A; the padding puts all of them into different
 * banks. */
static const int PAD = 4;
static const int LANES_ALONG_K = 8;
static_assert(BK == 2 * LANES_ALONG_K, "a thread copies two elements of each of its rows of A's tile");

/* Copies that one thread issues per step; a tile's copies are all issued before its last step. */
static const int COPIES_PER_STEP = 2;

static constexpr __host__ __device__ int threads_of(int BM, int BN, int TM)
{
    return BM / TM * (BN / TN);
}

/* Floats of one stage: A's tile transposed, then B's. */
static constexpr __host__ __device__ int stage_of(int BM, int BN)
{
    return BK * (BM + PAD + BN);
}

static constexpr int shared_bytes_of(int BM, int BN)
{
    return STAGES * stage_of(BM, BN) * (int)sizeof(float);
}

/* solution: helpers of your own go here. */

/* Reads a thread's operands of one step: runs of four from As_k and Bs_k on. */
template <int TM>
static __device__ __forceinline__ void read_operands(float a[TM], float b[TN], const float *As_k,
                                                     const float *Bs_k)
{
    for (int i = 0; i < TM; i += 4)
        *(float4 *)&a[i] = *(const float4 *)&As_k[i * LANES_DOWN];
    for (int j = 0; j < TN; j += 4)
        *(float4 *)&b[j] = *(const float4 *)&Bs_k[j * LANES_ACROSS];
}

/* sum += a · bᵀ. Serpentine: every product but the first shares a factor with the one before it. */
template <int TM>
static __device__ __forceinline__ void multiply(float sum[TM][TN], const float a[TM], const float b[TN])
{
    for (int i = 0; i < TM; i++)
        for (int step = 0; step < TN; step++) {
            const int j = i % 2 == 0 ? step : TN - 1 - step;
            sum[i][j] += a[i] * b[j];
        }
}

/* end of solution */

template <int BM, int BN, int TM, int BLOCKS_PER_MULTIPROCESSOR>
__global__ void __launch_bounds__(threads_of(BM, BN, TM), BLOCKS_PER_MULTIPROCESSOR)
    sgemm(const float *A, const float *B, float *C, int M, int N, int K, int splits, bool aligned_C)
{
    /*
     * solution: the warp tile of the file before, with the copies spread over the steps of the
     * multiplication.
     */
    constexpr int THREADS = threads_of(BM, BN, TM), WARPS_ACROSS = BN / (LANES_ACROSS * TN);
    constexpr int PITCH_A = BM + PAD, STAGE = stage_of(BM, BN);
    constexpr int ROW_STEP = THREADS / LANES_ALONG_K,
                  ROWS = BM / ROW_STEP;                    /* of A's tile, copied by one thread */
    constexpr int K_STEP = THREADS / BN, KS = BK / K_STEP; /* of B's tile */
    static_assert(THREADS % BN == 0 && 2 * ROWS + KS <= COPIES_PER_STEP * (BK - 1),
                  "the copies fit their steps");
    extern __shared__ __align__(16) float stages[];

    /* Tiles are numbered along x alone: gridDim.x goes up to 2^31 - 1, gridDim.y stops at 65535. */
    const int tiles_across = ceil_div(N, BN);
    const int tile_of_C = blockIdx.x / splits, split = blockIdx.x % splits;
    const int row0 = tile_of_C / tiles_across * BM, col0 = tile_of_C % tiles_across * BN;

    /* Tiles along K, the last ending at K; this block's are first_tile .. end_tile - 1. */
    const int tiles = ceil_div(K, BK), missing = tiles * BK - K;
    const int first_tile = split * (tiles / splits), end_tile = split == splits - 1 ? tiles : tiles / splits;
    const ptrdiff_t first_k = (ptrdiff_t)first_tile * BK - missing;

    /* Rows 0 .. BM - 1 of the tile are these rows of A, in turn: when the tile is ragged, those past the edge
       wrap around to the BM rows that end there. Columns of B likewise. */
    const int wrap_row = max(min(row0, M - BM), 0), rows = min(M, BM);
    const int wrap_col = max(min(col0, N - BN), 0), cols = min(N, BN);

    /* What this thread copies: two elements each of ROWS rows of A, one element each of KS rows of B. */
    const int k_A = threadIdx.x % LANES_ALONG_K, row_A = threadIdx.x / LANES_ALONG_K;
    const int k_B = threadIdx.x / BN, col_B = threadIdx.x % BN;
    const float *from_A[ROWS];
    for (int i = 0; i < ROWS; i++) {
        const int row = wrap_row + (row0 - wrap_row + row_A + i * ROW_STEP) % rows;
        from_A[i] = A + (size_t)row * K + first_k + k_A;
    }
    const float *from_B = B + (first_k + k_B) * N + wrap_col + (col0 - wrap_col + col_B) % cols;
    const uint32_t to_A = shared_address(&stages[k_A * PITCH_A + row_A]);
    const uint32_t to_B = shared_address(&stages[BK * PITCH_A + k_B * BN + col_B]);

    /* The first STAGES - 1 tiles. Only the very first can be ragged: before K begins it holds zeros, which
       add nothing. So do tiles past the last, which nobody multiplies. */
    for (int stage = 0; stage < STAGES - 1; stage++) {
        const bool exists = first_tile + stage < end_tile;
        const int zeros = first_tile + stage == 0 ? missing : 0;
        for (int i = 0; i < 2 * ROWS; i++) {
            const int k = i % 2 * LANES_ALONG_K;
            cp_async_4_zero_fill(to_A + sizeof(float) * (stage * STAGE + k * PITCH_A + i / 2 * ROW_STEP),
                                 from_A[i / 2] + stage * BK + k,
                                 exists && k_A + k >= zeros ? sizeof(float) : 0);
        }
        for (int i = 0; i < KS; i++) {
            const int k = i * K_STEP;
            cp_async_4_zero_fill(to_B + sizeof(float) * (stage * STAGE + k * BN), from_B,
                                 exists && k_B + k >= zeros ? sizeof(float) : 0);
            from_B += (size_t)K_STEP * N;
        }
        cp_async_commit();
    }

    /*
     * Lane bits 0, 2 and 3 number the patch's columns, bits 1 and 4 its rows: a lane shares its address in
     * A's tile with lane ^ 1 and in B's tile with lane ^ 2, which lets shared memory serve a 16-byte read in
     * half the cycles.
     */
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int lane_y = (lane >> 1 & 1) | (lane >> 3 & 2), lane_x = (lane & 1) | (lane >> 1 & 6);
    const int y = warp / WARPS_ACROSS * LANES_DOWN * TM + 4 * lane_y;
    const int x = warp % WARPS_ACROSS * LANES_ACROSS * TN + 4 * lane_x;

    float sum[TM][TN] = {};
    __align__(16) float a[2][TM], b[2][TN];
    /* All but the newest STAGES - 2 groups of this thread have arrived: the first has. */
    cp_async_wait<STAGES - 2>();
    __syncthreads(); /* every thread's copies of the first tile have arrived before any thread reads it */
    read_operands<TM>(a[0], b[0], &stages[y], &stages[BK * PITCH_A + x]);

    int reading = 0, writing = (STAGES - 1) * STAGE;
    size_t k0 = (STAGES - 1) * BK; /* how far from_A is behind the tile being copied */
    for (int tile = first_tile; tile < end_tile; tile++) {
        const int bytes = tile + STAGES - 1 < end_tile ? sizeof(float) : 0;

#pragma unroll
        for (int k = 0; k < BK; k++) {
            if (k == BK - 1) {
                cp_async_commit();
                cp_async_wait<STAGES - 2>();
                /* Every thread's copies of the next tile have arrived before any thread reads it, and every
                   thread has read this tile: its stage is free for the copies issued next. */
                __syncthreads();
                writing = reading;
                reading = reading == (STAGES - 1) * STAGE ? 0 : reading + STAGE;
            }
            const int next_k = (k + 1) % BK;
            read_operands<TM>(a[(k + 1) % 2], b[(k + 1) % 2], &stages[reading + next_k * PITCH_A + y],
                              &stages[reading + BK * PITCH_A + next_k * BN + x]);

            /* This step's share of the next copies: A's come first, then B's. */
            for (int i = k * COPIES_PER_STEP; i < (k + 1) * COPIES_PER_STEP; i++) {
                const int k_half = i % 2 * LANES_ALONG_K, i_B = i - 2 * ROWS;
                if (i < 2 * ROWS) {
                    cp_async_4_zero_fill(to_A +
                                             sizeof(float) * (writing + k_half * PITCH_A + i / 2 * ROW_STEP),
                                         from_A[i / 2] + k0 + k_half, bytes);
                } else if (i_B < KS) {
                    cp_async_4_zero_fill(to_B + sizeof(float) * (writing + i_B * K_STEP * BN), from_B, bytes);
                    from_B += (size_t)K_STEP * N;
                }
            }

            multiply<TM>(sum, a[k % 2], b[k % 2]);
        }
        k0 += BK;
    }
    cp_async_wait<0>(); /* no copy is under way when the block's shared memory is given to another */

#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int row = row0 + y + i / 4 * 4 * LANES_DOWN + i % 4, col = col0 + x + j * LANES_ACROSS;
            if (splits == 1)
                store_4(C, row, col, M, N, aligned_C,
                        make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]));
            else
                for (int n = 0; n < 4; n++)
                    if (row < M && col + n < N)
                        atomicAdd(&C[(size_t)row * N + col + n], sum[i][j + n]);
        }
    /* end of solution */
}

struct tile_shape {
    void (*kernel)(const float *A, const float *B, float *C, int M, int N, int K, int splits, bool aligned_C);
    int BM, BN, threads, shared_bytes;
};

static const struct tile_shape LARGE = {sgemm<256, 128, 16, 1>, 256, 128, threads_of(256, 128, 16),
                                        shared_bytes_of(256, 128)};
static const struct tile_shape TALL = {sgemm<128, 64, 8, 3>, 128, 64, threads_of(128, 64, 8),
                                       shared_bytes_of(128, 64)};
static const struct tile_shape WIDE = {sgemm<64, 128, 8, 3>, 64, 128, threads_of(64, 128, 8),
                                       shared_bytes_of(64, 128)};

static int tiles_of_C(const struct tile_shape *shape, int M, int N)
{
    return ceil_div(M, shape->BM) * ceil_div(N, shape->BN);
}

/* Elements of C, those past an edge included, that fall to the multiprocessor with the most. */
static double heaviest_load(const struct tile_shape *shape, int M, int N, int multiprocessors)
{
    return (double)ceil_div(tiles_of_C(shape, M, N), multiprocessors) * shape->BM * shape->BN;
}

/*
 * LARGE reads shared memory least for its arithmetic; the others must lighten the heaviest load by an eighth
 * to make up for it. Of those two, the one whose load is lighter, or whose tiles are fewer.
 */
static const struct tile_shape *choose_shape(int M, int N, int multiprocessors, int shared_bytes)
{
    const double large = heaviest_load(&LARGE, M, N, multiprocessors);
    const double tall = heaviest_load(&TALL, M, N, multiprocessors);
    const double wide = heaviest_load(&WIDE, M, N, multiprocessors);

    if (shared_bytes >= LARGE.shared_bytes && large <= 8.0 / 7.0 * fmin(tall, wide))
        return &LARGE;
    return tall < wide || (tall == wide && tiles_of_C(&TALL, M, N) <= tiles_of_C(&WIDE, M, N)) ? &TALL
                                                                                               : &WIDE;
}

extern "C" cudaError_t matmul_sgemm(const float *A, const float *B, float *C, int M, int N, int K,
                                    cudaStream_t stream)
{
    cudaError_t status = matmul_check_arguments(A, B, C, M, N, K);
    if (status != cudaSuccess || M == 0 || N == 0)
        return status;

    int device, multiprocessors, shared_bytes;
    if ((status = cudaGetDevice(&device)) != cudaSuccess ||
        (status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device)) !=
            cudaSuccess ||
        (status = cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device)) !=
            cudaSuccess)
        return status;
    const struct tile_shape *shape = choose_shape(M, N, multiprocessors, shared_bytes);

    /* A single tile per multiprocessor leaves its schedulers a warp each, with nothing to do while that one
     * waits. */
    const int tiles = tiles_of_C(shape, M, N);
    const int splits = shape != &LARGE && tiles <= multiprocessors && K >= 4 * STAGES * BK ? 2 : 1;
    if (splits > 1 && (status = cudaMemsetAsync(C, 0, (size_t)M * N * sizeof *C, stream)) != cudaSuccess)
        return status;

    status =
        cudaFuncSetAttribute(shape->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shape->shared_bytes);
    if (status != cudaSuccess)
        return status;
    shape->kernel<<<tiles * splits, shape->threads, shape->shared_bytes, stream>>>(A, B, C, M, N, K, splits,
                                                                                   rows_aligned(C, N));
    return cudaGetLastError();
}
