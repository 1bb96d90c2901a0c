/* __nv_bfloat16, __nv_bfloat162 and their functions. */
#ifndef SIMT_CUDA_BF16_H
#define SIMT_CUDA_BF16_H

#include <cuda_runtime.h>
#include <simt/half_bits.h>

#define SIMT_HALF __nv_bfloat16
#define SIMT_HALF2 __nv_bfloat162
#define SIMT_FORMAT simt::Brain16
#include <simt/half_functions.inc>
#undef SIMT_HALF
#undef SIMT_HALF2
#undef SIMT_FORMAT

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

inline __nv_bfloat16 __float2bfloat16(float value)
{
    return __nv_bfloat16(value);
}

inline __nv_bfloat16 __float2bfloat16_rn(float value)
{
    return __nv_bfloat16(value);
}

inline __nv_bfloat16 __float2bfloat16_rz(float value)
{
    return __nv_bfloat16::of_bits(simt::directed<simt::Brain16>(value, 0));
}

inline __nv_bfloat16 __double2bfloat16(double value)
{
    return __nv_bfloat16(value);
}

inline float __bfloat162float(__nv_bfloat16 value)
{
    return value;
}

inline __nv_bfloat162 __float2bfloat162_rn(float value)
{
    return __nv_bfloat162(__nv_bfloat16(value), __nv_bfloat16(value));
}

inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high)
{
    return __nv_bfloat162(__nv_bfloat16(low), __nv_bfloat16(high));
}

inline __nv_bfloat162 __float22bfloat162_rn(float2 value)
{
    return __nv_bfloat162(__nv_bfloat16(value.x), __nv_bfloat16(value.y));
}

inline float2 __bfloat1622float2(__nv_bfloat162 value)
{
    return make_float2(value.x, value.y);
}

inline float __low2float(__nv_bfloat162 value)
{
    return value.x;
}

inline float __high2float(__nv_bfloat162 value)
{
    return value.y;
}

inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high)
{
    return __nv_bfloat162(low, high);
}

inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 value)
{
    return __nv_bfloat162(value, value);
}

inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 low, __nv_bfloat16 high)
{
    return __nv_bfloat162(low, high);
}

inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 value)
{
    return value.x;
}

inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 value)
{
    return value.y;
}

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value)
{
    return value.__x;
}

inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits)
{
    return __nv_bfloat16::of_bits(bits);
}

#endif
