/* This whole program has one race. It shows what `simtcc --check` prints at the program's end. */
#include <cstdio>

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

int main()
{
    float *data;
    cudaMalloc(&data, 64 * sizeof *data);
    fill<<<2, 32>>>(data);
    fill<<<2, 32>>>(data);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    neighbours<<<1, 64>>>(data);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    return 0;
}
