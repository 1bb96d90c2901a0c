/* The kernels find out who comes first: every block, or every thread of one block, draws a
 * number. */
#include "features.h"

/* There is one thread per block, or one block. */
__global__ void draw(int *next, int *order)
{
    order[atomicAdd(next, 1)] = blockIdx.x + threadIdx.x;
}

static cudaError_t collect(int *order, const int *data, int count)
{
    const cudaError_t error = finished();
    for (int i = 0; error == cudaSuccess && i < count; i++)
        order[i] = data[1 + i];
    return error;
}

cudaError_t order_of_blocks(int *order, int blocks)
{
    int *data = shared_array<int>(1 + blocks);
    draw<<<blocks, 1>>>(data, data + 1);
    return collect(order, data, blocks);
}

cudaError_t order_of_threads(int *order, int threads)
{
    int *data = shared_array<int>(1 + threads);
    draw<<<1, threads>>>(data, data + 1);
    return collect(order, data, threads);
}

/* Each thread of a block of 1024 reads twice what its opposite wrote, so all threads have their
 * stacks at the same time. */
__global__ void exchange_twice(int *sums)
{
    __shared__ int place[1024];
    place[threadIdx.x] = blockIdx.x + threadIdx.x;
    __syncthreads();
    const int opposite = place[1023 - threadIdx.x];
    __syncthreads();
    place[1023 - threadIdx.x] = opposite;
    __syncthreads();
    atomicAdd(&sums[blockIdx.x], place[threadIdx.x]);
}

cudaError_t exchange_in_blocks_of_1024(int *sums, int blocks)
{
    int *data = shared_array<int>(1 + blocks);
    exchange_twice<<<blocks, 1024>>>(data + 1);
    return collect(sums, data, blocks);
}
