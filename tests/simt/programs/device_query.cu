// This is what programs ask of a device, and what they do when something fails.
#include <iostream>
#include <string>

__global__ void busy(long long *cycles, int *out)
{
    long long start = clock64();
    int x = 1;
    for (int i = 0; i < 1000; i++)
        x = x * 5 + 1;
    *out = x;
    *cycles = clock64() - start;
}

int main(void)
{
    int deviceCount = 0, driver = 0, runtime = 0;
    if (cudaGetDeviceCount(&deviceCount) != cudaSuccess || deviceCount == 0) {
        std::cout << "There are no available device(s) that support CUDA\n";
        return 1;
    }
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    cudaDeviceProp deviceProp;
    cudaGetDeviceProperties(&deviceProp, 0);
    int chosen = -1;
    cudaChooseDevice(&chosen, &deviceProp);
    cudaSetDevice(chosen);
    std::cout << deviceProp.name << ", compute capability " << deviceProp.major << "."
              << deviceProp.minor << ", " << deviceProp.multiProcessorCount << " multiprocessors, "
              << deviceProp.totalGlobalMem / (1024.0 * 1024.0) << " MBytes\n";
    size_t free_bytes, total_bytes;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    bool ok = deviceProp.warpSize == 32 && deviceProp.maxThreadsPerBlock == 1024 &&
              free_bytes <= total_bytes && deviceProp.sharedMemPerBlock == 49152 &&
              deviceProp.memoryPoolsSupported && runtime >= 10000;
    long long *cycles;
    int *out, bytes = 0;
    cudaMallocManaged(&cycles, sizeof *cycles);
    cudaMallocManaged(&out, sizeof *out);
    busy<<<1, 1>>>(cycles, out);
    cudaDeviceSynchronize();
    ok = ok && *cycles > 0;
    busy<<<1, 2048>>>(cycles, out);
    cudaError_t error = cudaGetLastError();
    // CUDA 13.0 returns cudaErrorInvalidValue; older versions return cudaErrorInvalidConfiguration.
    ok = ok && (error == cudaErrorInvalidConfiguration || error == cudaErrorInvalidValue) &&
         std::string(cudaGetErrorName(cudaErrorInvalidConfiguration)) ==
             "cudaErrorInvalidConfiguration";
    ok = ok && cudaGetLastError() == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess;
    ok = ok &&
         cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlock, 0) == cudaSuccess &&
         bytes == 49152;
    std::cout << (ok ? "PASSED" : "FAILED") << std::endl;
    return ok ? 0 : 1;
}
