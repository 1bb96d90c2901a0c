/*
 * Pad a bank conflict away.
 *
 * A block of 32 x 32 threads transposes a tile through shared memory, so that neighbouring threads
 * load and store neighbouring floats (x is their lane). It writes rows of the tile and reads
 * columns. Word w lies in bank w % 32: in which banks are the 32 words of a column? How wide must a
 * row be for them to lie in 32 different ones?
 */
#include "common/harness/puzzle.cuh"

enum { TILE = 32 };

/* element (col, row) of to = element (row, col) of from; both are n x n, and TILE divides n */
__global__ void pad(const float *from, float *to, int n)
{
    __shared__ float tile[TILE][TILE + 1];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    tile[y][x] = from[(row + y) * n + col + x];
    __syncthreads();
    to[(col + y) * n + row + x] = tile[x][y];
}

int main(void)
{
    for (int n : {32, 64, 96}) {
        const struct array from = numbers("from", n * n), to = unwritten("to", n * n);
        pad<<<dim3(n / TILE, n / TILE), dim3(TILE, TILE)>>>(from.device, to.device, n);
        for (int i = 0; i < n * n; i++)
            to.host[i] = from.host[i % n * n + i / n];
        check(to, "n = %d", n);
        at_most("sectors loaded", counted().global_load_sectors, n * n / 8);
        at_most("sectors stored", counted().global_store_sectors, n * n / 8);
        at_most("wavefronts of shared memory", counted().shared_wavefronts, 2 * n * n / 32);
    }
    return right();
}
