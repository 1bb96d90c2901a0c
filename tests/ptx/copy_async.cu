/* cp.async copies both sizes, every number of source bytes, and three groups that are waited for
 * one after the other. ld.volatile.shared reads what arrived last. */
#include "launches.cuh"
#include <ptx.cuh>

__global__ void copy_async(const uint32_t *in, uint32_t *out)
{
    __shared__ __align__(16) uint32_t wide[32][4], narrow[32], reversed[32][4], plain[32];
    const int lane = threadIdx.x;

    cp_async_16_zero_fill(shared_address(wide[lane]), in + 4 * lane, 4 * (lane % 5));
    cp_async_commit();
    cp_async_4_zero_fill(shared_address(&narrow[lane]), in + 128 + lane, lane % 2 * 4);
    cp_async_commit();
    cp_async_16(shared_address(reversed[31 - lane]), in + 160 + 4 * lane);
    cp_async_4(shared_address(&plain[lane]), in + 288 + lane);
    cp_async_commit();

    cp_async_wait<2>();
    for (int i = 0; i < 4; i++) /* this thread's own copies need no barrier */
        out[4 * lane + i] = wide[lane][i];
    cp_async_wait<1>();
    out[128 + lane] = narrow[lane];
    cp_async_wait<0>();
    out[288 + lane] = plain[lane];
    __syncthreads(); /* the others' copies do */
    const float4 words = volatile_load((const float *)reversed[lane]);
    out[160 + 4 * lane] = __float_as_uint(words.x);
    out[160 + 4 * lane + 1] = __float_as_uint(words.y);
    out[160 + 4 * lane + 2] = __float_as_uint(words.z);
    out[160 + 4 * lane + 3] = __float_as_uint(words.w);
}

PTX_KERNEL(copy_async, copy_async<<<1, 32>>>(in, out))
