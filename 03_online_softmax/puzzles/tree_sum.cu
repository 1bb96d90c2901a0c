/*
 * A sum by a tree.
 *
 * A block of 256 threads sums its 256 elements in shared memory: first thread i adds element
 * i + 128 to element i, for i < 128; then i + 64 for i < 64; and so on. Which threads must wait
 * between two of these steps, and may the others leave?
 */
#include "common/harness/puzzle.cuh"

enum { THREADS = 256 };

/* sum[block] = the sum of the block's THREADS elements of from */
__global__ void tree_sum(const float *from, float *sum)
{
    __shared__ float part[THREADS];
    const int i = threadIdx.x;
    part[i] = from[blockIdx.x * THREADS + i];
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (i < half)
            part[i] += part[i + half];
        __syncthreads();
    }
    if (i == 0)
        sum[blockIdx.x] = part[0];
}

int main(void)
{
    for (int blocks : {1, 5}) {
        const int n = blocks * THREADS;
        const struct array from = numbers("from", n), sum = unwritten("sum", blocks);
        tree_sum<<<blocks, THREADS>>>(from.device, sum.device);
        for (int i = 0; i < n; i++)
            sum.host[i / THREADS] += from.host[i];
        check(sum, "blocks = %d", blocks);
        at_most("loads", counted().global_loads, n);
        at_most("loads from shared memory", counted().shared_loads, 3 * n);
        at_most("barriers", counted().barriers, 10 * blocks);
    }
    return right();
}
