// Cooperative groups: tiles, coalesced groups and a barrier over the whole grid, with a launch
// sized by occupancy.
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda_runtime_api.h>
#include <vector>

namespace cg = cooperative_groups;
using namespace cooperative_groups;

__global__ void reduceSinglePass(const float *g_idata, float *g_odata, unsigned int n)
{
    extern __shared__ double sdata[];
    thread_block block = this_thread_block();
    grid_group grid = this_grid();
    double sum = 0;
    for (unsigned long long i = grid.thread_rank(); i < n; i += grid.size())
        sum += g_idata[i];
    sdata[block.thread_rank()] = sum;
    cg::sync(block);
    thread_block_tile<32> tile32 = tiled_partition<32>(block);
    double beta = sdata[block.thread_rank()];
    for (unsigned i = tile32.size() / 2; i > 0; i >>= 1) {
        if (tile32.thread_rank() < i)
            sdata[block.thread_rank()] = beta = beta + sdata[block.thread_rank() + i];
        cg::sync(tile32);
    }
    cg::sync(block);
    if (block.thread_rank() == 0) {
        beta = 0;
        for (unsigned i = 0; i < block.size(); i += tile32.size())
            beta += sdata[i];
        g_odata[blockIdx.x] = (float)beta;
    }
    cg::sync(grid);
    if (grid.thread_rank() == 0)
        for (unsigned b = 1; b < gridDim.x; b++)
            g_odata[0] += g_odata[b];
}

__device__ int atomicAggInc(int *ptr)
{
    coalesced_group g = coalesced_threads();
    int prev = 0;
    if (g.thread_rank() == 0)
        prev = atomicAdd(ptr, g.size());
    return g.thread_rank() + g.shfl(prev, 0);
}

__global__ void filter(int *dst, int *nres, const int *src, int n)
{
    for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += gridDim.x * blockDim.x)
        if (src[i] > 40)
            dst[atomicAggInc(nres)] = src[i];
}

int main()
{
    const int n = 40000, threads = 128;
    std::vector<float> data(n);
    double expected = 0;
    for (int i = 0; i < n; i++)
        expected += data[i] = (float)(i % 8);
    int sms = 0, perSM = 0;
    cudaDeviceProp prop;
    cudaGetDeviceProperties(&prop, 0);
    if (!prop.cooperativeLaunch) {
        puts("no cooperative launch here");
        return 0;
    }
    sms = prop.multiProcessorCount;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&perSM, reduceSinglePass, threads,
                                                  threads * sizeof(double));
    int blocks = sms * perSM < 24 ? sms * perSM : 24;
    float *d_in, *d_out, result;
    unsigned int count = n;
    cudaMalloc(&d_in, n * sizeof(float));
    cudaMalloc(&d_out, blocks * sizeof(float));
    cudaMemcpy(d_in, data.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    void *args[] = {(void *)&d_in, (void *)&d_out, (void *)&count};
    cudaError_t err = cudaLaunchCooperativeKernel((void *)reduceSinglePass, dim3(blocks),
                                                  dim3(threads), args, threads * sizeof(double), 0);
    if (err == cudaSuccess)
        err = cudaMemcpy(&result, d_out, sizeof(float), cudaMemcpyDeviceToHost);
    if (err != cudaSuccess || result != (float)expected) {
        printf("FAILED: %s, %g, expected %g\n", cudaGetErrorString(err), result, expected);
        return 1;
    }

    std::vector<int> src(5000), dst(5000);
    int *d_src, *d_dst, *d_nres, nres, want = 0;
    for (int i = 0; i < 5000; i++)
        want += (src[i] = (i * 37) % 100) > 40;
    cudaMalloc(&d_src, 5000 * sizeof(int));
    cudaMalloc(&d_dst, 5000 * sizeof(int));
    cudaMalloc(&d_nres, sizeof(int));
    cudaMemset(d_nres, 0, sizeof(int));
    cudaMemcpy(d_src, src.data(), 5000 * sizeof(int), cudaMemcpyHostToDevice);
    filter<<<4, 256>>>(d_dst, d_nres, d_src, 5000);
    cudaMemcpy(&nres, d_nres, sizeof(int), cudaMemcpyDeviceToHost);
    cudaMemcpy(dst.data(), d_dst, nres * sizeof(int), cudaMemcpyDeviceToHost);
    long sum = 0, wantSum = 0;
    for (int i = 0; i < nres; i++)
        sum += dst[i];
    for (int i = 0; i < 5000; i++)
        wantSum += src[i] > 40 ? src[i] : 0;
    bool ok = nres == want && sum == wantSum;
    puts(ok ? "PASSED" : "FAILED");
    return ok ? 0 : 1;
}
