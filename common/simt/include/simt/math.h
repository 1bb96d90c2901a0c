/*
 * CUDA's mathematical functions that <math.h> does not have, and the integer and conversion
 * intrinsics.
 *
 * The fast intrinsics (__expf, __sinf, __fdividef, ...) give the accurate result: programs that
 * need the accuracy of the slow functions cannot be told apart here from those that do with less.
 */
#pragma once

#include <cfenv>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <math.h>
#include <type_traits>

/* ---- min, max, abs for every pair of types that CUDA has ---- */

#define SIMT_MIN_MAX(A, B, R)                                                                      \
    constexpr R min(A a, B b) { return (R)b < (R)a ? (R)b : (R)a; }                                \
    constexpr R max(A a, B b) { return (R)a < (R)b ? (R)b : (R)a; }
#define SIMT_MIN_MAX_INTEGER(S, U)                                                                 \
    SIMT_MIN_MAX(S, S, S) SIMT_MIN_MAX(U, U, U) SIMT_MIN_MAX(S, U, U) SIMT_MIN_MAX(U, S, U)
/* Like fminf and fmaxf: a number wins over NaN. */
#define SIMT_MIN_MAX_FLOAT(A, B, R)                                                                \
    inline R min(A a, B b) { return std::fmin(R(a), R(b)); }                                       \
    inline R max(A a, B b) { return std::fmax(R(a), R(b)); }

/* clang-format off */
SIMT_MIN_MAX_INTEGER(int, unsigned int)
SIMT_MIN_MAX_INTEGER(long, unsigned long)
SIMT_MIN_MAX_INTEGER(long long, unsigned long long)
SIMT_MIN_MAX_FLOAT(float, float, float)
SIMT_MIN_MAX_FLOAT(double, double, double)
SIMT_MIN_MAX_FLOAT(float, double, double)
SIMT_MIN_MAX_FLOAT(double, float, double)
/* clang-format on */
#undef SIMT_MIN_MAX
#undef SIMT_MIN_MAX_INTEGER
#undef SIMT_MIN_MAX_FLOAT

constexpr unsigned int umin(unsigned int a, unsigned int b) { return b < a ? b : a; }
constexpr unsigned int umax(unsigned int a, unsigned int b) { return a < b ? b : a; }

/* ---- Functions of float and double that <math.h> lacks ---- */

#define SIMT_FUNCTION(name, expression)                                                            \
    inline double name(double x) { return expression; }                                            \
    inline float name##f(float single) { return float(name(double(single))); }

namespace simt
{

constexpr double pi = 3.14159265358979323846;

/* sin(pi x) with exact zeros and ones: x is brought to [-1, 1] first. */
inline double sin_of_pi(double x)
{
    double reduced = std::remainder(x, 2.0);
    if (std::fabs(reduced) == 1.0)
        return std::copysign(0.0, x);
    return std::sin(pi * reduced);
}

inline double cos_of_pi(double x)
{
    double reduced = std::fabs(std::remainder(x, 2.0));
    return reduced == 0.5 || reduced == 1.5 ? 0.0 : std::cos(pi * reduced);
}

/* Newton's method on erf, from a rational first guess. */
inline double inverse_erf(double y)
{
    if (!(y > -1.0 && y < 1.0))
        return y == 1.0 || y == -1.0 ? y * HUGE_VAL : NAN;
    double l = std::log1p(-y * y), a = 0.147, b = 2 / (pi * a) + l / 2;
    double x = std::copysign(std::sqrt(std::sqrt(b * b - l / a) - b), y);
    for (int step = 0; step < 4 && x != 0.0; step++)
        x -= (std::erf(x) - y) * std::sqrt(pi) / 2 * std::exp(x * x);
    return x;
}

} /* namespace simt */

/* clang-format off */
SIMT_FUNCTION(rcbrt, 1.0 / std::cbrt(x))
SIMT_FUNCTION(sinpi, simt::sin_of_pi(x))
SIMT_FUNCTION(cospi, simt::cos_of_pi(x))
SIMT_FUNCTION(erfinv, simt::inverse_erf(x))
SIMT_FUNCTION(erfcinv, simt::inverse_erf(1.0 - x))
SIMT_FUNCTION(erfcx, std::exp(x * x) * std::erfc(x))
SIMT_FUNCTION(normcdf, 0.5 * std::erfc(-x / std::sqrt(2.0)))
SIMT_FUNCTION(normcdfinv, std::sqrt(2.0) * simt::inverse_erf(2.0 * x - 1.0))
/* clang-format on */
#undef SIMT_FUNCTION

inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float fdividef(float x, float y) { return x / y; }
inline float norm3df(float a, float b, float c) { return std::hypot(a, b, c); }
inline double norm3d(double a, double b, double c) { return std::hypot(a, b, c); }
inline float rhypotf(float x, float y) { return 1.0f / std::hypot(x, y); }

inline void sincospif(float x, float *sine, float *cosine)
{
    *sine = sinpif(x);
    *cosine = cospif(x);
}

inline void sincospi(double x, double *sine, double *cosine)
{
    *sine = sinpi(x);
    *cosine = cospi(x);
}

/* ---- Fast intrinsics. The C library declares the first ten under these names without defining
 * them. ---- */

#define SIMT_FAST(name, accurate)                                                                  \
    extern "C" inline float name(float x) noexcept { return accurate(x); }

/* clang-format off */
SIMT_FAST(__expf, std::exp)
SIMT_FAST(__exp10f, ::exp10f)
SIMT_FAST(__logf, std::log)
SIMT_FAST(__log2f, std::log2)
SIMT_FAST(__log10f, std::log10)
SIMT_FAST(__sinf, std::sin)
SIMT_FAST(__cosf, std::cos)
SIMT_FAST(__tanf, std::tan)
SIMT_FAST(__tanhf, std::tanh)
SIMT_FAST(__exp2f, std::exp2)
/* clang-format on */
#undef SIMT_FAST

extern "C" inline float __powf(float x, float y) noexcept { return std::pow(x, y); }

extern "C" inline void __sincosf(float x, float *sine, float *cosine) noexcept
{
    *sine = std::sin(x);
    *cosine = std::cos(x);
}

inline float __fdividef(float x, float y) { return x / y; }

inline float __frsqrt_rn(float x) { return float(1.0 / std::sqrt(double(x))); }

inline float __saturatef(float x)
{
    return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; /* NaN becomes 0 */
}

/* ---- Arithmetic with a rounding direction ---- */

namespace simt
{

/* volatile, or the compiler would calculate before the direction is set. */
template <int direction, class To, class T, class Operation>
inline To rounded(Operation operation, T x, T y = T(0), T z = T(0))
{
    volatile T a = x, b = y, c = z;
    if (direction == FE_TONEAREST)
        return To(operation(a, b, c));
    int before = std::fegetround();
    std::fesetround(direction);
    volatile To result = To(operation(a, b, c));
    std::fesetround(before);
    return result;
}

} /* namespace simt */

/* In each direction: R name_rn(parameters) and so on, from an expression in a, b and c of type T.
 */
#define SIMT_ROUNDED_TO(R, name, T, parameters, arguments, expression, direction)                  \
    inline R name parameters                                                                       \
    {                                                                                              \
        auto operation = [](T a, [[maybe_unused]] T b, [[maybe_unused]] T c) -> R {                \
            return expression;                                                                     \
        };                                                                                         \
        return simt::rounded<direction, R, T> arguments;                                           \
    }
#define SIMT_ROUNDED(R, name, T, parameters, arguments, expression)                                \
    SIMT_ROUNDED_TO(R, name##_rn, T, parameters, arguments, expression, FE_TONEAREST)              \
    SIMT_ROUNDED_TO(R, name##_rz, T, parameters, arguments, expression, FE_TOWARDZERO)             \
    SIMT_ROUNDED_TO(R, name##_ru, T, parameters, arguments, expression, FE_UPWARD)                 \
    SIMT_ROUNDED_TO(R, name##_rd, T, parameters, arguments, expression, FE_DOWNWARD)
#define SIMT_ROUNDED_1(R, name, T, expression)                                                     \
    SIMT_ROUNDED(R, name, T, (T x), (operation, x), expression)
#define SIMT_ROUNDED_2(T, name, expression)                                                        \
    SIMT_ROUNDED(T, name, T, (T x, T y), (operation, x, y), expression)
#define SIMT_ROUNDED_3(T, name, expression)                                                        \
    SIMT_ROUNDED(T, name, T, (T x, T y, T z), (operation, x, y, z), expression)

/* clang-format off */
SIMT_ROUNDED_2(float, __fadd, a + b)
SIMT_ROUNDED_2(float, __fsub, a - b)
SIMT_ROUNDED_2(float, __fmul, a * b)
SIMT_ROUNDED_2(float, __fdiv, a / b)
SIMT_ROUNDED_3(float, __fmaf, std::fma(a, b, c))
SIMT_ROUNDED_1(float, __frcp, float, 1.0f / a)
SIMT_ROUNDED_1(float, __fsqrt, float, std::sqrt(a))
SIMT_ROUNDED_1(double, __drcp, double, 1.0 / a)
SIMT_ROUNDED_1(double, __dsqrt, double, std::sqrt(a))
SIMT_ROUNDED_2(double, __dadd, a + b)
SIMT_ROUNDED_2(double, __dsub, a - b)
SIMT_ROUNDED_2(double, __dmul, a * b)
SIMT_ROUNDED_2(double, __ddiv, a / b)
SIMT_ROUNDED_3(double, __fma, std::fma(a, b, c))
SIMT_ROUNDED_1(float, __int2float, int, a)
SIMT_ROUNDED_1(float, __uint2float, unsigned int, a)
SIMT_ROUNDED_1(float, __ll2float, long long, a)
SIMT_ROUNDED_1(float, __ull2float, unsigned long long, a)
SIMT_ROUNDED_1(double, __ll2double, long long, a)
SIMT_ROUNDED_1(double, __ull2double, unsigned long long, a)
SIMT_ROUNDED_1(float, __double2float, double, a)
/* clang-format on */
#undef SIMT_ROUNDED
#undef SIMT_ROUNDED_TO
#undef SIMT_ROUNDED_1
#undef SIMT_ROUNDED_2
#undef SIMT_ROUNDED_3

/* ---- Conversions: out-of-range values saturate, NaN becomes 0 ---- */

namespace simt
{

template <class To>
inline To saturated(double whole)
{
    if (whole != whole)
        return 0;
    /* 2^63 and the like are doubles; the largest To may not be. */
    double limit = std::ldexp(1.0, int(sizeof(To) * CHAR_BIT) - std::is_signed_v<To>);
    if (whole >= limit)
        return To(~To(0) ^ (std::is_signed_v<To> ? To(1) << (sizeof(To) * CHAR_BIT - 1) : To(0)));
    if (whole < (std::is_signed_v<To> ? -limit : 0.0))
        return std::is_signed_v<To> ? To(To(1) << (sizeof(To) * CHAR_BIT - 1)) : To(0);
    return To(whole);
}

} /* namespace simt */

#define SIMT_TO_INTEGER(from, From, to, To)                                                        \
    inline To __##from##2##to##_rn(From x) { return simt::saturated<To>(std::nearbyint(x)); }      \
    inline To __##from##2##to##_rz(From x) { return simt::saturated<To>(std::trunc(x)); }          \
    inline To __##from##2##to##_ru(From x) { return simt::saturated<To>(std::ceil(x)); }           \
    inline To __##from##2##to##_rd(From x) { return simt::saturated<To>(std::floor(x)); }

/* clang-format off */
SIMT_TO_INTEGER(float, float, int, int)
SIMT_TO_INTEGER(float, float, uint, unsigned int)
SIMT_TO_INTEGER(float, float, ll, long long)
SIMT_TO_INTEGER(float, float, ull, unsigned long long)
SIMT_TO_INTEGER(double, double, int, int)
SIMT_TO_INTEGER(double, double, uint, unsigned int)
SIMT_TO_INTEGER(double, double, ll, long long)
SIMT_TO_INTEGER(double, double, ull, unsigned long long)
/* clang-format on */

inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned int x) { return x; }

/* ---- The same bits under another type ---- */

namespace simt
{

template <class To, class From>
inline To same_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From));
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}

} /* namespace simt */

#define SIMT_SAME_BITS(To, name, From)                                                             \
    inline To name(From x) { return simt::same_bits<To>(x); }
/* clang-format off */
SIMT_SAME_BITS(int, __float_as_int, float)
SIMT_SAME_BITS(unsigned int, __float_as_uint, float)
SIMT_SAME_BITS(float, __int_as_float, int)
SIMT_SAME_BITS(float, __uint_as_float, unsigned int)
SIMT_SAME_BITS(long long, __double_as_longlong, double)
SIMT_SAME_BITS(double, __longlong_as_double, long long)
/* clang-format on */
#undef SIMT_SAME_BITS

inline int __double2hiint(double x) { return int(simt::same_bits<uint64_t>(x) >> 32); }
inline int __double2loint(double x) { return int(simt::same_bits<uint64_t>(x)); }

inline double __hiloint2double(int high, int low)
{
    return simt::same_bits<double>(uint64_t(uint32_t(high)) << 32 | uint32_t(low));
}

/* ---- Integers ---- */

inline int __popc(unsigned int x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }

inline int __clzll(long long x)
{
    return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64;
}

inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }

inline unsigned int __brev(unsigned int x)
{
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}

inline unsigned long long __brevll(unsigned long long x)
{
    return static_cast<unsigned long long>(__brev(unsigned(x))) << 32 | __brev(unsigned(x >> 32));
}

/* Each nibble of `selector` picks one of the eight bytes of y:x, or, with its top bit, that byte's
 * sign. */
inline unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int selector)
{
    uint64_t bytes = uint64_t(y) << 32 | x;
    unsigned int result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned int pick = selector >> (4 * i);
        unsigned int byte = bytes >> (pick & 7) * 8 & 0xff;
        if (pick & 8)
            byte = byte & 0x80 ? 0xff : 0;
        result |= byte << (8 * i);
    }
    return result;
}

inline int __mulhi(int x, int y) { return int(static_cast<long long>(x) * y >> 32); }

inline unsigned int __umulhi(unsigned int x, unsigned int y)
{
    return unsigned(static_cast<unsigned long long>(x) * y >> 32);
}

inline long long __mul64hi(long long x, long long y)
{
    __extension__ typedef __int128 wide;
    return static_cast<long long>(static_cast<wide>(x) * y >> 64);
}

inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y)
{
    __extension__ typedef unsigned __int128 wide;
    return static_cast<unsigned long long>(static_cast<wide>(x) * y >> 64);
}

/* The product of the low 24 bits. */
inline int __mul24(int x, int y)
{
    unsigned int a = unsigned(x) << 8, b = unsigned(y) << 8;
    return int(unsigned(int(a) >> 8) * unsigned(int(b) >> 8));
}

inline unsigned int __umul24(unsigned int x, unsigned int y)
{
    return (x & 0xffffffu) * (y & 0xffffffu);
}

inline unsigned int __sad(int x, int y, unsigned int sum)
{
    return sum + (x > y ? unsigned(x) - unsigned(y) : unsigned(y) - unsigned(x));
}

inline unsigned int __usad(unsigned int x, unsigned int y, unsigned int sum)
{
    return sum + (x > y ? x - y : y - x);
}

inline int __hadd(int x, int y) { return int((static_cast<long long>(x) + y) >> 1); }

inline int __rhadd(int x, int y) { return int((static_cast<long long>(x) + y + 1) >> 1); }

inline unsigned int __uhadd(unsigned int x, unsigned int y)
{
    return unsigned((static_cast<unsigned long long>(x) + y) >> 1);
}

/* The upper word of high:low shifted left by shift mod 32, and the lower word shifted right. */
inline unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int shift)
{
    return unsigned((uint64_t(high) << 32 | low) << (shift & 31) >> 32);
}

inline unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int shift)
{
    return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}

/* Dot products of four bytes, added to an accumulator. */
inline int __dp4a(int a, int b, int sum)
{
    for (int i = 0; i < 32; i += 8)
        sum += static_cast<signed char>(a >> i) * static_cast<signed char>(b >> i);
    return sum;
}

inline unsigned int __dp4a(unsigned int a, unsigned int b, unsigned int sum)
{
    for (int i = 0; i < 32; i += 8)
        sum += (a >> i & 0xff) * (b >> i & 0xff);
    return sum;
}
