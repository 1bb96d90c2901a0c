/* These kernels go wrong. */
#include "features.h"
#include <assert.h>
#include <cooperative_groups.h>

/* Defines a function that launches what goes wrong, and returns the error of the next
 * synchronisation. */
#define FAILURE(name, ...)                                                                         \
    extern "C" cudaError_t fail_##name(void)                                                       \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
        return finished();                                                                         \
    }

static int *device_ints(size_t count)
{
    int *data = NULL;
    cudaMalloc(&data, count * sizeof *data);
    cudaMemset(data, 0, count * sizeof *data);
    return data;
}

__global__ void write_to(int *data, size_t where)
{
    if (blockIdx.x == 1 && threadIdx.x == 3)
        data[where] = 1;
}

FAILURE(null_pointer, write_to<<<2, 32>>>(NULL, 0))

/* The address is so far away that no GPU has anything there either. */
FAILURE(past_the_end, write_to<<<2, 32>>>(device_ints(1024), (size_t)1 << 36))

static int *freed_ints(size_t count)
{
    int *data = device_ints(count);
    cudaFree(data);
    return data;
}

FAILURE(after_free, write_to<<<2, 32>>>(freed_ints((size_t)1 << 24), 5))

__global__ void assert_small(int limit)
{
    assert((int)threadIdx.x < limit);
}

/* The first launch succeeds. */
FAILURE(assertion, assert_small<<<1, 32>>>(32); assert_small<<<1, 32>>>(20))

__global__ void trap()
{
    if (threadIdx.x == 1)
        __trap();
}

FAILURE(trap, trap<<<1, 2>>>())

__device__ int dig(volatile int *data, int depth)
{
    volatile int local[64];
    local[depth % 64] = data[0] + depth;
    return depth == 0 ? 0 : dig(data, depth - 1) + local[depth % 64];
}

__global__ void recurse(int *data, int depth)
{
    data[1] = dig(data, depth);
}

FAILURE(stack_overflow, recurse<<<1, 1>>>(device_ints(2), 1 << 20))

__global__ void barrier_some_skip(int *data)
{
    if (threadIdx.x < 16) {
        __syncthreads();
        data[threadIdx.x] = 1;
    } else {
        __syncwarp(0xffff0000u);
        __shfl_sync(0xffffffffu, 1, 0); /* the lanes at the barrier wait for these */
    }
}

FAILURE(barrier_that_some_threads_skip, barrier_some_skip<<<1, 32>>>(device_ints(32)))

__global__ void two_barriers(int *data)
{
    if (threadIdx.x % 2) {
        data[threadIdx.x] = 1;
        __syncthreads();
    } else {
        __syncthreads();
        data[threadIdx.x] = 2;
    }
}

FAILURE(two_barriers, two_barriers<<<1, 64>>>(device_ints(64)))

__global__ void warp_operation(int *data)
{
    if (threadIdx.x < 7)
        data[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);
    __syncthreads();
}

FAILURE(warp_operation_that_some_lanes_skip, warp_operation<<<1, 32>>>(device_ints(32)))

__global__ void foreign_mask(int *data)
{
    data[threadIdx.x] = __shfl_sync(0x0000ffffu, 1, 0);
}

FAILURE(mask_without_the_caller, foreign_mask<<<1, 32>>>(device_ints(32)))

__global__ void grid_sync_but_one()
{
    if (blockIdx.x != 2)
        cooperative_groups::this_grid().sync();
}

FAILURE(grid_sync_that_one_block_skips,
        cudaLaunchCooperativeKernel((void *)grid_sync_but_one, 4, 32, nullptr, 0, nullptr))

__global__ void set_to(int *data, int value)
{
    *data = value;
}

/* After a kernel fails, nothing that follows happens: neither the kernel nor the fill. */
cudaError_t fail_and_go_on(int *happened)
{
    cudaStream_t stream = NULL;
    int *words = NULL;
    cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaMallocHost(&words, 2 * sizeof *words);
    if (error != cudaSuccess)
        return error;
    words[0] = words[1] = 0;
    write_to<<<2, 32, 0, stream>>>(NULL, 0);
    set_to<<<1, 1, 0, stream>>>(words, 1);
    cudaMemsetAsync(words + 1, 1, sizeof *words, stream);
    error = cudaStreamSynchronize(stream);
    *happened = words[0] != 0 || words[1] != 0;
    return error;
}

cudaError_t run_harmless(int *result)
{
    int *data = NULL;
    cudaError_t error = cudaMalloc(&data, sizeof *data);
    if (error != cudaSuccess)
        return error;
    set_to<<<1, 1>>>(data, 42);
    error = cudaGetLastError();
    if (error == cudaSuccess)
        error = cudaMemcpy(result, data, sizeof *result, cudaMemcpyDeviceToHost);
    cudaFree(data);
    return error;
}
