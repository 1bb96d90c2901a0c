// needs: sm_90
/*
 * Idea: where tiles are too few for the processors, a CLUSTER of blocks shares one.
 *
 *     C[row][col] = sum over k of A[row][k] * B[k][col]     A [M, K], B [K, N], C [M, N], row-major
 *
 * K is divided into shares, in two ways. The blocks of a cluster compute the same tile of C
 * (split-K); and a block may have two groups of warps (sliced-K), so that one can multiply while
 * the other waits. Each group computes the whole tile over its share of K. Then it pushes its sums
 * to where they are needed: a group stores an equal part of the tile, and gets every group's sums
 * of that part into its inbox in shared memory. Nothing is added in global memory and the order of
 * the terms is always the same, so the result is, too.
 *
 * What a group does until then is sgemm's. Products with tiles enough are computed as sgemm does,
 * by clusters of one block of one group.
 *
 * Cost: as sgemm; and where there are several shares, per tile shares · BM · BN · 4 bytes into
 * shared memory, 1 - 1/blocks of them of another multiprocessor, and two barriers of the cluster.
 * The stores of C are of neighbours, whatever its alignment.
 */
#include "02_step.h"
#include "backend.h"
#include "clusters.cuh"
#include "ptx.cuh"
#include "rectangles.cuh"
#include "refusal.h"
#include "tiles.cuh"
#include "vectors.cuh"

static const int BK = 16, STAGES = 3, TM = 8;

/* A warp stores 8 neighbours in k by 4 rows of the transposed A; the padding puts all of them into
 * different banks. */
static const int PAD = 4;
static const int LANES_ALONG_K = 8;
static_assert(BK == 2 * LANES_ALONG_K,
              "a thread copies two elements of each of its rows of A's tile");

/* Copies that one thread issues per step; a tile's copies are all issued before its last step. */
static const int COPIES_PER_STEP = 2;

/* Copies WIDTH neighbouring elements, or zeros. */
template <int WIDTH>
static __device__ __forceinline__ void copy_async(uint32_t to, const float *from, bool exists)
{
    if constexpr (WIDTH == 4)
        cp_async_16_zero_fill(to, from, exists ? sizeof(float4) : 0);
    else
        cp_async_4_zero_fill(to, from, exists ? sizeof(float) : 0);
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

/* Room for what a group is sent: the sums of its part of the tile from every share. Not the memory
 * of the stages: who has finished may send while others still read theirs. */
static constexpr __host__ __device__ int inbox_floats(int BM, int BN)
{
    return BM * BN;
}

/*
 * Adds up the shares' sums and stores the tile at row0, col0, this thread's group its part of it.
 * `inboxes` is an inbox_floats() of shared memory for each of the block's groups; every thread has
 * arrived at the cluster's barrier once.
 */
template <int BM, int BN, int TN, int BLOCKS, int GROUPS>
static __device__ __forceinline__ void add_and_store(const float sum[TM][TN], float *inboxes,
                                                     int share, float *C, int M, int N, int row0,
                                                     int col0, int y, int x, bool aligned_C)
{
    constexpr int THREADS = BM / TM * (BN / TN), SHARES = BLOCKS * GROUPS;
    constexpr int PART = BM / SHARES * BN; /* elements of C, whole rows of the tile */

    cluster_wait(); /* all blocks have begun: what lies at their inboxes' addresses is theirs */
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int row = y + i / 4 * 4 * LANES_DOWN + i % 4, col = x + j * LANES_ACROSS;
            const int element = row * BN + col, owner = element / PART;
            float *const to =
                &inboxes[owner % GROUPS * inbox_floats(BM, BN) + share * PART + element % PART];
            const float4 term = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            cluster_store(cluster_address(shared_address(to), owner / GROUPS), term);
        }
    /* Everything that was sent has arrived, and no block sends to one that has ended. */
    cluster_arrive();
    cluster_wait();

    const float *const inbox = &inboxes[share % GROUPS * inbox_floats(BM, BN)];
    const int width = aligned_C ? 4 : 1; /* a warp stores neighbours, whatever the alignment */
    for (int n = threadIdx.x % THREADS * width; n < PART; n += THREADS * width) {
        const int row = row0 + (share * PART + n) / BN, col = col0 + n % BN;
        if (row >= M || col >= N)
            continue;
        float *const to = &C[(size_t)row * N + col];
        if (aligned_C) {
            float4 total = *(const float4 *)&inbox[n];
            for (int other = 1; other < SHARES; other++) {
                const float4 term = *(const float4 *)&inbox[other * PART + n];
                total = make_float4(total.x + term.x, total.y + term.y, total.z + term.z,
                                    total.w + term.w);
            }
            *(float4 *)to = total;
        } else {
            float total = inbox[n];
            for (int other = 1; other < SHARES; other++)
                total += inbox[other * PART + n];
            *to = total;
        }
    }
}

template <int BM, int BN, int TN, int WIDTH, int BLOCKS_PER_MULTIPROCESSOR, int BLOCKS, int GROUPS>
__global__ void __launch_bounds__(BM / TM * (BN / TN) * GROUPS, BLOCKS_PER_MULTIPROCESSOR)
    sgemm_cluster(const float *A, const float *B, float *C, int M, int N, int K, bool aligned_C)
{
    extern __shared__ __align__(16) float stages[];
    constexpr int THREADS = BM / TM * (BN / TN), WARPS_ACROSS = BN / (LANES_ACROSS * TN);
    constexpr int PITCH_A = BM + PAD, STAGE = BK * (PITCH_A + BN);
    constexpr int ROW_STEP = THREADS / LANES_ALONG_K, ROWS_A = BM / ROW_STEP;
    constexpr int LANES_ALONG_N = BN / WIDTH;
    constexpr int K_STEP = THREADS / LANES_ALONG_N, ROWS_B = BK / K_STEP;
    static_assert(THREADS % LANES_ALONG_N == 0, "a thread copies from one column of B's tile");
    static_assert(2 * ROWS_A + ROWS_B <= COPIES_PER_STEP * (BK - 1), "the copies fit their steps");

    constexpr int SHARES = BLOCKS * GROUPS;
    static_assert(BM % SHARES == 0, "every group stores as many rows");
    if constexpr (SHARES > 1)
        cluster_arrive_relaxed(); /* this block has begun: the others may send to its inboxes */

    /* Tiles are numbered along x alone: gridDim.x goes up to 2^31 - 1, gridDim.y stops at 65535. */
    const int tiles_across = ceil_div(N, BN);
    const int row0 = blockIdx.x / BLOCKS / tiles_across * BM;
    const int col0 = blockIdx.x / BLOCKS % tiles_across * BN;

    /* This thread's group, its place in it, and the group's share of the tiles along K. */
    const int group = threadIdx.x / THREADS, thread = threadIdx.x % THREADS;
    const int share = blockIdx.x % BLOCKS * GROUPS + group;
    const long long tiles = ceil_div(K, BK);
    const int first_tile = (int)(tiles * share / SHARES),
              end_tile = (int)(tiles * (share + 1) / SHARES);

    /* Where this thread's first row and column are in the tile. */
    const int warp = thread / 32;
    const int y = warp / WARPS_ACROSS * LANES_DOWN * TM + 4 * lane_y();
    const int x = warp % WARPS_ACROSS * LANES_ACROSS * TN + 4 * lane_x();

    float *const As = stages + group * STAGES * STAGE, *const Bs = As + BK * PITCH_A;
    /* The last tile along K ends where K does; the first begins `missing` elements before it. */
    const int missing = ceil_div(K, BK) * BK - K;
    const ptrdiff_t first_k = (ptrdiff_t)first_tile * BK - missing;

    /* When the tile is ragged, its rows are the BM rows that end at the edge of A, begun in the
       middle. Columns of B likewise. */
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
            copy(i, stage * STAGE, stage, first_tile + stage < end_tile,
                 first_tile + stage == 0 ? missing : 0);
        cp_async_commit();
    }

    float sum[TM][TN] = {};
    __align__(16) float a[2][TM], b[2][TN];
    /* Reads the operands of one step: runs of four, from row y and column x on. Multiply-adds of
       the step before are to hide how long that takes, so the loads have to stay where they are. */
    const auto read_operands = [&](int stage, int k) {
        for (int i = 0; i < TM; i += 4)
            *(float4 *)&a[k % 2][i] = volatile_load(&As[stage + k * PITCH_A + y + i * LANES_DOWN]);
        for (int j = 0; j < TN; j += 4)
            *(float4 *)&b[k % 2][j] = volatile_load(&Bs[stage + k * BN + x + j * LANES_ACROSS]);
    };

    /* All but the newest STAGES - 2 groups of this thread have arrived: the first has. */
    cp_async_wait<STAGES - 2>();
    /* every thread's copies of the first tile have arrived before any thread reads it */
    group_barrier<GROUPS, THREADS>();
    read_operands(0, 0);

    int reading = 0, writing = (STAGES - 1) * STAGE;
    for (int tile = first_tile; tile < end_tile; tile++) {
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
            read_operands(reading, (k + 1) % BK);
            /* This step's share of the next copies. */
            for (int i = k * COPIES_PER_STEP; i < (k + 1) * COPIES_PER_STEP; i++)
                copy(i, writing, STAGES - 1, tile + STAGES - 1 < end_tile, 0);

            /* Column by column, every other one upwards: each product shares a factor with the one
               before it, and a factor that was just read need not be fetched again. */
            for (int j = 0; j < TN; j++)
                for (int step = 0; step < TM; step++) {
                    const int i = j % 2 == 0 ? step : TM - 1 - step;
                    sum[i][j] += a[k % 2][i] * b[k % 2][j];
                }
        }
    }
    /* no copy is under way when the block's shared memory is given to another */
    cp_async_wait<0>();

    if constexpr (SHARES == 1) {
        for (int i = 0; i < TM; i++)
            for (int j = 0; j < TN; j += 4) {
                const int row = row0 + y + i / 4 * 4 * LANES_DOWN + i % 4,
                          col = col0 + x + j * LANES_ACROSS;
                store_4(C, row, col, M, N, aligned_C,
                        make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]));
            }
    } else {
        add_and_store<BM, BN, TN, BLOCKS, GROUPS>(sum, stages + GROUPS * STAGES * STAGE, share, C,
                                                  M, N, row0, col0, y, x, aligned_C);
    }
}

/* A shape of tile, and what a group of warps needs for it. */
struct tile_shape {
    int BM, BN, threads, shared_bytes;
};

template <int BM, int BN, int TN>
static struct tile_shape shape_of(void)
{
    return {BM, BN, BM / TM * (BN / TN), STAGES * BK * (BM + PAD + BN) * (int)sizeof(float)};
}

static const struct tile_shape LARGE = shape_of<128, 256, 16>(), WIDE = shape_of<64, 128, 8>(),
                               TALL = shape_of<128, 64, 8>();

static long long tiles_of_C(const struct tile_shape *shape, int M, int N)
{
    return (long long)ceil_div(M, shape->BM) * ceil_div(N, shape->BN);
}

typedef void cluster_kernel(const float *A, const float *B, float *C, int M, int N, int K,
                            bool aligned_C);

static const struct choice {
    const struct tile_shape *shape;
    int blocks, groups; /* of a cluster, of a block */
    /* for any B, and for one whose rows are aligned to 16 bytes */
    cluster_kernel *kernel, *aligned_B;
} choices[] = {
    {&LARGE, 1, 1, sgemm_cluster<128, 256, 16, 1, 1, 1, 1>,
     sgemm_cluster<128, 256, 16, 4, 1, 1, 1>},
    {&WIDE, 1, 1, sgemm_cluster<64, 128, 8, 1, 3, 1, 1>, sgemm_cluster<64, 128, 8, 4, 3, 1, 1>},
    {&WIDE, 2, 1, sgemm_cluster<64, 128, 8, 1, 3, 2, 1>, sgemm_cluster<64, 128, 8, 4, 3, 2, 1>},
    {&WIDE, 8, 1, sgemm_cluster<64, 128, 8, 1, 3, 8, 1>, sgemm_cluster<64, 128, 8, 4, 3, 8, 1>},
    {&WIDE, 1, 2, sgemm_cluster<64, 128, 8, 1, 1, 1, 2>, sgemm_cluster<64, 128, 8, 4, 1, 1, 2>},
    {&WIDE, 2, 2, sgemm_cluster<64, 128, 8, 1, 1, 2, 2>, sgemm_cluster<64, 128, 8, 4, 1, 2, 2>},
    {&TALL, 1, 1, sgemm_cluster<128, 64, 8, 1, 3, 1, 1>, sgemm_cluster<128, 64, 8, 4, 3, 1, 1>},
    {&TALL, 2, 1, sgemm_cluster<128, 64, 8, 1, 3, 2, 1>, sgemm_cluster<128, 64, 8, 4, 3, 2, 1>},
    {&TALL, 8, 1, sgemm_cluster<128, 64, 8, 1, 3, 8, 1>, sgemm_cluster<128, 64, 8, 4, 3, 8, 1>},
    {&TALL, 1, 2, sgemm_cluster<128, 64, 8, 1, 1, 1, 2>, sgemm_cluster<128, 64, 8, 4, 1, 1, 2>},
    {&TALL, 2, 2, sgemm_cluster<128, 64, 8, 1, 1, 2, 2>, sgemm_cluster<128, 64, 8, 4, 1, 2, 2>},
};

static int shared_bytes_of_choice(const struct choice *choice)
{
    const struct tile_shape *shape = choice->shape;
    const int inbox = choice->blocks * choice->groups == 1 ? 0 : inbox_floats(shape->BM, shape->BN);
    return choice->groups * (shape->shared_bytes + inbox * (int)sizeof(float));
}

/* What an H200 took, of what the arithmetic alone would say: */
/* the large tile reads shared memory less often for its arithmetic */
static const double LARGE_TIME = 0.93;
/* one block on a multiprocessor, and its warps fill it */
static const double TWO_GROUPS_TIME = 0.97;
static const double ONE_GROUP_TIME = 1.08; /* one block, and no other multiplies while it waits */
/* blocks of two groups, which come one after the other */
static const double SEQUENCE_TIME = 1.08;
/* clusters of more than two, whose blocks are spread unevenly */
static const double MANY_BLOCKS_TIME = 1.3;

/* How long the busiest multiprocessor works, in arbitrary units: its blocks, times a block's
 * multiply-adds. */
static double expected_time(const struct choice *choice, int M, int N, int multiprocessors)
{
    const long long blocks = tiles_of_C(choice->shape, M, N) * choice->blocks;
    const double busiest = (double)((blocks + multiprocessors - 1) / multiprocessors);
    const double work = busiest * choice->shape->BM * choice->shape->BN / choice->blocks;
    if (choice->shape == &LARGE)
        return work * LARGE_TIME;
    if (choice->groups > 1)
        return work * (busiest == 1.0 ? TWO_GROUPS_TIME : SEQUENCE_TIME);
    return work * (choice->blocks > 2 ? MANY_BLOCKS_TIME : 1.0) *
           (busiest == 1.0 ? ONE_GROUP_TIME : 1.0);
}

/* What the choice of a tile depends on, of the current device. */
struct limits {
    int multiprocessors, shared_bytes;
};

static cudaError_t device_limits(struct limits *limits)
{
    int device;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&limits->multiprocessors, cudaDevAttrMultiProcessorCount,
                                        device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&limits->shared_bytes,
                                        cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return status;
}

/* The quickest, and of equally quick ones that with the fewest tiles. */
static const struct choice *choose(int M, int N, int K, const struct limits *limits)
{
    const struct choice *best = NULL;
    double best_time = 0.0;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const int shares = choices[i].blocks * choices[i].groups;
        /* A share shorter than that would be spent on filling the stages. */
        const bool too_short = shares > 1 && ceil_div(K, BK) < shares * STAGES / 2;
        if (shared_bytes_of_choice(&choices[i]) > limits->shared_bytes || too_short)
            continue;
        const double time = expected_time(&choices[i], M, N, limits->multiprocessors);
        if (best == NULL || time < best_time ||
            (time == best_time &&
             tiles_of_C(choices[i].shape, M, N) < tiles_of_C(best->shape, M, N))) {
            best = &choices[i];
            best_time = time;
        }
    }
    return best;
}

extern "C" struct cost matmul_sgemm_cluster_cost(const struct matmul_kernel *row, int M, int N,
                                                 int K)
{
    struct limits limits;
    if (backend_architecture() < 90)
        return matmul_sgemm_cost(row, M, N, K);
    if (device_limits(&limits) != cudaSuccess)
        return {};
    struct matmul_kernel chosen = *row;
    const struct tile_shape *shape = choose(M, N, K, &limits)->shape;
    chosen.BM = shape->BM;
    chosen.BN = shape->BN;
    return matmul_whole_tiles_cost(&chosen, M, N, K);
}

extern "C" cudaError_t matmul_sgemm_cluster(const float *A, const float *B, float *C, int M, int N,
                                            int K, cudaStream_t stream)
{
    if (backend_architecture() < 90)
        return matmul_sgemm(A, B, C, M, N, K, stream);

    struct limits limits;
    cudaError_t status = device_limits(&limits);
    if (status != cudaSuccess)
        return status;
    const struct choice *choice = choose(M, N, K, &limits);
    const size_t blocks = (size_t)tiles_of_C(choice->shape, M, N) * choice->blocks;
    if ((status = require_blocks(blocks)) != cudaSuccess)
        return status;
    cluster_kernel *const kernel = rows_aligned(B, N) ? choice->aligned_B : choice->kernel;

    const int shared_bytes = shared_bytes_of_choice(choice);
    status =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (status != cudaSuccess)
        return status;

    return launch_in_clusters(choice->blocks, (unsigned int)blocks,
                              choice->shape->threads * choice->groups, shared_bytes, stream, kernel,
                              A, B, C, M, N, K, rows_aligned(C, N));
}
