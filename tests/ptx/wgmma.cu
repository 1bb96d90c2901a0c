// needs: sm_90a
/* wgmma reads operands wherever the layout says, with two products in one group. */
#include "launches.cuh"
#include <ptx.cuh>

/* The swizzle is not one of wgmma_descriptor's arguments, because that always says 1, 128 bytes. */
static __device__ uint64_t descriptor_of(const char *image, int begin, int leading, int stride,
                                         int swizzle)
{
    const uint64_t descriptor = wgmma_descriptor(shared_address(image) + begin, leading, stride);
    return (descriptor & ~((uint64_t)3 << 62)) | (uint64_t)swizzle << 62;
}

template <int N, enum wgmma_form FORM, typename T>
__global__ void __launch_bounds__(128, 1)
    multiply(const uint32_t *in, uint32_t *out, struct wgmma_layout layout)
{
    extern __shared__ __align__(1024) char image[];
    constexpr int IMAGE_WORDS = WGMMA_IMAGE / 4,
                  A_WORDS = FORM == WGMMA_REGISTERS ? 4 * WGMMA_STEPS : 0;
    for (int i = threadIdx.x; i < IMAGE_WORDS; i += 128)
        ((uint32_t *)image)[i] = in[i];

    const uint32_t *own = in + IMAGE_WORDS + threadIdx.x * (A_WORDS + N / 2);
    uint32_t a[WGMMA_STEPS][4] = {};
    float d[N / 2];
#pragma unroll
    for (int i = 0; i < A_WORDS; i++)
        a[i / 4][i % 4] = own[i];
#pragma unroll
    for (int i = 0; i < N / 2; i++)
        d[i] = __uint_as_float(own[A_WORDS + i]);
    async_proxy_fence();
    __syncthreads(); /* the image is complete, and visible to the tensor cores */

    const uint64_t A =
        descriptor_of(image, layout.a_begin, layout.a_leading, layout.a_stride, layout.swizzle);
    const uint64_t B =
        descriptor_of(image, layout.b_begin, layout.b_leading, layout.b_stride, layout.swizzle);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < WGMMA_STEPS; step++) {
        const int accumulate = step > 0 || layout.accumulate;
        if constexpr (FORM == WGMMA_REGISTERS)
            wgmma_registers<N, T>(d, a[step], wgmma_descriptor_at(B, step * layout.b_step),
                                  accumulate);
        else if constexpr (FORM == WGMMA_SHARED_TRANSPOSED)
            wgmma_shared_transposed<N, T>(d, wgmma_descriptor_at(A, step * layout.a_step),
                                          wgmma_descriptor_at(B, step * layout.b_step), accumulate);
        else
            wgmma_shared<N, T>(d, wgmma_descriptor_at(A, step * layout.a_step),
                               wgmma_descriptor_at(B, step * layout.b_step), accumulate);
    }
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(d);
#pragma unroll
    for (int i = 0; i < N / 2; i++)
        out[threadIdx.x * (N / 2) + i] = __float_as_uint(d[i]);
}

template <int N, enum wgmma_form FORM>
static cudaError_t run(const uint32_t *in, uint32_t *out, struct wgmma_layout layout)
{
    if (layout.bfloat16)
        multiply<N, FORM, __nv_bfloat16><<<1, 128, WGMMA_IMAGE>>>(in, out, layout);
    else
        multiply<N, FORM, __half><<<1, 128, WGMMA_IMAGE>>>(in, out, layout);
    return finished();
}

template <int N>
static cudaError_t run(const uint32_t *in, uint32_t *out, struct wgmma_layout layout)
{
    if constexpr (N != 80)
        if (layout.form == WGMMA_REGISTERS)
            return run<N, WGMMA_REGISTERS>(in, out, layout);
    if (layout.form == WGMMA_SHARED_TRANSPOSED)
        return run<N, WGMMA_SHARED_TRANSPOSED>(in, out, layout);
    return run<N, WGMMA_SHARED>(in, out, layout);
}

cudaError_t ptx_wgmma(const uint32_t *in, uint32_t *out, struct wgmma_layout layout)
{
    return layout.n == 64   ? run<64>(in, out, layout)
           : layout.n == 80 ? run<80>(in, out, layout)
                            : run<128>(in, out, layout);
}
