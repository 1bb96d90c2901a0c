/* __half (IEEE binary16), __half2 and their functions. */
#ifndef SIMT_CUDA_FP16_H
#define SIMT_CUDA_FP16_H

#include <cuda_runtime.h>

#ifndef __cplusplus

typedef struct {
    unsigned short __x;
} __half;
typedef struct __attribute__((aligned(4))) {
    __half x, y;
} __half2;

#else

#include <simt/half_bits.h>

#define SIMT_HALF __half
#define SIMT_HALF2 __half2
#define SIMT_FORMAT simt::Binary16
#include <simt/half_functions.inc>
#undef SIMT_HALF
#undef SIMT_HALF2
#undef SIMT_FORMAT

typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;

#define CUDART_INF_FP16 __half::of_bits(0x7c00)
#define CUDART_NAN_FP16 __half::of_bits(0x7fff)
#define CUDART_ZERO_FP16 __half::of_bits(0x0000)
#define CUDART_ONE_FP16 __half::of_bits(0x3c00)
#define CUDART_MAX_NORMAL_FP16 __half::of_bits(0x7bff)

/* ---------------------------------------------------------------------------------------------- */
/* To and from float and double */

inline __half __float2half(float value)
{
    return __half(value);
}

inline __half __float2half_rn(float value)
{
    return __half(value);
}

inline __half __float2half_rz(float value)
{
    return __half::of_bits(simt::directed<simt::Binary16>(value, 0));
}

inline __half __float2half_ru(float value)
{
    return __half::of_bits(simt::directed<simt::Binary16>(value, 1));
}

inline __half __float2half_rd(float value)
{
    return __half::of_bits(simt::directed<simt::Binary16>(value, -1));
}

inline __half __double2half(double value)
{
    return __half(value);
}

inline float __half2float(__half value)
{
    return value;
}

inline __half2 __float2half2_rn(float value)
{
    return __half2(__half(value), __half(value));
}

inline __half2 __floats2half2_rn(float low, float high)
{
    return __half2(__half(low), __half(high));
}

inline __half2 __float22half2_rn(float2 value)
{
    return __half2(__half(value.x), __half(value.y));
}

inline float2 __half22float2(__half2 value)
{
    return make_float2(value.x, value.y);
}

inline float __low2float(__half2 value)
{
    return value.x;
}

inline float __high2float(__half2 value)
{
    return value.y;
}

/* ---------------------------------------------------------------------------------------------- */
/* To and from integers */

#define SIMT_INTEGER(name, T)                                                                      \
    inline T __half2##name##_rn(__half value)                                                      \
    {                                                                                              \
        return simt::saturated<T>(std::nearbyint(static_cast<float>(value)));                      \
    }                                                                                              \
    inline T __half2##name##_rz(__half value)                                                      \
    {                                                                                              \
        return simt::saturated<T>(std::trunc(static_cast<float>(value)));                          \
    }                                                                                              \
    inline T __half2##name##_ru(__half value)                                                      \
    {                                                                                              \
        return simt::saturated<T>(std::ceil(static_cast<float>(value)));                           \
    }                                                                                              \
    inline T __half2##name##_rd(__half value)                                                      \
    {                                                                                              \
        return simt::saturated<T>(std::floor(static_cast<float>(value)));                          \
    }                                                                                              \
    inline __half __##name##2half_rn(T value)                                                      \
    {                                                                                              \
        return __half(static_cast<double>(value));                                                 \
    }

/* clang-format off */
SIMT_INTEGER(int, int)
SIMT_INTEGER(uint, unsigned int)
SIMT_INTEGER(short, short)
SIMT_INTEGER(ushort, unsigned short)
SIMT_INTEGER(ll, long long)
SIMT_INTEGER(ull, unsigned long long)
/* clang-format on */
#undef SIMT_INTEGER

inline short __half_as_short(__half value)
{
    return static_cast<short>(value.__x);
}

inline unsigned short __half_as_ushort(__half value)
{
    return value.__x;
}

inline __half __short_as_half(short bits)
{
    return __half::of_bits(static_cast<uint16_t>(bits));
}

inline __half __ushort_as_half(unsigned short bits)
{
    return __half::of_bits(bits);
}

/* ---------------------------------------------------------------------------------------------- */
/* Parts of __half2 */

inline __half2 make_half2(__half low, __half high)
{
    return __half2(low, high);
}

inline __half2 __halves2half2(__half low, __half high)
{
    return __half2(low, high);
}

inline __half2 __half2half2(__half value)
{
    return __half2(value, value);
}

inline __half __low2half(__half2 value)
{
    return value.x;
}

inline __half __high2half(__half2 value)
{
    return value.y;
}

inline __half2 __low2half2(__half2 value)
{
    return __half2(value.x, value.x);
}

inline __half2 __high2half2(__half2 value)
{
    return __half2(value.y, value.y);
}

inline __half2 __lows2half2(__half2 a, __half2 b)
{
    return __half2(a.x, b.x);
}

inline __half2 __highs2half2(__half2 a, __half2 b)
{
    return __half2(a.y, b.y);
}

inline __half2 __lowhigh2highlow(__half2 value)
{
    return __half2(value.y, value.x);
}

#endif

#endif
