// says: cluster_group.cu:6:39: error: ‘cluster_group’ is unavailable: clusters in
#include <cooperative_groups.h>

__global__ void kernel()
{
    cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
    cluster.sync();
}
