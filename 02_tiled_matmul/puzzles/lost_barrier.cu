/*
 * A barrier was lost. Put it back.
 *
 * A block goes from tile to tile. Each thread loads an element of the tile and adds to it the one
 * that lies 32 further on, which another warp has loaded. All is written but one barrier, and there
 * is one already: which warp can run ahead of which, and where do they meet in the same element?
 */
#include "common/harness/puzzle.cuh"

enum { TILE = 128 };

/* within each tile: to[i] = from[i] + from[i + 32], after the last comes the first */
__global__ void lost_barrier(const float *from, float *to, int tiles)
{
    __shared__ float tile[TILE];
    const int i = threadIdx.x;
    for (int t = 0; t < tiles; t++) {
        tile[i] = from[t * TILE + i];
        __syncthreads();
        to[t * TILE + i] = tile[i] + tile[(i + 32) % TILE];
        __syncthreads(); /* cut */
    }
}

int main(void)
{
    for (int tiles : {1, 2, 5}) {
        const int n = tiles * TILE;
        const struct array from = numbers("from", n), to = unwritten("to", n);
        lost_barrier<<<1, TILE>>>(from.device, to.device, tiles);
        for (int i = 0; i < n; i++)
            to.host[i] = from.host[i] + from.host[i / TILE * TILE + (i + 32) % TILE];
        check(to, "tiles = %d", tiles);
        at_most("barriers", counted().barriers, 2 * tiles);
    }
    return right();
}
