// 256 bins: privatised in shared memory, one copy per warp, merged at the end.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

typedef unsigned int uint;

constexpr int kBins = 256;
constexpr int kWarps = 6;
constexpr int kThreads = kWarps * 32;

__device__ __forceinline__ void addByte(uint *s_WarpHist, uint data)
{
    atomicAdd(s_WarpHist + data, 1);
}

__device__ __forceinline__ void addWord(uint *s_WarpHist, uint data)
{
    addByte(s_WarpHist, (data >> 0) & 0xFFU);
    addByte(s_WarpHist, (data >> 8) & 0xFFU);
    addByte(s_WarpHist, (data >> 16) & 0xFFU);
    addByte(s_WarpHist, (data >> 24) & 0xFFU);
}

__global__ void histogram256Kernel(uint *d_Histogram, const uint *d_Data, uint dataCount)
{
    __shared__ uint s_Hist[kWarps * kBins];
    uint *s_WarpHist = s_Hist + (threadIdx.x >> 5) * kBins;
#pragma unroll
    for (uint i = 0; i < kWarps * kBins / kThreads; i++)
        s_Hist[threadIdx.x + i * kThreads] = 0;
    __syncthreads();
    for (uint pos = blockIdx.x * blockDim.x + threadIdx.x; pos < dataCount;
         pos += blockDim.x * gridDim.x)
        addWord(s_WarpHist, d_Data[pos]);
    __syncthreads();
    for (uint bin = threadIdx.x; bin < kBins; bin += kThreads) {
        uint sum = 0;
        for (uint i = 0; i < kWarps; i++)
            sum += s_Hist[bin + i * kBins];
        atomicAdd(&d_Histogram[bin], sum);
    }
}

int main()
{
    const size_t bytes = 1 << 18;
    uint8_t *data = static_cast<uint8_t *>(malloc(bytes));
    uint expected[kBins] = {}, result[kBins];
    for (size_t i = 0; i < bytes; i++)
        expected[data[i] = static_cast<uint8_t>((rand() & rand()) >> 3)]++;
    uint *d_data, *d_hist;
    cudaMalloc(reinterpret_cast<void **>(&d_data), bytes);
    cudaMalloc(reinterpret_cast<void **>(&d_hist), sizeof(result));
    cudaMemcpy(d_data, data, bytes, cudaMemcpyHostToDevice);
    cudaMemset(d_hist, 0, sizeof(result));
    histogram256Kernel<<<24, kThreads>>>(d_hist, d_data, bytes / sizeof(uint));
    if (cudaMemcpy(result, d_hist, sizeof(result), cudaMemcpyDeviceToHost) != cudaSuccess)
        return 2;
    bool same = memcmp(result, expected, sizeof(result)) == 0;
    puts(same ? "PASSED" : "FAILED");
    return same ? 0 : 1;
}
