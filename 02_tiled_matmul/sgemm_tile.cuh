/*
 * The tile of C that the last rungs compute.
 *
 * A group of warps owns a BM x BN tile of C and walks along K in tiles of BK. A warp owns a patch
 * of 4·TM rows by 8·TN columns of the tile, and its lanes share the patch as common/rectangles.cuh
 * says: a thread owns TM rows by TN columns of it, in runs of four neighbours. The tile of A is
 * transposed on its way into shared memory, so that a run of four rows lies side by side there too.
 */
#ifndef SGEMM_TILE_CUH
#define SGEMM_TILE_CUH

#include "02_step.h"
#include "device.h"
#include "ptx.cuh"
#include "rectangles.cuh"
#include "tiles.cuh"
#include "vectors.cuh"

static const int BK = 16, STAGES = 3;
static const int TM = 8;

/* A warp stores 8 neighbours in k by 4 rows of the transposed A; the padding puts all of them into
 * different banks. */
static const int PAD = 4;
static const int LANES_ALONG_K = 8;
static_assert(BK == 2 * LANES_ALONG_K,
              "a thread copies two elements of each of its rows of A's tile");

/* Copies that one thread issues per step; a tile's copies are all issued before its last step. */
static const int COPIES_PER_STEP = 2;

/* The threads of a group. */
static constexpr __host__ __device__ int threads_of(int BM, int BN, int TN)
{
    return BM / TM * (BN / TN);
}

/* Floats of one stage: A's tile transposed, then B's. */
static constexpr __host__ __device__ int stage_floats(int BM, int BN)
{
    return BK * (BM + PAD + BN);
}

/* Bytes of shared memory for a group's stages. */
static constexpr int shared_bytes_of(int BM, int BN)
{
    return STAGES * stage_floats(BM, BN) * (int)sizeof(float);
}

/*
 * Reads a thread's operands of one step: runs of four from As_k and Bs_k on. Multiply-adds of the
 * step before are to hide how long that takes, so the loads have to stay where they are.
 */
template <int TN>
static __device__ __forceinline__ void read_operands(float a[TM], float b[TN], const float *As_k,
                                                     const float *Bs_k)
{
    for (int i = 0; i < TM; i += 4)
        *(float4 *)&a[i] = volatile_load(&As_k[i * LANES_DOWN]);
    for (int j = 0; j < TN; j += 4)
        *(float4 *)&b[j] = volatile_load(&Bs_k[j * LANES_ACROSS]);
}

/*
 * sum += a · bᵀ, column by column, every other one upwards: each product shares a factor with the
 * one before it, and a factor that was just read need not be fetched from the registers again.
 */
template <int TN>
static __device__ __forceinline__ void multiply(float sum[TM][TN], const float a[TM],
                                                const float b[TN])
{
#pragma unroll
    for (int j = 0; j < TN; j++)
#pragma unroll
        for (int step = 0; step < TM; step++) {
            const int i = j % 2 == 0 ? step : TM - 1 - step;
            sum[i][j] += a[i] * b[j];
        }
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

/* How many tiles of BK cover K; the first is the ragged one. */
static inline __host__ __device__ int tiles_along(int K)
{
    return ceil_div(K, BK);
}

/* Where in its group's tile this thread's i-th row and j-th column are. */
template <int BM, int BN, int TN>
static __device__ __forceinline__ int tile_row(int i)
{
    const int warp = threadIdx.x % threads_of(BM, BN, TN) / 32;
    return warp / (BN / (LANES_ACROSS * TN)) * LANES_DOWN * TM +
           spread(i, TM, lane_y(), LANES_DOWN);
}

template <int BM, int BN, int TN>
static __device__ __forceinline__ int tile_col(int j)
{
    const int warp = threadIdx.x % threads_of(BM, BN, TN) / 32;
    return warp % (BN / (LANES_ACROSS * TN)) * LANES_ACROSS * TN +
           spread(j, TN, lane_x(), LANES_ACROSS);
}

/* A barrier for the threads of this thread's group. */
template <int GROUPS, int THREADS>
static __device__ __forceinline__ void group_barrier(void)
{
    if constexpr (GROUPS == 1)
        __syncthreads();
    else
        named_barrier_sync(1 + threadIdx.x / THREADS, THREADS);
}

/*
 * Adds to sum what tiles first_tile .. end_tile - 1 along K contribute to the tile of C at row0,
 * col0. Each of the block's GROUPS has sums and tiles along K of its own. B is copied WIDTH
 * elements at a time, 4 where its rows are aligned to 16 bytes. No copy is under way afterwards,
 * but other warps may still read `stages` (GROUPS times shared_bytes_of() bytes).
 */
template <int BM, int BN, int TN, int WIDTH, int GROUPS>
static __device__ __forceinline__ void
add_products(float sum[TM][TN], float *stages, const float *A, const float *B, int M, int N, int K,
             int row0, int col0, int first_tile, int end_tile)
{
    constexpr int THREADS = threads_of(BM, BN, TN);
    constexpr int PITCH_A = BM + PAD, STAGE = stage_floats(BM, BN);
    constexpr int ROW_STEP = THREADS / LANES_ALONG_K,
                  ROWS_A = BM / ROW_STEP; /* of A's tile, copied by one thread */
    constexpr int LANES_ALONG_N = BN / WIDTH;
    constexpr int K_STEP = THREADS / LANES_ALONG_N, ROWS_B = BK / K_STEP; /* of B's tile */
    static_assert(THREADS % LANES_ALONG_N == 0 && 2 * ROWS_A + ROWS_B <= COPIES_PER_STEP * (BK - 1),
                  "the copies fit their steps");
    const int thread = threadIdx.x % THREADS;
    stages += threadIdx.x / THREADS * STAGES * STAGE;

    /* The last tile along K ends where K does; the first begins `missing` elements before it. */
    const int missing = tiles_along(K) * BK - K;
    const ptrdiff_t first_k = (ptrdiff_t)first_tile * BK - missing;

    /* When the tile is ragged, rows past the edge of A are replaced by rows of A before it, each by
       another: the tile's rows are the BM rows that end at the edge, begun in the middle. Columns
       of B likewise. */
    const int wrap_row = max(min(row0, M - BM), 0), rows = min(M, BM);
    const int wrap_col = max(min(col0, N - BN), 0), cols = min(N, BN);

    /* What this thread copies: two elements each of ROWS_A rows of A, WIDTH elements each of ROWS_B
     * rows of B. */
    const int k_A = thread % LANES_ALONG_K, row_A = thread / LANES_ALONG_K;
    const int k_B = thread / LANES_ALONG_N, col_B = thread % LANES_ALONG_N * WIDTH;
    const float *from_A[ROWS_A];
    for (int i = 0; i < ROWS_A; i++) {
        const int row = wrap_row + (row0 - wrap_row + row_A + i * ROW_STEP) % rows;
        from_A[i] = A + (size_t)row * K + first_k + k_A;
    }
    const float *from_B = B + (first_k + k_B) * N + wrap_col + (col0 - wrap_col + col_B) % cols;
    const uint32_t to_A = shared_address(&stages[k_A * PITCH_A + row_A]);
    const uint32_t to_B = shared_address(&stages[BK * PITCH_A + k_B * BN + col_B]);

    /* The first STAGES - 1 tiles. Only the very first can be ragged: before K begins it holds
       zeros, which add nothing. So do tiles past the last, which nobody multiplies. */
    for (int stage = 0; stage < STAGES - 1; stage++) {
        const bool exists = first_tile + stage < end_tile;
        const int zeros = first_tile + stage == 0 ? missing : 0;
        for (int i = 0; i < 2 * ROWS_A; i++) {
            const int k = i % 2 * LANES_ALONG_K;
            copy_async<1>(to_A + sizeof(float) * (stage * STAGE + k * PITCH_A + i / 2 * ROW_STEP),
                          from_A[i / 2] + stage * BK + k, exists && k_A + k >= zeros);
        }
        for (int i = 0; i < ROWS_B; i++) {
            const int k = i * K_STEP;
            copy_async<WIDTH>(to_B + sizeof(float) * (stage * STAGE + k * BN), from_B,
                              exists && k_B + k >= zeros);
            from_B += (size_t)K_STEP * N;
        }
        cp_async_commit();
    }

    const int y = tile_row<BM, BN, TN>(0), x = tile_col<BM, BN, TN>(0);
    __align__(16) float a[2][TM], b[2][TN];
    /* All but the newest STAGES - 2 of this thread's groups of copies have arrived: the first
     * has. */
    cp_async_wait<STAGES - 2>();
    /* Every thread's copies of the first tile have arrived before any thread reads it. */
    group_barrier<GROUPS, THREADS>();
    read_operands<TN>(a[0], b[0], &stages[y], &stages[BK * PITCH_A + x]);

    int reading = 0, writing = (STAGES - 1) * STAGE;
    for (int i = 0; i < ROWS_A; i++)
        from_A[i] += (STAGES - 1) * BK;
    for (int tile = first_tile; tile < end_tile; tile++) {
        const bool exists = tile + STAGES - 1 < end_tile;

#pragma unroll
        for (int k = 0; k < BK; k++) {
            if (k == BK - 1) {
                cp_async_commit();
                cp_async_wait<STAGES - 2>();
                /* Every thread's copies of the next tile have arrived before any thread reads it,
                   and every thread has read this tile: its stage is free for the copies issued
                   next. */
                group_barrier<GROUPS, THREADS>();
                writing = reading;
                reading = reading == (STAGES - 1) * STAGE ? 0 : reading + STAGE;
            }
            const int next_k = (k + 1) % BK;
            read_operands<TN>(a[(k + 1) % 2], b[(k + 1) % 2],
                              &stages[reading + next_k * PITCH_A + y],
                              &stages[reading + BK * PITCH_A + next_k * BN + x]);

            /* This step's share of the next copies: A's come first, then B's. */
            for (int i = k * COPIES_PER_STEP; i < (k + 1) * COPIES_PER_STEP; i++) {
                const int k_half = i % 2 * LANES_ALONG_K, i_B = i - 2 * ROWS_A;
                if (i < 2 * ROWS_A) {
                    copy_async<1>(to_A + sizeof(float) *
                                             (writing + k_half * PITCH_A + i / 2 * ROW_STEP),
                                  from_A[i / 2] + k_half, exists);
                    if (k_half != 0) /* both copies of this row are issued */
                        from_A[i / 2] += BK;
                } else if (i_B < ROWS_B) {
                    copy_async<WIDTH>(to_B + sizeof(float) * (writing + i_B * K_STEP * BN), from_B,
                                      exists);
                    from_B += (size_t)K_STEP * N;
                }
            }

            multiply<TN>(sum, a[k % 2], b[k % 2]);
        }
    }
    /* no copy is under way when the block's shared memory is given to another */
    cp_async_wait<0>();
}

/* Stores this thread's sums of the tile at row0, col0, as far as they lie inside of C. */
template <int BM, int BN, int TN>
static __device__ __forceinline__ void store_tile(float *C, const float sum[TM][TN], int row0,
                                                  int col0, int M, int N, bool aligned_C)
{
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j += 4)
            store_4(C, row0 + tile_row<BM, BN, TN>(i), col0 + tile_col<BM, BN, TN>(j), M, N,
                    aligned_C, make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]));
}

/* A shape of tile, and what a group of warps needs for it. */
struct tile_shape {
    int BM, BN, threads, shared_bytes;
};

static const struct tile_shape LARGE = {128, 256, threads_of(128, 256, 16),
                                        shared_bytes_of(128, 256)};
static const struct tile_shape TALL = {128, 64, threads_of(128, 64, 8), shared_bytes_of(128, 64)};
static const struct tile_shape WIDE = {64, 128, threads_of(64, 128, 8), shared_bytes_of(64, 128)};

/* The time that LARGE takes for as many multiply-adds as the others, measured on an H200: it reads
 * shared memory less often for its arithmetic. */
static const double LARGE_TIME = 0.93;

static inline int tiles_of_C(const struct tile_shape *shape, int M, int N)
{
    return ceil_div(M, shape->BM) * ceil_div(N, shape->BN);
}

/* Of each tile all rows of A and columns of B are loaded, those past an edge from before it. */
static inline struct cost cost_of_tiles(const struct tile_shape *shape, int M, int N, int K)
{
    const long long tiles = tiles_of_C(shape, M, N), outputs = (long long)M * N;
    const int width = N % 4 == 0 ? 4 : 1;
    return {tiles * (shape->BM + shape->BN / width) * K, outputs / width,
            4 * tiles * (shape->BM + shape->BN) * K, 4 * outputs};
}

/* What the choice of a tile depends on, of the current device. */
struct limits {
    int multiprocessors, shared_bytes;
};

static inline cudaError_t device_limits(struct limits *limits)
{
    const cudaError_t status =
        device_attribute(cudaDevAttrMultiProcessorCount, &limits->multiprocessors);
    return status == cudaSuccess
               ? device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &limits->shared_bytes)
               : status;
}

#endif
