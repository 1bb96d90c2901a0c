/* These kernels use intrinsics, conversions, vectors and 16-bit floats. */
#include "features.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>

__global__ void intrinsics(int *i, float *f)
{
    unsigned x = 0x80f0000fu;
    i[0] = __popc(x) + 100 * __clz(0x00010000) + 10000 * __ffs(0x40);
    i[1] = __popcll(0xff00ff00ff00ull) + 100 * __clzll(1ll << 40);
    i[2] = __brev(0x00000006u) == 0x60000000u && __brevll(1ull) == 1ull << 63;
    i[3] = static_cast<int>(__byte_perm(0x33221100u, 0x77665544u, 0x6521u));
    i[4] = __mulhi(1 << 30, -16) + static_cast<int>(__umulhi(1u << 31, 10u)) * 100;
    i[5] = __umul64hi(1ull << 63, 6ull) == 3 && __mul24(1000, -1000) == -1000000;
    i[6] = __sad(-3, 7, 5u) + __dp4a(0x01020304, 0x01010101, 10) * 100 +
           __dp4a(make_char4(-1, 2, 3, 4), make_char4(2, 1, -1, 1), 1) * 10000;
    i[7] = static_cast<int>(__funnelshift_l(0x80000000u, 1u, 4u)) + min(3, -4) * 1000 +
           max(2u, 9u) * 100000;
    f[0] = rsqrtf(16.0f);
    f[1] = __fdividef(1.0f, 8.0f) + __saturatef(3.0f) + __saturatef(-3.0f);
    f[2] = sinpif(0.5f) + cospif(1.0f) * 4;
    f[3] = fmaxf(1.0f, nanf("")) + min(2.0f, 3.0f) + fabsf(-1.0f);
    f[4] = __fadd_rn(1.0f, 2.0f) * __fmaf_rn(2.0f, 3.0f, 4.0f) + __frcp_rn(4.0f) + __fsqrt_rn(9.0f);
    f[5] = exp2f(5.0f) + log2f(8.0f) + cbrtf(27.0f) + ldexpf(1.0f, 3);
    f[6] = fabsf(__expf(1.0f) - 2.7182818f) < 1e-5f && fabsf(__logf(10.0f) - 2.3025851f) < 1e-5f &&
           fabsf(__powf(2.0f, 0.5f) - 1.4142135f) < 1e-5f;
    f[7] = __fadd_ru(1.0f, 1e-10f) > 1.0f && __fadd_rd(1.0f, 1e-10f) == 1.0f &&
           __fadd_rd(1.0f, -1e-10f) < 1.0f && __fadd_rz(1.0f, -1e-10f) < 1.0f;
}

FEATURE(intrinsics)
{
    int *i = shared_array<int>(8);
    float *f = shared_array<float>(8);
    intrinsics<<<1, 1>>>(i, f);
    const int expected[8] = {9 + 1500 + 70000,  24 + 2300,         1, 0x66552211, -4 + 500, 1,
                             15 + 2000 + 20000, 24 - 4000 + 900000};
    const float expected_floats[8] = {0.25f, 1.125f, -3.0f, 4.0f, 33.25f, 46.0f, 1.0f, 1.0f};
    return wrong_results(
        8, [&](int k) { return (i[k] != expected[k]) + (f[k] != expected_floats[k]); });
}

__global__ void parts_of_a_word(unsigned *u, double *d)
{
    const unsigned a = 0x80017fffu, b = 0x00020001u, c = 0x01ff8000u, e = 0xff01807fu;
    const int halves = static_cast<int>(0xffff0003u), bytes = static_cast<int>(0xff040502u);
    u[0] = __vadd2(a, b);
    u[1] = __vaddss2(a, b);
    u[2] = __vsubus2(a, b);
    u[3] = __vmaxs2(a, b);
    u[4] = __vabsdiffu4(c, e) + __vsadu4(c, e);
    u[5] = __vabsss4(0x80ff017fu);
    u[6] = __vcmpgts4(0x80ff017fu, 0x7f00007fu);
    u[7] = __vsetgeu4(0x80ff017fu, 0x7f00007fu);
    u[8] = __vavgs2(0xffff0001u, 0xfffe0002u);
    u[9] =
        static_cast<unsigned>(__dp2a_lo(halves, bytes, 100) + 1000 * __dp2a_hi(halves, bytes, 100));
    u[10] =
        __funnelshift_lc(1u, 2u, 99u) + 10 * __funnelshift_rc(1u, 2u, 32u) + 100 * __urhadd(4u, 5u);
    u[11] = __dp2a_hi(make_ushort2(2, 3), make_uchar4(0, 0, 5, 7), 1u) + ullmax(7ull, 40ull);
    d[0] = norm4d(1.0, 2.0, 4.0, 10.0) + rnorm3df(2.0f, 3.0f, 6.0f) * 7 + rhypot(3.0, 4.0) * 5;
}

FEATURE(parts_of_words)
{
    unsigned *u = shared_array<unsigned>(12);
    double *d = shared_array<double>(1);
    parts_of_a_word<<<1, 1>>>(u, d);
    const unsigned expected[12] = {0x80038000u,       0x80037fffu, 0x7fff7ffeu, 0x00027fffu,
                                   0xfefe007fu + 635, 0x7f01017fu, 0x0000ff00u, 0x01010101u,
                                   0xfffe0002u,       113101,      521,         72};
    return wrong_results(
        12, [&](int i) { return (u[i] != expected[i]) + !(fabs(d[0] - 13.0) < 1e-5); });
}

__global__ void conversions(int *i, long long *l)
{
    i[0] = __float2int_rn(2.5f) + 10 * __float2int_rn(3.5f) + 100 * __float2int_rz(-2.9f);
    i[1] = __float2int_ru(2.1f) + 10 * __float2int_rd(-2.1f);
    i[2] = __float2int_rz(1e20f) == 0x7fffffff && static_cast<int>(__float2uint_rz(-1.0f)) == 0;
    i[3] = __float_as_int(1.0f) == 0x3f800000 && __int_as_float(0x40000000) == 2.0f;
    i[4] = __double2int_rn(-7.5) + (__int2float_rz(0x7fffffff) < 2147483648.0f);
    i[5] = __double2hiint(1.0) == 0x3ff00000 && __hiloint2double(0x3ff00000, 0) == 1.0;
    l[0] = __double2ll_rd(-1.5) * 10 + __float2ll_rn(4.0f);
    l[1] = __double_as_longlong(-0.0) == static_cast<long long>(1ull << 63);
}

FEATURE(conversions)
{
    int *i = shared_array<int>(6);
    long long *l = shared_array<long long>(2);
    conversions<<<1, 1>>>(i, l);
    return wrong_results([&] {
        return (i[0] != 2 + 40 - 200) + (i[1] != 3 - 30) + (i[2] != 1) + (i[3] != 1) +
               (i[4] != -8 + 1) + (i[5] != 1) + (l[0] != -16) + (l[1] != 1);
    });
}

__global__ void vectors(const float4 *in, float4 *out, int2 *pairs, uchar4 *bytes)
{
    __shared__ float4 tile[32];
    int i = threadIdx.x;
    tile[i] = in[i];
    __syncthreads();
    float4 v = tile[31 - i];
    v.x += v.w;
    out[i] = v;
    reinterpret_cast<float2 *>(out + i)[1] = make_float2(v.w, v.z);
    pairs[i] = make_int2(i, -i);
    bytes[i] = make_uchar4(static_cast<unsigned char>(i), 1, 2, 255);
}

FEATURE(vectors)
{
    float4 *in = shared_array<float4>(32), *out = shared_array<float4>(32);
    int2 *pairs = shared_array<int2>(32);
    uchar4 *bytes = shared_array<uchar4>(32);
    for (int i = 0; i < 32; i++)
        in[i] = make_float4(i, i + 0.25f, i + 0.5f, i + 0.75f);
    vectors<<<1, 32>>>(in, out, pairs, bytes);
    const int wrong = wrong_results(32, [&](int i) {
        const float b = (float)(31 - i);
        return (out[i].x != 2 * b + 0.75f) + (out[i].y != b + 0.25f) + (out[i].z != b + 0.75f) +
               (out[i].w != b + 0.5f) + (pairs[i].y != -i) + (bytes[i].x != i) +
               (bytes[i].w != 255);
    });
    return wrong + (sizeof(float4) != 16) + (alignof(float4) != 16) + (sizeof(float3) != 12) +
           (alignof(int2) != 8) + (sizeof(double2) != 16);
}

__global__ void halves(float *f, unsigned short *bits, __half *sum, __half2 *pair)
{
    __half a = __float2half(1.5f), b = __float2half(0.1f), c = a + b;
    f[0] = __half2float(c);
    f[1] = __half2float(__hfma(a, a, b));
    f[2] = __low2float(__hmul2(__floats2half2_rn(3.0f, 4.0f), __float2half2_rn(2.0f)));
    f[3] = __hgt(a, b) + 2 * (a < b) + 4 * __hisnan(__float2half(nanf("")));
    f[4] = __half2float(hexp2(__float2half(3.0f))) + __half2float(hsqrt(__float2half(16.0f)));
    __half other = __shfl_xor_sync(0xffffffffu, __float2half(threadIdx.x), 3);
    if (threadIdx.x == 0)
        f[5] = __half2float(other);
    f[6] = __half22float2(__halves2half2(a, b)).x + __half2int_rn(__float2half(2.5f));
    f[7] = __half2float(__hmax(a, b)) + __half2float(__habs(__hneg(a)));
    bits[0] = __half_as_ushort(__float2half_rn(65519.0f));
    bits[1] = __half_as_ushort(__float2half_rn(65520.0f));
    bits[2] = __half_as_ushort(__float2half_rn(ldexpf(1.0f, -24)));
    bits[3] = __half_as_ushort(__float2half_rn(ldexpf(1.0f, -25)));
    bits[4] = __half_as_ushort(__float2half_rn(1.0f + ldexpf(1.0f, -11)));
    bits[5] = __half_as_ushort(__float2half_ru(1.0f + ldexpf(1.0f, -20)));
    bits[6] = __half_as_ushort(__float2half_rz(-1.9999f));
    bits[7] = __half_as_ushort(__float2half_rn(-1.0f / 3));
    atomicAdd(sum, __float2half(0.5f));
    atomicAdd(pair, __floats2half2_rn(1.0f, -1.0f));
}

FEATURE(half)
{
    float *f = shared_array<float>(8);
    unsigned short *bits = shared_array<unsigned short>(8);
    __half *sum = shared_array<__half>(2);
    __half2 *pair = shared_array<__half2>(1);
    halves<<<1, 32>>>(f, bits, sum, pair);
    int wrong = wait_for_kernel();
    /* 0.1 is 0.0999755859375 in binary16, and 1.6 is 1.599609375. */
    const float expected[8] = {1.599609375f, 2.349609375f, 6.0f, 5.0f, 12.0f, 3.0f, 3.5f, 3.0f};
    const unsigned short expected_bits[8] = {0x7bff, 0x7c00, 0x0001, 0x0000,
                                             0x3c00, 0x3c01, 0xbfff, 0xb555};
    for (int k = 0; wrong >= 0 && k < 8; k++)
        wrong += (f[k] != expected[k]) + (bits[k] != expected_bits[k]);
    if (wrong >= 0)
        wrong += (__half2float(*sum) != 16.0f) + (__low2float(*pair) != 32.0f) +
                 (__high2float(*pair) != -32.0f);
    /* Every value must survive conversion to float and back. */
    for (int i = 0; wrong >= 0 && i < 65536; i++) {
        float value = __half2float(__ushort_as_half((unsigned short)i));
        wrong += value == value && __half_as_ushort(__float2half(value)) != i;
    }
    return wrong;
}

/* Each bit is one comparison, of a and b and of a and NaN. */
__global__ void compare_halves(unsigned *out)
{
    const __half a = __float2half(1.5f), b = __float2half(0.1f), nan = __float2half(nanf(""));
    out[0] =
        __hne(a, b) | __hneu(a, b) << 1 | __hlt(a, b) << 2 | __hltu(a, b) << 3 | __hgeu(a, b) << 4;
    out[1] = __hne(a, nan) | __hneu(a, nan) << 1 | (a != nan) << 2 | __heq(a, nan) << 3 |
             __hequ(a, nan) << 4 | __hgt(a, nan) << 5 | __hgtu(a, nan) << 6;
    const __half2 left = __halves2half2(a, nan), right = __halves2half2(b, a);
    out[2] = __hgt2_mask(left, right);
    out[3] = __hgtu2_mask(left, right);
    out[4] = __hbgt2(left, right) | __hbgtu2(left, right) << 1;
    out[5] = __half_as_ushort(__hfma_sat(a, a, b));
    out[6] = __half_as_ushort(__low2half(__hadd2_sat(left, right)));
}

FEATURE(half_comparisons)
{
    unsigned *out = shared_array<unsigned>(7);
    compare_halves<<<1, 1>>>(out);
    const unsigned expected[7] = {0x13, 0x56, 0xffff, 0xffffffff, 2, 0x3c00, 0x3c00};
    return wrong_results(7, [&](int k) { return out[k] != expected[k]; });
}

__global__ void brains(float *f)
{
    __nv_bfloat16 a = __float2bfloat16(3.0f), b = __float2bfloat16(1.0f / 3);
    f[0] = __bfloat162float(a);
    f[1] = __bfloat162float(b);
    f[2] = __bfloat162float(__hmul(a, b));
    f[3] = __high2float(__floats2bfloat162_rn(1.0f, 257.0f));
    f[4] = __bfloat162int_rn(__float2bfloat16(-2.5f)) + __bfloat162uint_ru(a);
    f[5] = __bfloat162float(__int2bfloat16_rn(259));
}

FEATURE(bfloat16)
{
    float *f = shared_array<float>(6);
    brains<<<1, 1>>>(f);
    const float expected[6] = {3.0f, 0.333984375f, 1.0f, 256.0f, 1.0f, 260.0f};
    return wrong_results(6, [&](int k) { return f[k] != expected[k]; });
}

/* The clocks tick together: consecutive reads never go back, nor far ahead. */
__global__ void read_clocks(long long *out)
{
    out[0] = clock64();
    out[1] = clock();
    out[2] = clock64();
}

FEATURE(clocks)
{
    long long *out = shared_array<long long>(3);
    read_clocks<<<1, 1>>>(out);
    int wrong = wait_for_kernel();
    if (wrong < 0)
        return wrong;
    if (sizeof(clock_t) > 4)
        return !(out[0] <= out[1] && out[1] <= out[2]);
    return (unsigned)(out[1] - out[0]) > 1000000;
}
