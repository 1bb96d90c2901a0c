// printf and assert in kernels, a device function table, recursion, local arrays.
#include <assert.h>
#include <stdio.h>
#include <string.h>

typedef float (*op_t)(float, float);

__device__ float add_func(float x, float y)
{
    return x + y;
}

__device__ float mul_func(float x, float y)
{
    return x * y;
}

__device__ op_t p_table[2] = {add_func, mul_func};

__device__ int fib(int n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

__global__ void testKernel(int val, float *out)
{
    assert(val == 10);
    int local[32];
    for (int i = 0; i < 32; i++)
        local[i] = i * val;
    if (threadIdx.x == 0)
        printf("[%d, %d]:\t\tValue is:%d\n", blockIdx.y * gridDim.x + blockIdx.x, threadIdx.x, val);
    out[threadIdx.x] = p_table[threadIdx.x % 2](local[threadIdx.x], 3.0f) + fib(threadIdx.x % 8);
}

int main()
{
    float *d_out, out[32];
    const int fibs[8] = {0, 1, 1, 2, 3, 5, 8, 13};
    cudaMalloc(&d_out, sizeof(out));
    testKernel<<<dim3(2, 2), 32>>>(10, d_out);
    cudaError_t e = cudaMemcpy(out, d_out, sizeof out, cudaMemcpyDeviceToHost);
    if (e != cudaSuccess) {
        printf("%s: %s\n", cudaGetErrorName(e), cudaGetErrorString(e));
        return 1;
    }
    for (int i = 0; i < 32; i++)
        if (out[i] != (i % 2 ? i * 10 * 3.0f : i * 10 + 3.0f) + fibs[i % 8]) {
            printf("FAILED at %d: %g\n", i, out[i]);
            return 1;
        }
    cudaDeviceReset();
    printf("PASSED\n");
    return 0;
}
