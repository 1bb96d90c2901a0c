/* Counting tiles: the one piece of index arithmetic that every plan, every launcher and every
 * ragged loop needs. Plain C where a plan is compiled without kernels. */
#ifndef COMMON_TILES_CUH
#define COMMON_TILES_CUH

#include <cuda_runtime.h>

/* The number of tiles of `tile` elements that cover n elements; never overflows, unlike (n + tile -
 * 1) / tile. */
static inline __host__ __device__ int ceil_div(int n, int tile)
{
    return n / tile + (n % tile != 0);
}

#endif
