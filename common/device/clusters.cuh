/* Launches a kernel in clusters of blocks (sm_90 and newer), by cudaLaunchKernelEx with one
 * attribute. */
#ifndef COMMON_CLUSTERS_CUH
#define COMMON_CLUSTERS_CUH

#include <cuda_runtime.h>

/*
 * Launches kernel(arguments...) with clusters of `size` blocks on a grid of `grid` blocks, which is
 * a multiple of `size` in each direction, and `shared` bytes of dynamic shared memory. Returns what
 * cudaLaunchKernelEx returns.
 */
template <class... P, class... A>
static cudaError_t launch_in_clusters(dim3 size, dim3 grid, int threads, size_t shared,
                                      cudaStream_t stream, void (*kernel)(P...), A... arguments)
{
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = size.x;
    cluster.val.clusterDim.y = size.y;
    cluster.val.clusterDim.z = size.z;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, P(arguments)...);
}

#endif
