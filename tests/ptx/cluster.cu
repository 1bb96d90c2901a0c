// needs: sm_90
/*
 * Clusters: every thread stores two words in the shared memory of each block of its cluster, in
 * blocks of even rank the even lanes four; each block writes down what came to it, then which block
 * of how many it is. Then pairs of blocks that load for each other.
 */
#include "finished.cuh"
#include "ptx_kernels.h"
#include "ptx.cuh"
#include "clusters.cuh"

__global__ void exchange(const uint32_t *in, uint32_t *out)
{
    __shared__ __align__(16) float2 from[CLUSTER_BLOCKS][32];
    cluster_arrive_relaxed(); /* this block has begun */
    const int rank = cluster_rank(), lane = threadIdx.x;
    in += blockIdx.x * 64 + 2 * lane;
    out += blockIdx.x * CLUSTER_OUT;

    cluster_wait(); /* all blocks have begun */
    for (int peer = 0; peer < CLUSTER_BLOCKS; peer++) {
        const float2 own = make_float2(__uint_as_float(in[0]), __uint_as_float(in[1] + peer));
        if (rank % 2 == 1) {
            cluster_store(cluster_address(shared_address(&from[rank][31 - lane]), peer), own);
        } else if (lane % 2 == 0) {
            const float4 both =
                make_float4(__uint_as_float(in[2]), __uint_as_float(in[3] + peer), own.x, own.y);
            cluster_store(cluster_address(shared_address(&from[rank][30 - lane]), peer), both);
        }
    }
    cluster_arrive();
    cluster_wait(); /* everything has come, and no block ends while others still store */

    for (int peer = 0; peer < CLUSTER_BLOCKS; peer++) {
        out[64 * peer + 2 * lane] = __float_as_uint(from[peer][lane].x);
        out[64 * peer + 2 * lane + 1] = __float_as_uint(from[peer][lane].y);
    }
    if (lane == 0) {
        out[CLUSTER_OUT - 2] = rank;
        out[CLUSTER_OUT - 1] = cluster_blocks();
    }
}

cudaError_t ptx_cluster(const uint32_t *in, uint32_t *out)
{
    const cudaError_t status = launch_in_clusters(CLUSTER_BLOCKS, CLUSTERS * CLUSTER_BLOCKS, 32, 0,
                                                  NULL, exchange, in, out);
    return status != cudaSuccess ? status : finished();
}

/* Each block of a pair loads half of a box's rows into both, round after round into the same place,
 * and block 0 sends block 1 a number. */
__global__ void load_together(const __grid_constant__ CUtensorMap map, uint32_t *out)
{
    __shared__ __align__(1024) uint32_t box[MULTICAST_WORDS];
    __shared__ uint64_t full, agreed, number_full;
    __shared__ int number;
    const int rank = cluster_rank();
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init(&agreed, 2);
        mbarrier_init(&number_full, 1);
        mbarrier_init_fence();
    }
    cluster_arrive();
    cluster_wait();
    for (int round = 0; round < MULTICAST_ROUNDS; round++) {
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect(&full, sizeof box);
            for (int peer = 0; peer < 2; peer++)
                cluster_mbarrier_arrive(cluster_address(shared_address(&agreed), peer));
            mbarrier_wait(&agreed, round % 2); /* the place is free in both */
            tma_load_multicast(shared_address(box + rank * MULTICAST_WORDS / 2), &map, 0,
                               32 * (2 * round + rank), 0, &full, 3);
            if (rank == 0)
                cluster_store_async(cluster_address(shared_address(&number), 1), 7 + round,
                                    cluster_address(shared_address(&number_full), 1));
            else
                mbarrier_arrive_expect(&number_full, sizeof number);
        }
        mbarrier_wait(&full, round % 2);
        if (rank == 1)
            mbarrier_wait(&number_full, round % 2);
        for (int i = threadIdx.x; i < MULTICAST_WORDS; i += blockDim.x)
            out[(2 * round + rank) * MULTICAST_WORDS + i] = box[i] + (rank == 1 ? number : 0);
        __syncthreads(); /* all have read */
    }
    cluster_arrive();
    cluster_wait(); /* no block ends while the other loads into it */
}

cudaError_t ptx_tma_load_multicast(const CUtensorMap *map, uint32_t *out)
{
    const cudaError_t status = launch_in_clusters(2, 2, 64, 0, NULL, load_together, *map, out);
    return status != cudaSuccess ? status : finished();
}
