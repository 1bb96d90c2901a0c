/*
 * Eight lanes share a row.
 *
 * A warp has four rows of a matrix with 8 columns: lanes 0 to 7 the first, lanes 8 to 15 the second
 * and so on. Every lane is to know the sum of its row, by shuffles. Which distances stay within the
 * row?
 */
#include "common/harness/puzzle.cuh"

enum { COLS = 8 };

/* to[i] = the sum of the row of COLS elements that element i is in */
__global__ void group_sum(const float *from, float *to)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = from[i];
    for (int distance = COLS / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    to[i] = sum;
}

int main(void)
{
    for (int blocks : {1, 3}) {
        const int n = blocks * 64;
        const struct array from = numbers("from", n), to = unwritten("to", n);
        group_sum<<<blocks, 64>>>(from.device, to.device);
        for (int i = 0; i < n; i++)
            for (int col = 0; col < COLS; col++)
                to.host[i] += from.host[i / COLS * COLS + col];
        check(to, "blocks = %d of 64 threads", blocks);
        at_most("loads", counted().global_loads, n);
        at_most("loads from shared memory", counted().shared_loads, 0);
    }
    return right();
}
