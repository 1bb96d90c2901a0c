// Sum of an array: a class of kernels by block size, a switch that picks one, several passes.
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

template <class T>
struct SharedMemory {
    __inline__ __device__ operator T *()
    {
        extern __shared__ int __smem[];
        return (T *)__smem;
    }
};

template <class T, unsigned int blockSize>
__global__ void reduce(T *g_idata, T *g_odata, unsigned int n)
{
    T *sdata = SharedMemory<T>();
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * blockSize * 2 + threadIdx.x;
    unsigned int gridSize = blockSize * 2 * gridDim.x;
    T mySum = 0;
    while (i < n) {
        mySum += g_idata[i];
        if (i + blockSize < n)
            mySum += g_idata[i + blockSize];
        i += gridSize;
    }
    sdata[tid] = mySum;
    __syncthreads();
    if (blockSize >= 512 && tid < 256)
        sdata[tid] = mySum = mySum + sdata[tid + 256];
    __syncthreads();
    if (blockSize >= 256 && tid < 128)
        sdata[tid] = mySum = mySum + sdata[tid + 128];
    __syncthreads();
    if (blockSize >= 128 && tid < 64)
        sdata[tid] = mySum = mySum + sdata[tid + 64];
    __syncthreads();
    if (tid < 32) {
        if (blockSize >= 64)
            mySum += sdata[tid + 32];
        for (int offset = warpSize / 2; offset > 0; offset /= 2)
            mySum += __shfl_down_sync(0xffffffff, mySum, offset);
    }
    if (tid == 0)
        g_odata[blockIdx.x] = mySum;
}

template <class T>
void launch(int threads, int blocks, T *in, T *out, unsigned int n)
{
    dim3 dimBlock(threads, 1, 1), dimGrid(blocks, 1, 1);
    int smemSize = (threads <= 32) ? 2 * threads * sizeof(T) : threads * sizeof(T);
    switch (threads) {
    case 512:
        reduce<T, 512><<<dimGrid, dimBlock, smemSize>>>(in, out, n);
        break;
    case 256:
        reduce<T, 256><<<dimGrid, dimBlock, smemSize>>>(in, out, n);
        break;
    case 128:
        reduce<T, 128><<<dimGrid, dimBlock, smemSize>>>(in, out, n);
        break;
    case 64:
        reduce<T, 64><<<dimGrid, dimBlock, smemSize>>>(in, out, n);
        break;
    }
}

template <class T>
bool test(unsigned int n, int threads)
{
    std::vector<T> host(n);
    for (unsigned int i = 0; i < n; i++)
        host[i] = (T)(i % 10);
    T expected = std::accumulate(host.begin(), host.end(), (T)0), result;
    const int blocks = 16;
    T *in, *partial, *out;
    cudaMalloc(&in, n * sizeof(T));
    cudaMalloc(&partial, blocks * sizeof(T));
    cudaMalloc(&out, sizeof(T));
    cudaMemcpy(in, host.data(), n * sizeof(T), cudaMemcpyHostToDevice);
    launch<T>(threads, blocks, in, partial, n);
    launch<T>(64, 1, partial, out, blocks);
    cudaMemcpy(&result, out, sizeof(T), cudaMemcpyDeviceToHost);
    cudaFree(in);
    cudaFree(partial);
    cudaFree(out);
    if (result != expected)
        printf("n %u, %d threads: %g, expected %g\n", n, threads, (double)result, (double)expected);
    return result == expected;
}

int main()
{
    bool ok = true;
    for (int threads = 64; threads <= 512; threads *= 2)
        ok = test<int>(100003, threads) && test<float>(65536, threads) &&
             test<double>(777, threads) && ok;
    printf(ok ? "PASSED\n" : "FAILED\n");
    return ok ? 0 : 1;
}
