/*
 * Reverse tiles through shared memory.
 *
 * Each block of 256 threads turns round its 256 elements: the first becomes the last. A thread
 * loads one element into a shared array and takes another one out of it. Between the two it must
 * know that the other thread has been there.
 */
#include "common/harness/puzzle.cuh"

enum { TILE = 256 };

/* within each tile: to[i] = from[TILE - 1 - i] */
__global__ void reverse(const float *from, float *to)
{
    __shared__ float tile[TILE];
    const int first = blockIdx.x * TILE;
    tile[threadIdx.x] = from[first + threadIdx.x];
    __syncthreads();
    to[first + threadIdx.x] = tile[TILE - 1 - threadIdx.x];
}

int main(void)
{
    for (int tiles : {1, 2, 9}) {
        const int n = tiles * TILE;
        const struct array from = numbers("from", n), to = unwritten("to", n);
        reverse<<<tiles, TILE>>>(from.device, to.device);
        for (int i = 0; i < n; i++)
            to.host[i] = from.host[i / TILE * TILE + TILE - 1 - i % TILE];
        check(to, "tiles = %d", tiles);
        at_most("barriers", counted().barriers, tiles);
    }
    return right();
}
