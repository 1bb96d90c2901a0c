// needs: sm_90
/*
 * Idea: where tiles are too few for the processors, a CLUSTER of blocks shares one.
 *
 *     C[row][col] = sum over k of A[row][k] * B[k][col]        A [M, K], B [K, N], C [M, N], row-major
 *
 * The blocks of a cluster compute the same tile of C, each over its share of K (split-K), and then each
 * finishes an equal part of the tile: it keeps its own sums of that part and pushes those of the others'
 * parts into their shared memory. Nothing is added in global memory and the order of the terms is always the
 * same, so the result is, too.
 *
 * What a block does until then is sgemm's, in sgemm_tile.cuh. Products with tiles enough are computed as
 * sgemm does, by clusters of one block.
 *
 * Cost: as sgemm, per tile (blocks - 1) · BM · BN · 4 bytes through the network between multiprocessors, and two
 * barriers of the cluster.
 */
#include "backend.h"
#include "refusal.h"
#include "sgemm_tile.cuh"
#include "vectors.cuh"

/* Room for the sums that a block gets from the others. It is not the stages: what was copied there is no business of
 * theirs, and nobody has to wait until it is read. */
static constexpr int inbox_bytes_of(int BM, int BN, int blocks)
{
    return BM * BN / blocks * (blocks - 1) * (int)sizeof(float);
}

/* solution: helpers of your own go here. */

/*
 * Leaves the whole cluster's sums in those rows of `sum` that this block finishes: TM / BLOCKS of them, from its
 * rank times as many on. `inbox` is inbox_bytes_of() of shared memory; every thread has arrived at the cluster's
 * barrier once.
 */
template <int THREADS, int TM, int BLOCKS>
static __device__ __forceinline__ void add_up(float sum[TM][TN], float2 *inbox)
{
    constexpr int PART = TM / BLOCKS * TN / 2; /* float2 that a thread sends to each other block */
    const int rank = cluster_rank();

    cluster_wait(); /* all blocks have begun: what lies at their inboxes' addresses is theirs */
#pragma unroll
    for (int other = 0; other < BLOCKS; other++)
        if (other != rank) {
            const int slot = rank < other ? rank : rank - 1; /* in the order of ranks, without the owner's */
            const uint32_t to =
                cluster_address(shared_address(&inbox[slot * PART * THREADS + threadIdx.x]), other);
#pragma unroll
            for (int n = 0; n < PART; n++) {
                const int i = other * (TM / BLOCKS) + n / (TN / 2), j = n % (TN / 2) * 2;
                cluster_store(to + n * THREADS * sizeof(float2), make_float2(sum[i][j], sum[i][j + 1]));
            }
        }
    cluster_arrive();
    cluster_wait(); /* everything that was sent has arrived, and nobody sends to a block that has ended */

#pragma unroll
    for (int owner = 0; owner < BLOCKS; owner++)
        if (owner == rank)
#pragma unroll
            for (int slot = 0; slot < BLOCKS - 1; slot++)
#pragma unroll
                for (int n = 0; n < PART; n++) {
                    const int i = owner * (TM / BLOCKS) + n / (TN / 2), j = n % (TN / 2) * 2;
                    const float2 term = inbox[(slot * PART + n) * THREADS + threadIdx.x];
                    sum[i][j] += term.x;
                    sum[i][j + 1] += term.y;
                }
}

/* end of solution */

template <int BM, int BN, int TM, int BLOCKS_PER_MULTIPROCESSOR, int BLOCKS>
__global__ void __launch_bounds__(threads_of(BM, BN, TM), BLOCKS_PER_MULTIPROCESSOR)
    sgemm_cluster(const float *A, const float *B, float *C, int M, int N, int K, bool aligned_C)
{
    /* solution: a share of K; exchange; store what this block finishes. */
    static_assert(TM % BLOCKS == 0, "every block of a cluster finishes as many of a thread's rows");
    extern __shared__ __align__(16) float stages[];
    if constexpr (BLOCKS > 1)
        cluster_arrive_relaxed(); /* this block has begun: the others may send to its inbox */

    const int tiles_across = ceil_div(N, BN);
    const int tile = blockIdx.x / BLOCKS, rank = blockIdx.x % BLOCKS;
    const int row0 = tile / tiles_across * BM, col0 = tile % tiles_across * BN;
    const long long tiles = tiles_along(K);

    float sum[TM][TN] = {};
    add_products<BM, BN, TM>(sum, stages, A, B, M, N, K, row0, col0, (int)(tiles * rank / BLOCKS),
                             (int)(tiles * (rank + 1) / BLOCKS));
    if constexpr (BLOCKS > 1)
        add_up<threads_of(BM, BN, TM), TM, BLOCKS>(sum, (float2 *)(stages + STAGES * stage_of(BM, BN)));

#pragma unroll
    for (int i = 0; i < TM; i++)
        if (i / (TM / BLOCKS) == rank)
#pragma unroll
            for (int j = 0; j < TN; j += 4)
                store_4(C, row0 + tile_row<BN, TM>(i), col0 + tile_col<BN>(j), M, N, aligned_C,
                        make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]));
    /* end of solution */
}

typedef void cluster_kernel(const float *A, const float *B, float *C, int M, int N, int K, bool aligned_C);

struct choice {
    const struct tile_shape *shape;
    cluster_kernel *kernel;
    int blocks; /* of a cluster */
};

static const struct choice choices[] = {
    {&LARGE, sgemm_cluster<256, 128, 16, 1, 1>, 1}, {&TALL, sgemm_cluster<128, 64, 8, 3, 1>, 1},
    {&TALL, sgemm_cluster<128, 64, 8, 3, 2>, 2},    {&TALL, sgemm_cluster<128, 64, 8, 3, 4>, 4},
    {&TALL, sgemm_cluster<128, 64, 8, 3, 8>, 8},    {&WIDE, sgemm_cluster<64, 128, 8, 3, 1>, 1},
    {&WIDE, sgemm_cluster<64, 128, 8, 3, 2>, 2},    {&WIDE, sgemm_cluster<64, 128, 8, 3, 4>, 4},
    {&WIDE, sgemm_cluster<64, 128, 8, 3, 8>, 8},
};

static int shared_bytes_of_choice(const struct choice *choice)
{
    return choice->shape->shared_bytes + inbox_bytes_of(choice->shape->BM, choice->shape->BN, choice->blocks);
}

/*
 * How long the busiest multiprocessor works, in arbitrary units: its blocks, times a block's multiply-adds.
 * The factors are what an H200 showed: LARGE is quicker by an eighth, a block alone on its multiprocessor
 * leaves it idle now and then, and clusters of four and more are spread less evenly.
 */
static double expected_time(const struct choice *choice, int M, int N, int multiprocessors)
{
    const long long blocks = (long long)tiles_of_C(choice->shape, M, N) * choice->blocks;
    const double busiest = (double)((blocks + multiprocessors - 1) / multiprocessors);
    const double work = (double)choice->shape->BM * choice->shape->BN / choice->blocks;
    if (choice->shape == &LARGE)
        return busiest * work * 0.875;
    return busiest * work * (choice->blocks >= 4 ? 1.3 : 1.0) * (busiest == 1.0 ? 1.05 : 1.0);
}

static const struct choice *choose(int M, int N, int K, const struct limits *limits)
{
    const struct choice *best = NULL;
    double best_time = 0.0;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        if (shared_bytes_of_choice(&choices[i]) > limits->shared_bytes ||
            (choices[i].blocks > 1 && tiles_along(K) < choices[i].blocks * STAGES / 2))
            continue;
        const double time = expected_time(&choices[i], M, N, limits->multiprocessors);
        if (best == NULL || time < best_time) {
            best = &choices[i];
            best_time = time;
        }
    }
    return best;
}

extern "C" cudaError_t matmul_sgemm_cluster(const float *A, const float *B, float *C, int M, int N, int K,
                                            cudaStream_t stream)
{
    if (backend_architecture() < 90)
        return matmul_sgemm(A, B, C, M, N, K, stream);

    cudaError_t status = matmul_check_arguments(A, B, C, M, N, K);
    if (status != cudaSuccess || M == 0 || N == 0)
        return status;

    struct limits limits;
    if ((status = device_limits(&limits)) != cudaSuccess)
        return status;
    const struct choice *choice = choose(M, N, K, &limits);
    const size_t blocks = (size_t)tiles_of_C(choice->shape, M, N) * choice->blocks;
    if ((status = require_blocks(blocks)) != cudaSuccess)
        return status;

    const int shared_bytes = shared_bytes_of_choice(choice);
    status = cudaFuncSetAttribute(choice->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (status != cudaSuccess)
        return status;

    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = choice->blocks;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;

    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned int)blocks);
    config.blockDim = dim3(choice->shape->threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, choice->kernel, A, B, C, M, N, K, rows_aligned(C, N));
}
