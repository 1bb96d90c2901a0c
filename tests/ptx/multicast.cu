// needs: sm_90a
/*
 * The two blocks of a pair load for each other by multicast. ptxas advises against the instruction
 * on any architecture but sm_90a, and advice is an error here.
 */
#include "launches.cuh"
#include <ptx.cuh>
#include "device/clusters.cuh"

/* Each block of a pair loads half of a box's rows into both blocks, round after round into the same
 * place. Block 0 sends block 1 a number. */
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
            mbarrier_wait(&agreed, round % 2); /* the place is free in both blocks */
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
        __syncthreads(); /* all threads have read */
    }
    cluster_arrive();
    cluster_wait(); /* no block ends while the other loads into it */
}

cudaError_t ptx_tma_load_multicast(const CUtensorMap *map, uint32_t *out)
{
    launch_in_clusters(2, 2, 64, 0, NULL, load_together, *map, out);
    return finished();
}
