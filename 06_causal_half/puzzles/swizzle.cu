/*
 * Swizzle a tile, so that no padding is needed.
 *
 * A tile has 8 rows of 8 chunks of 16 bytes, so a row fills all 32 banks once. Lanes 0 to 7 write a
 * row, then read a column, as ldmatrix does: 8 chunks of 8 rows. Give chunk c of row r a place in
 * its row such that the chunks of a column lie in different banks.
 */
#include "common/harness/puzzle.cuh"

enum { ROWS = 8, CHUNKS = 8 };

/* Returns where chunk `chunk` of row `row` lies in the tile, counted in chunks. */
__device__ int swizzled_place(int row, int chunk)
{
    return row * CHUNKS + (chunk ^ row);
}

/* Lane 8 i + j loads chunk j of rows i and i + 4, and stores chunk i, then i + 4, of row j. */
__global__ void swizzle(const float4 *from, float4 *to)
{
    __shared__ float4 tile[ROWS * CHUNKS];
    const int i = threadIdx.x / 8, j = threadIdx.x % 8;
    tile[swizzled_place(i, j)] = from[i * CHUNKS + j];
    tile[swizzled_place(i + 4, j)] = from[(i + 4) * CHUNKS + j];
    __syncwarp();
    to[j * CHUNKS + i] = tile[swizzled_place(j, i)];
    to[j * CHUNKS + i + 4] = tile[swizzled_place(j, i + 4)];
}

int main(void)
{
    const int n = ROWS * CHUNKS * 4;
    const struct array from = numbers("from", n), to = unwritten("to", n);
    swizzle<<<1, 32>>>((const float4 *)from.device, (float4 *)to.device);
    for (int i = 0; i < n; i++)
        to.host[i] = from.host[i];
    check(to, "8 rows of 8 chunks");
    at_most("wavefronts of shared memory", counted().shared_wavefronts, 16);
    return right();
}
