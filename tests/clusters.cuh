/* What every test that launches a kernel in clusters does: cudaLaunchKernelEx with the one attribute. */
#ifndef TESTS_CLUSTERS_CUH
#define TESTS_CLUSTERS_CUH

#include <cuda_runtime.h>

/* `size` and `grid` are in blocks. */
template <class... P, class... A>
static cudaError_t launch_in_clusters(dim3 size, dim3 grid, int threads, size_t shared, void (*kernel)(P...),
                                      A... arguments)
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
    config.attrs = &cluster;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, P(arguments)...);
}

#endif
