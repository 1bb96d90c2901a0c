// says: cooperative groups of a cluster (ptx.cuh has its barrier) are not supported
#include <cooperative_groups.h>

__global__ void rank(int *p)
{
    cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
    p[0] = cluster.num_blocks();
}
