// needs: sm_90a
/* With setmaxnreg the last warpgroup gives registers back, and the others take them. */
#include "launches.cuh"
#include <ptx.cuh>

__global__ void __launch_bounds__(384, 1) redistribute(const uint32_t *in, uint32_t *out)
{
    if (threadIdx.x / 128 == 2) {
        registers_decrease<24>();
    } else {
        registers_increase<240>();
        uint32_t sum = 0;
        for (int i = 0; i < 64; i++)
            sum += in[(threadIdx.x + i) % 64];
        out[threadIdx.x] = sum;
    }
}

PTX_KERNEL(registers, redistribute<<<1, 384>>>(in, out))
