// A dot product in half precision: __half2 loads, fused multiply-add, float accumulation across the
// warp.
#include <cstdio>
#include <cuda_fp16.h>
#include <vector>

__global__ void scalarProduct(const half2 *a, const half2 *b, float *results, size_t size)
{
    const int stride = gridDim.x * blockDim.x;
    __shared__ float shArray[128];
    shArray[threadIdx.x] = 0.0f;
    half2 value = __float2half2_rn(0.f);
    for (size_t i = threadIdx.x + blockDim.x * blockIdx.x; i < size; i += stride)
        value = __hfma2(a[i], b[i], value);
    shArray[threadIdx.x] = __low2float(value) + __high2float(value);
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (threadIdx.x < s)
            shArray[threadIdx.x] += shArray[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        results[blockIdx.x] = shArray[0];
}

__global__ void axpy(half alpha, const half *x, half *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = __hfma(alpha, x[i], y[i]);
}

__global__ void relu(__half *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] < __half(0.0f))
        x[i] = 0.0f;
}

int main()
{
    const int n = 4096, blocks = 8;
    std::vector<half> a(n), b(n);
    float expected = 0;
    for (int i = 0; i < n; i++) {
        a[i] = __float2half((float)(i % 4));
        b[i] = __float2half((float)(i % 3 - 1));
        expected += (float)(i % 4) * (float)(i % 3 - 1);
    }
    half *d_a, *d_b;
    float *d_r, r[blocks], sum = 0;
    cudaMalloc(&d_a, n * sizeof(half));
    cudaMalloc(&d_b, n * sizeof(half));
    cudaMalloc(&d_r, sizeof(r));
    cudaMemcpy(d_a, a.data(), n * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(d_b, b.data(), n * sizeof(half), cudaMemcpyHostToDevice);
    scalarProduct<<<blocks, 128>>>((half2 *)d_a, (half2 *)d_b, d_r, n / 2);
    if (cudaMemcpy(r, d_r, sizeof(r), cudaMemcpyDeviceToHost) != cudaSuccess)
        return 2;
    for (float part : r)
        sum += part;
    if (sum != expected) {
        printf("FAILED: %g, expected %g\n", sum, expected);
        return 1;
    }
    axpy<<<n / 256, 256>>>(__float2half(2.0f), d_a, d_b, n);
    relu<<<n / 256, 256>>>(d_b, n);
    cudaMemcpy(b.data(), d_b, n * sizeof(half), cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i++) {
        float want = 2.0f * (i % 4) + (i % 3 - 1);
        if (__half2float(b[i]) != (want < 0 ? 0 : want)) {
            printf("FAILED at %d: %g, expected %g\n", i, __half2float(b[i]), want);
            return 1;
        }
    }
    puts("PASSED");
    return 0;
}
