#include "device_tools.h"

#include <cuda_fp16.h>
#include <math.h>

static const int THREADS = 256, BLOCKS = 4096;

/* Returns 64 mixed bits of x: the finalizer of splitmix64 (Steele, Lea, Flood 2014). */
static __device__ uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* Transforms two uniform numbers, one in (0, 1] and one in [0, 1), after Box and Muller. */
static __device__ float normal(uint64_t seed, size_t index)
{
    const uint64_t bits = mix(mix(seed) + 0x9e3779b97f4a7c15ull * (index + 1));
    const float u = ((bits >> 40) + 1) * 0x1p-24f, v = (bits & 0xffffff) * 0x1p-24f;
    return sqrtf(-2.0f * logf(u)) * cospif(2.0f * v);
}

template <typename ELEMENT>
__global__ void fill(ELEMENT *data, size_t count, uint64_t seed)
{
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x; index < count;
         index += stride)
        data[index] = (ELEMENT)normal(seed, index);
}

/* Adds the squares of out - expected to sums[0] and those of expected to sums[1]. */
template <typename ELEMENT>
__global__ void add_squares(const ELEMENT *out, const ELEMENT *expected, size_t count, double *sums)
{
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    double difference = 0.0, whole = 0.0;
    for (size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x; index < count;
         index += stride) {
        const double y = (float)expected[index], distance = (float)out[index] - y;
        difference += distance * distance;
        whole += y * y;
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        difference += __shfl_xor_sync(0xffffffffu, difference, distance);
        whole += __shfl_xor_sync(0xffffffffu, whole, distance);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(&sums[0], difference);
        atomicAdd(&sums[1], whole);
    }
}

static int blocks_for(size_t count)
{
    const size_t blocks = (count + THREADS - 1) / THREADS;
    return blocks < (size_t)BLOCKS ? (int)blocks : BLOCKS;
}

extern "C" cudaError_t fill_normal(void *data, enum tensor_type type, size_t count, uint64_t seed,
                                   cudaStream_t stream)
{
    if (count == 0)
        return cudaSuccess;
    if (type == TENSOR_F16)
        fill<<<blocks_for(count), THREADS, 0, stream>>>((__half *)data, count, seed);
    else
        fill<<<blocks_for(count), THREADS, 0, stream>>>((float *)data, count, seed);
    return cudaGetLastError();
}

extern "C" cudaError_t relative_difference(const void *out, const void *expected,
                                           enum tensor_type type, size_t count, double *relative,
                                           cudaStream_t stream)
{
    double sums[2] = {0.0, 0.0}, *device_sums = NULL;
    *relative = 0.0;
    if (count == 0)
        return cudaSuccess;
    cudaError_t status = cudaMalloc((void **)&device_sums, sizeof sums);
    if (status == cudaSuccess)
        status = cudaMemsetAsync(device_sums, 0, sizeof sums, stream);
    if (status == cudaSuccess) {
        if (type == TENSOR_F16)
            add_squares<<<blocks_for(count), THREADS, 0, stream>>>(
                (const __half *)out, (const __half *)expected, count, device_sums);
        else
            add_squares<<<blocks_for(count), THREADS, 0, stream>>>(
                (const float *)out, (const float *)expected, count, device_sums);
        status = cudaGetLastError();
    }
    if (status == cudaSuccess)
        status = cudaMemcpyAsync(sums, device_sums, sizeof sums, cudaMemcpyDeviceToHost, stream);
    if (status == cudaSuccess)
        status = cudaStreamSynchronize(stream);
    cudaFree(device_sums);
    *relative = sums[1] > 0.0 ? sqrt(sums[0] / sums[1]) : sqrt(sums[0]);
    return status;
}
