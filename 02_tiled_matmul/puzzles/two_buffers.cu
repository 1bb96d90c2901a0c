/*
 * Two buffers, one barrier a tile.
 *
 * As in `reverse`, but one block turns round one tile after the other. With one shared array it
 * waits twice a tile: before the tile is read, and before the next one overwrites it. With two
 * arrays in turn, once is enough. Why can no thread be two tiles ahead of another?
 */
#include "common/harness/puzzle.cuh"

enum { TILE = 128 };

/* within each tile: to[i] = from[TILE - 1 - i] */
__global__ void two_buffers(const float *from, float *to, int tiles)
{
    __shared__ float buffer[2][TILE];
    for (int t = 0; t < tiles; t++) {
        buffer[t % 2][threadIdx.x] = from[t * TILE + threadIdx.x];
        __syncthreads();
        to[t * TILE + threadIdx.x] = buffer[t % 2][TILE - 1 - threadIdx.x];
    }
}

int main(void)
{
    for (int tiles : {1, 2, 3, 8}) {
        const int n = tiles * TILE;
        const struct array from = numbers("from", n), to = unwritten("to", n);
        two_buffers<<<1, TILE>>>(from.device, to.device, tiles);
        for (int i = 0; i < n; i++)
            to.host[i] = from.host[i / TILE * TILE + TILE - 1 - i % TILE];
        check(to, "tiles = %d", tiles);
        at_most("barriers", counted().barriers, tiles + 1);
    }
    return right();
}
