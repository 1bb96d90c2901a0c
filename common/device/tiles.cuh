/* Every plan uses these: how many tiles cover something, and what a device allows. They are plain C
 * where a plan is compiled without kernels. */
#ifndef COMMON_TILES_CUH
#define COMMON_TILES_CUH

#include <cuda_runtime.h>

/* Returns the number of tiles of `tile` elements that cover n elements. Unlike (n + tile - 1) /
 * tile it never overflows. */
static inline __host__ __device__ int ceil_div(int n, int tile)
{
    return n / tile + (n % tile != 0);
}

/* A launcher asks the current device (device.h); a test makes up as many devices as it likes. */
struct device_limits {
    int architecture;    /* compute capability, major * 10 + minor */
    int multiprocessors; /* at least 1 */
    int shared_bytes;    /* what a block may have when it asks for more than the default */
    int memory_speed;    /* GB/s at most, by its clock and width; 0: unknown */
};

#endif
