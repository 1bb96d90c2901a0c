// needs: sm_90
/*
 * Idea: where tiles are too few for the processors, a CLUSTER of blocks shares one.
 *
 *     C[row][col] = sum over k of A[row][k] * B[k][col]     A [M, K], B [K, N], C [M, N], row-major
 *
 * K is divided into shares, in two ways. The blocks of a cluster compute the same tile of C
 * (split-K); and a block may have two groups of warps (sliced-K), so that one can multiply while
 * the other waits. Each group computes the whole tile over its share of K. Then it pushes its sums
 * to where they are needed: a group stores an equal part of the tile, and gets everybody's sums of
 * that part into its inbox in shared memory. Nothing is added in global memory and the order of the
 * terms is always the same, so the result is, too.
 *
 * What a group does until then is sgemm's, in sgemm_tile.cuh. Products with tiles enough are
 * computed as sgemm does, by clusters of one block of one group.
 *
 * Cost: as sgemm; and where there are several shares, per tile shares · BM · BN · 4 bytes into
 * shared memory, 1 - 1/blocks of them of another multiprocessor, and two barriers of the cluster.
 * The stores of C are of neighbours, whatever its alignment.
 */
#include "backend.h"
#include "clusters.cuh"
#include "refusal.h"
#include "sgemm_tile.cuh"

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
                                                     int col0, bool aligned_C)
{
    constexpr int THREADS = threads_of(BM, BN, TN), SHARES = BLOCKS * GROUPS;
    constexpr int PART = BM / SHARES * BN; /* elements of C, whole rows of the tile */

    cluster_wait(); /* all blocks have begun: what lies at their inboxes' addresses is theirs */
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int element = tile_row<BM, BN, TN>(i) * BN + tile_col<BM, BN, TN>(j),
                      owner = element / PART;
            float *const to =
                &inboxes[owner % GROUPS * inbox_floats(BM, BN) + share * PART + element % PART];
            const float4 term = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            cluster_store(cluster_address(shared_address(to), owner / GROUPS), term);
        }
    /* Everything that was sent has arrived, and nobody sends to a block that has ended. */
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
__global__ void __launch_bounds__(threads_of(BM, BN, TN) * GROUPS, BLOCKS_PER_MULTIPROCESSOR)
    sgemm_cluster(const float *A, const float *B, float *C, int M, int N, int K, bool aligned_C)
{
    constexpr int SHARES = BLOCKS * GROUPS;
    static_assert(BM % SHARES == 0, "every group stores as many rows");
    extern __shared__ __align__(16) float stages[];
    if constexpr (SHARES > 1)
        cluster_arrive_relaxed(); /* this block has begun: the others may send to its inboxes */

    const int tiles_across = ceil_div(N, BN);
    const int tile = blockIdx.x / BLOCKS;
    const int row0 = tile / tiles_across * BM, col0 = tile % tiles_across * BN;
    const int share = blockIdx.x % BLOCKS * GROUPS + threadIdx.x / threads_of(BM, BN, TN);
    const long long k_tiles = tiles_along(K);

    float sum[TM][TN] = {};
    add_products<BM, BN, TN, WIDTH, GROUPS>(sum, stages, A, B, M, N, K, row0, col0,
                                            (int)(k_tiles * share / SHARES),
                                            (int)(k_tiles * (share + 1) / SHARES));
    if constexpr (SHARES == 1) {
        store_tile<BM, BN, TN>(C, sum, row0, col0, M, N, aligned_C);
    } else {
        add_and_store<BM, BN, TN, BLOCKS, GROUPS>(sum,
                                                  stages + GROUPS * STAGES * stage_floats(BM, BN),
                                                  share, C, M, N, row0, col0, aligned_C);
    }
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
/* one block on a multiprocessor, and its warps fill it */
static const double TWO_GROUPS_TIME = 0.97;
static const double ONE_GROUP_TIME = 1.08; /* one block, and nobody multiplies while it waits */
/* blocks of two groups, which come one after the other */
static const double SEQUENCE_TIME = 1.08;
/* clusters of more than two, whose blocks are spread unevenly */
static const double MANY_BLOCKS_TIME = 1.3;

/* How long the busiest multiprocessor works, in arbitrary units: its blocks, times a block's
 * multiply-adds. */
static double expected_time(const struct choice *choice, int M, int N, int multiprocessors)
{
    const long long blocks = (long long)tiles_of_C(choice->shape, M, N) * choice->blocks;
    const double busiest = (double)((blocks + multiprocessors - 1) / multiprocessors);
    const double work = busiest * choice->shape->BM * choice->shape->BN / choice->blocks;
    if (choice->shape == &LARGE)
        return work * LARGE_TIME;
    if (choice->groups > 1)
        return work * (busiest == 1.0 ? TWO_GROUPS_TIME : SEQUENCE_TIME);
    return work * (choice->blocks > 2 ? MANY_BLOCKS_TIME : 1.0) *
           (busiest == 1.0 ? ONE_GROUP_TIME : 1.0);
}

/* The quickest, and of equally quick ones that with the fewest tiles. */
static const struct choice *choose(int M, int N, int K, const struct limits *limits)
{
    const struct choice *best = NULL;
    double best_time = 0.0;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const int shares = choices[i].blocks * choices[i].groups;
        /* A share shorter than that would be spent on filling the stages. */
        const bool too_short = shares > 1 && tiles_along(K) < shares * STAGES / 2;
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
    return cost_of_tiles(choose(M, N, K, &limits)->shape, M, N, K);
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
