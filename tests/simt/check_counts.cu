/* The counters of these kernels have closed formulas, which are in test_simt_check.c. */
#include "check_kernels.h"
#include <ptx.cuh>

/* Defines a function that launches. */
#define COUNT(name, parameters, ...)                                                               \
    cudaError_t count_##name parameters                                                            \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
        return finished();                                                                         \
    }

__global__ void naive_matmul(const float *A, const float *B, float *C, int N)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < N; k++)
        sum += A[y * N + k] * B[k * N + x];
    C[y * N + x] = sum;
}

COUNT(naive_matmul, (const float *A, const float *B, float *C, int N),
      naive_matmul<<<dim3(N / 32, N / 8), dim3(32, 8)>>>(A, B, C, N))

template <int T>
__global__ void tiled_matmul(const float *A, const float *B, float *C, int N)
{
    __shared__ float As[T][T], Bs[T][T];
    int x = blockIdx.x * T + threadIdx.x, y = blockIdx.y * T + threadIdx.y;
    float sum = 0;
    for (int k0 = 0; k0 < N; k0 += T) {
        As[threadIdx.y][threadIdx.x] = A[y * N + k0 + threadIdx.x];
        Bs[threadIdx.y][threadIdx.x] = B[(k0 + threadIdx.y) * N + x];
        __syncthreads(); /* the tiles are complete */
        for (int k = 0; k < T; k++)
            sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads(); /* no thread reads the tiles any more */
    }
    C[y * N + x] = sum;
}

COUNT(tiled_matmul, (const float *A, const float *B, float *C, int N),
      tiled_matmul<16><<<dim3(N / 16, N / 16), dim3(16, 16)>>>(A, B, C, N))

__global__ void strided_loads(const float *in, float *out, int stride, int offset)
{
    out[threadIdx.x] = in[threadIdx.x * stride + offset];
}

COUNT(strided_loads, (const float *in, float *out, int threads, int stride, int offset),
      strided_loads<<<1, threads>>>(in, out, stride, offset))

__global__ void strided_stores(float *out, int stride, int offset)
{
    out[threadIdx.x * stride + offset] = 1;
}

COUNT(strided_stores, (float *out, int threads, int stride, int offset),
      strided_stores<<<1, threads>>>(out, stride, offset))

template <class T>
__global__ void wide_loads(const T *in, float *out)
{
    T value = in[threadIdx.x];
    out[threadIdx.x] = value.x + value.y;
}

cudaError_t count_wide_loads(const float *in, float *out, int width)
{
    if (width == 2)
        wide_loads<float2><<<1, 32>>>((const float2 *)in, out);
    else
        wide_loads<float4><<<1, 32>>>((const float4 *)in, out);
    return finished();
}

__global__ void half_loads(const unsigned short *in, unsigned short *out)
{
    out[threadIdx.x] = in[threadIdx.x];
}

COUNT(half_loads, (const unsigned short *in, unsigned short *out), half_loads<<<1, 32>>>(in, out))

template <int PITCH>
__global__ void pitch(float *out, int by_column)
{
    __shared__ float s[32][PITCH];
    int x = threadIdx.x, y = threadIdx.y;
    s[y][x] = 1;
    __syncthreads(); /* s is complete */
    out[y * 32 + x] = by_column ? s[x][y] : s[y][x];
}

cudaError_t count_pitch(float *out, int width, int by_column)
{
    if (width == 32)
        pitch<32><<<1, dim3(32, 32)>>>(out, by_column);
    else
        pitch<33><<<1, dim3(32, 32)>>>(out, by_column);
    return finished();
}

template <class T>
__global__ void shared_width(T *out)
{
    __shared__ T s[32];
    s[threadIdx.x] = T();
    out[threadIdx.x] = s[threadIdx.x];
}

cudaError_t count_shared_width(float *out, int width)
{
    if (width == 1)
        shared_width<float><<<1, 32>>>(out);
    else if (width == 2)
        shared_width<float2><<<1, 32>>>((float2 *)out);
    else
        shared_width<float4><<<1, 32>>>((float4 *)out);
    return finished();
}

__global__ void shared_stride(float *out, int stride)
{
    extern __shared__ float s[];
    s[threadIdx.x * stride] = 1;
    out[threadIdx.x] = s[threadIdx.x * stride];
}

COUNT(shared_stride, (float *out, int stride),
      shared_stride<<<1, 32, (31 * stride + 1) * sizeof(float)>>>(out, stride))

__global__ void broadcast(float *out)
{
    __shared__ float s;
    if (threadIdx.x == 0)
        s = 1;
    __syncthreads(); /* s is written */
    out[threadIdx.x] = s;
}

COUNT(broadcast, (float *out), broadcast<<<1, 32>>>(out))

/* Lanes leave the first loop at different times. Only if the warp meets do they enter the second
 * loop together. */
__global__ void uneven_loops(const float *in, float *out, int meet)
{
    int x = threadIdx.x;
    float sum = 0;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i <= x % 4; i++)
            sum += in[i * 32 + x];
        if (meet)
            __syncwarp();
    }
    out[x] = sum;
}

COUNT(uneven_loops, (const float *in, float *out, int meet), uneven_loops<<<1, 32>>>(in, out, meet))

__global__ void barriers(int *out, int count)
{
    for (int i = 0; i < count; i++)
        __syncthreads(); /* it protects nothing, but is counted */
    out[blockIdx.x * blockDim.x + threadIdx.x] = count;
}

COUNT(barriers, (int *out, int count, int blocks), barriers<<<blocks, 96>>>(out, count))

__global__ void atomics(int *out)
{
    __shared__ int sum;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads(); /* sum is zero */
    atomicAdd(&sum, 1);
    __syncthreads(); /* sum is complete */
    if (threadIdx.x == 0)
        atomicAdd(out, sum);
}

COUNT(atomics, (int *out, int blocks), atomics<<<blocks, 64>>>(out))

__global__ void waiting(int *data)
{
    volatile int *flag = &data[0];
    if (blockIdx.x == 0)
        *flag = 1;
    while (*flag == 0)
        ;
    data[1 + blockIdx.x] = 1;
}

COUNT(waiting, (int *data, int blocks), waiting<<<blocks, 1>>>(data))

__global__ void loads_ahead(const float *in, float *out, int ahead)
{
    __shared__ float s[2][32];
    int x = threadIdx.x;
    float next = 0;
    s[0][x] = in[x];
    __syncwarp();
    if (ahead)
        next = in[32 + x];
    float sum = s[0][31 - x];
    if (!ahead)
        next = in[32 + x];
    s[1][x] = next;
    __syncwarp();
    out[x] = sum + s[1][31 - x];
}

COUNT(loads_ahead, (const float *in, float *out, int ahead), loads_ahead<<<1, 32>>>(in, out, ahead))

/* A thread reads only what it has copied. */
__global__ void copies(const float *in, float *out, int pending)
{
    __shared__ float s[3][32];
    int x = threadIdx.x;
    for (int row = 0; row < 3; row++) {
        cp_async_4_zero_fill(shared_address(&s[row][x]), in + 32 * row + x, 4);
        cp_async_commit();
    }
    if (pending == 2)
        cp_async_wait<2>();
    else
        cp_async_wait<0>();
    float sum = s[0][x];
    cp_async_wait<0>();
    out[x] = sum + s[1][x] + s[2][x];
}

COUNT(copies, (const float *in, float *out, int pending), copies<<<1, 32>>>(in, out, pending))
