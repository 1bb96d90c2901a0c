// needs: sm_90
/* Bulk tensor copies move one box to shared memory and one back. */
#include "launches.cuh"
#include <ptx.cuh>

__global__ void load_box(const __grid_constant__ CUtensorMap map, int x, int y, int z, int bytes,
                         uint32_t *out)
{
    extern __shared__ __align__(1024) uint32_t box[];
    __shared__ uint64_t arrived;
    if (threadIdx.x == 0) {
        tma_prefetch_map(&map);
        mbarrier_init(&arrived, 1);
        mbarrier_init_fence();
    }
    __syncthreads(); /* the mbarrier exists before anyone waits for it */
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect(&arrived, bytes);
        tma_load(shared_address(box), &map, x, y, z, &arrived);
    }
    mbarrier_wait(&arrived, 0);
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x)
        out[i] = box[i];
}

__global__ void store_box(const __grid_constant__ CUtensorMap map, int x, int y, int z, int bytes,
                          const uint32_t *in)
{
    extern __shared__ __align__(1024) uint32_t box[];
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x)
        box[i] = in[i];
    async_proxy_fence();
    __syncthreads(); /* the box is complete, and visible to the copy engine */
    if (threadIdx.x == 0) {
        tma_store(&map, x, y, z, shared_address(box));
        tma_store_commit();
        tma_store_wait_read<0>();
        tma_store_wait<0>();
    }
}

cudaError_t ptx_tma_load(const CUtensorMap *map, int x, int y, int z, int bytes, uint32_t *out)
{
    load_box<<<1, 64, bytes>>>(*map, x, y, z, bytes, out);
    return finished();
}

cudaError_t ptx_tma_store(const CUtensorMap *map, int x, int y, int z, int bytes,
                          const uint32_t *in)
{
    store_box<<<1, 64, bytes>>>(*map, x, y, z, bytes, in);
    return finished();
}
