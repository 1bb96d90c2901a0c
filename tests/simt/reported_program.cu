/* This whole program has one race. It shows what `simtcc --check` prints at the program's end, or,
 * with an argument, at an early exit. */
#include <cstdio>
#include <cstdlib>

__global__ void fill(float *data)
{
    data[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

__global__ void neighbours(float *data)
{
    __shared__ float s[64];
    s[threadIdx.x] = data[threadIdx.x];
    data[threadIdx.x] = s[63 - threadIdx.x];
}

int main(int argc, char **)
{
    float *data;
    cudaMalloc(&data, 64 * sizeof *data);
    fill<<<2, 32>>>(data);
    fill<<<2, 32>>>(data);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    neighbours<<<1, 64>>>(data);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    if (argc > 1)
        abort();
    return 0;
}
