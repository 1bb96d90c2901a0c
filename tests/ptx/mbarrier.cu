// needs: sm_90
/* Without copies, mbarriers join a producer warp and a consumer warp through many phases. A third
 * warp polls until all are over: the others must go on beside it. */
#include "launches.cuh"
#include <ptx.cuh>

__global__ void handshakes(const uint32_t *in, uint32_t *out)
{
    __shared__ uint64_t full[2], empty[2];
    __shared__ uint32_t place[2][32];
    __shared__ int taken;
    const int lane = threadIdx.x % 32;

    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) {
            mbarrier_init(&full[i], 32);
            mbarrier_init(&empty[i], 32);
        }
        mbarrier_init_fence();
        taken = 0;
    }
    __syncthreads(); /* the barriers exist before anyone uses them */

    if (threadIdx.x >= 64)
        while (atomicAdd(&taken, 0) < HANDSHAKES)
            __nanosleep(100);
    for (int round = 0; round < HANDSHAKES && threadIdx.x < 64; round++) {
        const int at = round % 2, parity = round / 2 % 2;
        if (threadIdx.x < 32) {
            mbarrier_wait(&empty[at], parity ^ 1); /* a new place counts as empty */
            place[at][lane] = in[32 * round + lane] + round;
            mbarrier_arrive(&full[at]);
        } else {
            while (!mbarrier_try_wait(&full[at], parity)) {
            }
            out[32 * round + lane] = place[at][31 - lane];
            mbarrier_arrive(&empty[at]);
            if (lane == 0)
                atomicAdd(&taken, 1);
        }
    }
}

PTX_KERNEL(mbarrier, handshakes<<<1, 96>>>(in, out))
