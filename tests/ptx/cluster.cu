// needs: sm_90
/*
 * Every thread stores two words in the shared memory of each block of its cluster; in blocks of
 * even rank the even lanes store four. Each block writes what it received, then its rank and the
 * number of blocks.
 */
#include "launches.cuh"
#include <ptx.cuh>
#include "device/clusters.cuh"

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
    cluster_wait(); /* everything has arrived, and no block ends while others still store */

    for (int peer = 0; peer < CLUSTER_BLOCKS; peer++) {
        out[64 * peer + 2 * lane] = __float_as_uint(from[peer][lane].x);
        out[64 * peer + 2 * lane + 1] = __float_as_uint(from[peer][lane].y);
    }
    if (lane == 0) {
        out[CLUSTER_OUT - 2] = rank;
        out[CLUSTER_OUT - 1] = cluster_blocks();
    }
}

PTX_KERNEL(cluster, launch_in_clusters(CLUSTER_BLOCKS, CLUSTERS *CLUSTER_BLOCKS, 32, 0, NULL,
                                       exchange, in, out))
