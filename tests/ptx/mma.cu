// needs: sm_80
/* mma.sync takes registers and returns registers. */
#include "launches.cuh"
#include <ptx.cuh>

template <typename T>
__global__ void multiply(const uint32_t *in, uint32_t *out)
{
    const int lane = threadIdx.x;
    uint32_t a[4], b[2];
    float d[4];
    for (int i = 0; i < 4; i++) {
        a[i] = in[10 * lane + i];
        d[i] = __uint_as_float(in[10 * lane + 6 + i]);
    }
    for (int i = 0; i < 2; i++)
        b[i] = in[10 * lane + 4 + i];
    mma_m16n8k16<T>(d, a, b);
    for (int i = 0; i < 4; i++)
        out[4 * lane + i] = __float_as_uint(d[i]);
}

PTX_KERNEL(mma, multiply<__half><<<1, 32>>>(in, out))

PTX_KERNEL(mma_bfloat16, multiply<__nv_bfloat16><<<1, 32>>>(in, out))
