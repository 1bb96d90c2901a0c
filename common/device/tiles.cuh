/* What every plan works with: how many tiles cover something, and what a device allows. Plain C,
 * where a plan is compiled without kernels. */
#ifndef COMMON_TILES_CUH
#define COMMON_TILES_CUH

#include <cuda_runtime.h>

/* The number of tiles of `tile` elements that cover n elements; never overflows, unlike (n + tile -
 * 1) / tile. */
static inline __host__ __device__ int ceil_div(int n, int tile)
{
    return n / tile + (n % tile != 0);
}

/* A launcher asks the current device (device.h), a test makes up as many as it likes. */
struct device_limits {
    int architecture;    /* compute capability, major * 10 + minor */
    int multiprocessors; /* at least 1 */
    int shared_bytes;    /* of shared memory that a block may have, when asked for */
};

#endif
