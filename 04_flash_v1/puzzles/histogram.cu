/*
 * Count by atomics.
 *
 * Thread i looks at element i, a whole number from 0 to 15, and adds one to the count of that
 * number. Threads of all blocks add to the same 16 counts, in no order. What does `counts[k] += 1`
 * do, step by step, and what can happen between two of its steps?
 */
#include "common/harness/puzzle.cuh"

/* counts[k] += how many of the n elements are k */
__global__ void histogram(const float *from, float *counts, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&counts[(int)from[i]], 1.0f);
}

int main(void)
{
    for (int n : {256, 7, 5000}) {
        const struct array from = numbers("from", n), counts = filled("counts", 16, 0);
        for (int i = 0; i < n; i++)
            from.host[i] = (float)(i * i % 37 % 16);
        to_device(from);
        histogram<<<(n + 255) / 256, 256>>>(from.device, counts.device, n);
        for (int i = 0; i < n; i++)
            counts.host[(int)from.host[i]]++;
        check(counts, "n = %d", n);
        at_most("loads", counted().global_loads, n);
    }
    return right();
}
