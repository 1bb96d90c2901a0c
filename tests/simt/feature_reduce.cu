// needs: sm_80
/* These kernels reduce a warp in one instruction. */
#include "features.h"

#define FULL 0xffffffffu

__global__ void reduce(int *out)
{
    int lane = threadIdx.x, value = lane * 7 % 32 - 10;
    int *mine = out + 8 * threadIdx.x;
    mine[0] = __reduce_add_sync(FULL, value);
    mine[1] = __reduce_min_sync(FULL, value);
    mine[2] = __reduce_max_sync(FULL, value);
    mine[3] = static_cast<int>(__reduce_max_sync(FULL, static_cast<unsigned>(value)));
    mine[4] = static_cast<int>(__reduce_and_sync(FULL, static_cast<unsigned>(lane | 64)));
    mine[5] = static_cast<int>(__reduce_or_sync(FULL, 1u << lane));
    mine[6] = static_cast<int>(__reduce_xor_sync(FULL, static_cast<unsigned>(lane)));
    mine[7] = static_cast<int>(__reduce_min_sync(FULL, static_cast<unsigned>(lane + 5)));
}

FEATURE(warp_reductions)
{
    int major = 0, *out = shared_array<int>(8 * 32);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    if (major < 8)
        return 0; /* the hardware has these from sm_80 on */
    reduce<<<1, 32>>>(out);
    const int expected[8] = {31 * 16 - 320, -10, 21, -1, 64, -1, 0, 5};
    return wrong_results(8 * 32, [&](int i) { return out[i] != expected[i % 8]; });
}
