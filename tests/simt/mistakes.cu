/* Each number is a mistake that beginners make; README.md of common/simt has a row for each. What
 * follows it asks for the error, or aborts; a program that does neither looks at nothing. */
#include <cstdio>
#include <cstdlib>
#include <cstring>

__global__ void fill(float *data, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        data[i] = i;
}

__global__ void reverse(float *data)
{
    __shared__ float s[64];
    s[threadIdx.x] = data[threadIdx.x];
    data[threadIdx.x] = s[63 - threadIdx.x];
}

__global__ void rotate(float *data, int n)
{
    extern __shared__ float s[];
    s[threadIdx.x] = data[threadIdx.x];
    if (threadIdx.x < n) {
        __syncthreads();
        data[threadIdx.x] = s[(threadIdx.x + 1) % n];
    }
}

__global__ void count(int *counter)
{
    ++*counter;
}

int main(int argc, char **argv)
{
    const int n = 64;
    float *host = (float *)calloc(n, sizeof *host), *data;
    int *counter;
    cudaMalloc(&data, n * sizeof *data);
    cudaMalloc(&counter, sizeof *counter);
    cudaMemcpy(data, host, n * sizeof *data, cudaMemcpyHostToDevice);
    switch (argc > 1 ? atoi(argv[1]) : 0) {
    case 1:
        fill<<<1, 2048>>>(data, n - 1);
        break;
    case 2:
        rotate<<<1, n, 64 * 1024>>>(data, n);
        break;
    case 3:
        fill<<<1, n>>>(host, n - 1);
        break;
    case 4:
        fill<<<1, 2 * n>>>(data, n);
        break;
    case 5:
        cudaMemcpy(host, data, n * sizeof *data, cudaMemcpyHostToDevice);
        break;
    case 6:
        host[0] = data[0];
        break;
    case 7:
        reverse<<<1, n>>>(data);
        break;
    case 8:
        rotate<<<1, n, n * sizeof *data>>>(data, 16);
        break;
    case 9:
        cudaFree(data);
        fill<<<1, n>>>(data, n - 1);
        break;
    case 10:
        cudaMemset(counter, 0, sizeof *counter);
        count<<<1, n>>>(counter);
        break;
    case 11:
        cudaFree(data);
        fill<<<1, n>>>(data, n - 1);
        cudaDeviceReset(); /* is no question */
    }
    const char *then = argc > 2 ? argv[2] : "";
    if (!strcmp(then, "look"))
        return cudaDeviceSynchronize() == cudaSuccess;
    cudaDeviceSynchronize();
    if (!strcmp(then, "ask"))
        return cudaGetLastError() == cudaSuccess;
    if (!strcmp(then, "abort"))
        abort();
    return 0;
}
