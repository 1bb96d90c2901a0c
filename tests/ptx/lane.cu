// needs: sm_75
/* Each thread reads the number of its lane. */
#include "launches.cuh"
#include <ptx.cuh>

__global__ void read_lanes(const uint32_t *in, uint32_t *out)
{
    out[threadIdx.x] = in[volatile_lane()];
}

PTX_KERNEL(lane, read_lanes<<<1, 96>>>(in, out))
