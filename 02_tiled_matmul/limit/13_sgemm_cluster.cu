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
 * by clusters of one block of one group; and where large tiles would reach past the edges of C, a
 * second launch computes what whole ones leave, in smaller tiles.
 *
 * Cost: as sgemm; and where there are several shares, per tile shares · BM · BN · 4 bytes into
 * shared memory, 1 - 1/blocks of them of another multiprocessor, and two barriers of the cluster.
 * The stores of C are of neighbours, whatever its alignment.
 */
#include "02_tiled_matmul/02_step.h"
#include "13_sgemm_cluster.h"
#include "device/clusters.cuh"
#include <ptx.cuh>
#include "device/device.h"
#include "device/rectangles.cuh"
#include "harness/refusal.h"
#include "device/vectors.cuh"

static const int BK = SGEMM_BK, STAGES = SGEMM_STAGES;

/* A warp stores 8 neighbours in k by 4 rows of the transposed A; the padding puts all of them into
 * different banks. */
static const int PAD = SGEMM_PAD;
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

/* After how many copies a thread is back at its first column of B's tile: it copies element
 * `thread`, then one `threads` further each time, in rows of `lanes`. */
static constexpr __host__ __device__ int columns_of_thread(int threads, int lanes, int copies = 1)
{
    return copies * threads % lanes == 0 ? copies : columns_of_thread(threads, lanes, copies + 1);
}

/* Reads a thread's COUNT elements of a row of a tile, in runs of four or two, `lanes` runs apart.
 * Multiply-adds of the step before are to hide the latency, so the loads have to stay in place. */
template <int COUNT>
static __device__ __forceinline__ void read_runs(float *to, const float *from, int lanes)
{
    for (int i = 0; i < COUNT; i += run_of(COUNT))
        if constexpr (run_of(COUNT) == 4)
            *(float4 *)&to[i] = volatile_load(&from[i * lanes]);
        else
            *(float2 *)&to[i] = volatile_load_2(&from[i * lanes]);
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
template <int BM, int BN, int TM, int TN, int BLOCKS, int GROUPS>
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
        for (int j = 0; j < TN; j += run_of(TN)) {
            const int element =
                (y + spread(i, TM, 0, LANES_DOWN)) * BN + x + spread(j, TN, 0, LANES_ACROSS);
            const int owner = element / PART;
            float *const inbox =
                &inboxes[owner % GROUPS * inbox_floats(BM, BN) + share * PART + element % PART];
            const uint32_t to = cluster_address(shared_address(inbox), owner / GROUPS);
            const float *const term = &sum[i][j];
            if constexpr (run_of(TN) == 4)
                cluster_store(to, make_float4(term[0], term[1], term[2], term[3]));
            else
                cluster_store(to, make_float2(term[0], term[1]));
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

template <int BM, int BN, int TM, int TN, int WIDTH, int BLOCKS_PER_MULTIPROCESSOR, int BLOCKS,
          int GROUPS>
__global__ void __launch_bounds__(BM / TM * (BN / TN) * GROUPS, BLOCKS_PER_MULTIPROCESSOR)
    sgemm_cluster(const float *A, const float *B, float *C, int M, int N, int K, bool aligned_C,
                  struct region region)
{
    extern __shared__ __align__(16) float stages[];
    constexpr int THREADS = BM / TM * (BN / TN), WARPS_ACROSS = BN / (LANES_ACROSS * TN);
    constexpr int PITCH_A = BM + PAD, STAGE = BK * (PITCH_A + BN);
    constexpr int ROW_STEP = THREADS / LANES_ALONG_K, ROWS_A = BM / ROW_STEP;
    constexpr int LANES_ALONG_N = BN / WIDTH;
    constexpr int COLUMNS_B = columns_of_thread(THREADS, LANES_ALONG_N);
    constexpr int K_STEP = COLUMNS_B * THREADS / LANES_ALONG_N;
    constexpr int COPIES_B = BK * LANES_ALONG_N / THREADS;
    static_assert(2 * ROWS_A + COPIES_B <= COPIES_PER_STEP * (BK - 1), "copies fit their steps");
    static_assert(BLOCKS * GROUPS > 1 || run_of(TN) == 4, "one share is stored four at a time");

    constexpr int SHARES = BLOCKS * GROUPS;
    static_assert(BM % SHARES == 0, "every group stores as many rows");
    if constexpr (SHARES > 1)
        cluster_arrive_relaxed(); /* this block has begun: the others may send to its inboxes */

    /* Tiles are numbered along x alone: gridDim.x goes up to 2^31 - 1, gridDim.y stops at 65535. */
    const struct tile_place place = region_place(blockIdx.x / BLOCKS, region, BM, BN);
    const int row0 = place.row0, col0 = place.col0;

    /* This thread's group, its place in it, and the group's share of the tiles along K. */
    const int group = threadIdx.x / THREADS, thread = threadIdx.x % THREADS;
    const int share = blockIdx.x % BLOCKS * GROUPS + group;
    const long long tiles = ceil_div(K, BK);
    const int first_tile = (int)(tiles * share / SHARES),
              end_tile = (int)(tiles * (share + 1) / SHARES);

    /* Where this thread's first row and column are in the tile. */
    const int warp = thread / 32;
    const int y = warp / WARPS_ACROSS * LANES_DOWN * TM + run_of(TM) * lane_y();
    const int x = warp % WARPS_ACROSS * LANES_ACROSS * TN + run_of(TN) * lane_x();

    float *const As = stages + group * STAGES * STAGE, *const Bs = As + BK * PITCH_A;
    /* The last tile along K ends where K does; the first begins `missing` elements before it. */
    const int missing = ceil_div(K, BK) * BK - K;
    const ptrdiff_t first_k = (ptrdiff_t)first_tile * BK - missing;

    /* When the tile is ragged, its rows are the BM rows that end at the edge of A, begun in the
       middle. Columns of B likewise. */
    const int wrap_row = max(min(row0, M - BM), 0), rows = min(M, BM);
    const int wrap_col = max(min(col0, N - BN), 0), cols = min(N, BN);

    /* What this thread copies: two elements each of ROWS_A rows of A; COPIES_B times WIDTH elements
     * of B, from COLUMNS_B columns in turn. */
    const int k_A = thread % LANES_ALONG_K, row_A = thread / LANES_ALONG_K;
    const float *from_A[ROWS_A];
    for (int i = 0; i < ROWS_A; i++) {
        const int row = wrap_row + (row0 - wrap_row + row_A + i * ROW_STEP) % rows;
        from_A[i] = A + (size_t)row * K + first_k + k_A;
    }
    int k_B[COLUMNS_B];
    const float *from_B[COLUMNS_B];
    for (int i = 0; i < COLUMNS_B; i++) {
        const int place = thread + i * THREADS, col = place % LANES_ALONG_N * WIDTH;
        k_B[i] = place / LANES_ALONG_N;
        from_B[i] = B + (first_k + k_B[i]) * N + wrap_col + (col0 - wrap_col + col) % cols;
    }
    const uint32_t to_A = shared_address(&As[k_A * PITCH_A + row_A]);
    const uint32_t to_B = shared_address(&Bs[thread * WIDTH]);

    /* Issues copy i, A's before B's, of the tile that comes `ahead` tiles after the one being
       multiplied; zeros where it does not exist, and for its first `zeros` elements along K. A
       pointer to A moves on by a tile with its second copy in the loop, one to B with each copy. */
    const auto copy = [&](int i, int stage, int ahead, bool exists, int zeros) {
        if (i < 2 * ROWS_A) {
            const int k = i % 2 * LANES_ALONG_K;
            cp_async_4_zero_fill(to_A + sizeof(float) * (stage + k * PITCH_A + i / 2 * ROW_STEP),
                                 from_A[i / 2] + ahead * BK + k,
                                 exists && k_A + k >= zeros ? sizeof(float) : 0);
            if (k != 0 && ahead == STAGES - 1)
                from_A[i / 2] += BK;
        } else if (i < 2 * ROWS_A + COPIES_B) {
            const int n = i - 2 * ROWS_A, column = n % COLUMNS_B;
            copy_async<WIDTH>(to_B + sizeof(float) * (stage + n * THREADS * WIDTH), from_B[column],
                              exists && k_B[column] + n / COLUMNS_B * K_STEP >= zeros);
            from_B[column] += (size_t)K_STEP * N;
        }
    };

    for (int stage = 0; stage < STAGES - 1; stage++) {
#pragma unroll
        for (int i = 0; i < 2 * ROWS_A + COPIES_B; i++)
            copy(i, stage * STAGE, stage, first_tile + stage < end_tile,
                 first_tile + stage == 0 ? missing : 0);
        cp_async_commit();
    }

    float sum[TM][TN] = {};
    __align__(16) float a[2][TM], b[2][TN];
    /* Reads the operands of one step. */
    const auto read_operands = [&](int stage, int k) {
        read_runs<TM>(a[k % 2], &As[stage + k * PITCH_A + y], LANES_DOWN);
        read_runs<TN>(b[k % 2], &Bs[stage + k * BN + x], LANES_ACROSS);
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
                   and all threads have read this tile: its stage is free for the next copies. */
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
                const int row = row0 + y + spread(i, TM, 0, LANES_DOWN),
                          col = col0 + x + spread(j, TN, 0, LANES_ACROSS);
                store_4(C, row, col, M, N, aligned_C,
                        make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]));
            }
    } else {
        add_and_store<BM, BN, TM, TN, BLOCKS, GROUPS>(sum, stages + GROUPS * STAGES * STAGE, share,
                                                      C, M, N, row0, col0, y, x, aligned_C);
    }
}

typedef void cluster_kernel(const float *A, const float *B, float *C, int M, int N, int K,
                            bool aligned_C, struct region region);

/* For any B; for one whose rows are aligned to 16 bytes. In the order of cluster_tiles. */
#define KERNELS(BM, BN, TM, TN, BLOCKS, GROUPS, RESIDENT)                                          \
    {sgemm_cluster<BM, BN, TM, TN, 1, RESIDENT, BLOCKS, GROUPS>,                                   \
     sgemm_cluster<BM, BN, TM, TN, 4, RESIDENT, BLOCKS, GROUPS>},
static cluster_kernel *const kernels[][2] = {SGEMM_CLUSTER_TILES(KERNELS)};

extern "C" cudaError_t matmul_sgemm_cluster(const float *A, const float *B, float *C, int M, int N,
                                            int K, cudaStream_t stream)
{
    struct device_limits device;
    cudaError_t status = current_device(&device);
    if (status != cudaSuccess)
        return status;
    if (device.architecture < SGEMM_CLUSTER_ARCHITECTURE)
        return matmul_sgemm(A, B, C, M, N, K, stream);

    const struct sgemm_cluster_plan plan = plan_sgemm_cluster(M, N, K, &device);
    for (int i = 0; i < plan.count && status == cudaSuccess; i++) {
        const struct cluster_launch *launch = &plan.launches[i];
        const struct cluster_tile *tile = &cluster_tiles[launch->tile];
        const size_t blocks = (size_t)launch->region.tiles * tile->blocks;
        if ((status = require_blocks(blocks)) != cudaSuccess)
            return status;
        cluster_kernel *const kernel = kernels[launch->tile][rows_aligned(B, N)];
        status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      tile->shared_bytes);
        if (status == cudaSuccess)
            status = launch_in_clusters(tile->blocks, (unsigned int)blocks, tile->threads,
                                        tile->shared_bytes, stream, kernel, A, B, C, M, N, K,
                                        rows_aligned(C, N), launch->region);
    }
    return status;
}
