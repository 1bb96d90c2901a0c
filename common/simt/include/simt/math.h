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
#include <limits>
#include <math.h>
#include <simt/keywords.h>
#include <type_traits>
#include <vector_types.h>

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

template <class To>
inline To saturated(double whole)
{
    typedef std::numeric_limits<To> range;
    /* 2^63 and the like are doubles; the largest To may not be. */
    if (whole >= std::ldexp(1.0, range::digits))
        return range::max();
    if (whole < double(range::min()))
        return range::min();
    return whole != whole ? To(0) : To(whole);
}

template <class To, class From>
inline To same_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From));
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}

constexpr uint64_t joined(uint32_t high, uint32_t low) { return uint64_t(high) << 32 | low; }

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 unsigned_wide;

} /* namespace simt */

/* clang-format off */
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

SIMT_MIN_MAX_INTEGER(int, unsigned int)
SIMT_MIN_MAX_INTEGER(long, unsigned long)
SIMT_MIN_MAX_INTEGER(long long, unsigned long long)
SIMT_MIN_MAX_FLOAT(float, float, float)
SIMT_MIN_MAX_FLOAT(double, double, double)
SIMT_MIN_MAX_FLOAT(float, double, double)
SIMT_MIN_MAX_FLOAT(double, float, double)
#undef SIMT_MIN_MAX
#undef SIMT_MIN_MAX_INTEGER
#undef SIMT_MIN_MAX_FLOAT

SIMT_INLINE(unsigned int, umin, (unsigned int a, unsigned int b), min(a, b))
SIMT_INLINE(unsigned int, umax, (unsigned int a, unsigned int b), max(a, b))
SIMT_INLINE(long long, llmin, (long long a, long long b), min(a, b))
SIMT_INLINE(long long, llmax, (long long a, long long b), max(a, b))
SIMT_INLINE(unsigned long long, ullmin, (unsigned long long a, unsigned long long b), min(a, b))
SIMT_INLINE(unsigned long long, ullmax, (unsigned long long a, unsigned long long b), max(a, b))

/* ---- Functions of float and double that <math.h> lacks ---- */

#define SIMT_FUNCTION(name, expression)                                                            \
    inline double name(double x) { return expression; }                                            \
    inline float name##f(float single) { return float(name(double(single))); }

SIMT_FUNCTION(rcbrt, 1.0 / std::cbrt(x))
SIMT_FUNCTION(sinpi, simt::sin_of_pi(x))
SIMT_FUNCTION(cospi, simt::cos_of_pi(x))
SIMT_FUNCTION(erfinv, simt::inverse_erf(x))
SIMT_FUNCTION(erfcinv, simt::inverse_erf(1.0 - x))
SIMT_FUNCTION(erfcx, std::exp(x * x) * std::erfc(x))
SIMT_FUNCTION(normcdf, 0.5 * std::erfc(-x / std::sqrt(2.0)))
SIMT_FUNCTION(normcdfinv, std::sqrt(2.0) * simt::inverse_erf(2.0 * x - 1.0))
#undef SIMT_FUNCTION
SIMT_INLINE(double, rsqrt, (double x), 1.0 / std::sqrt(x))
SIMT_INLINE(float, rsqrt, (float x), 1.0f / std::sqrt(x))
SIMT_INLINE(float, rsqrtf, (float x), 1.0f / std::sqrt(x))
SIMT_INLINE(float, fdividef, (float x, float y), x / y)
SIMT_INLINE(float, norm3df, (float a, float b, float c), std::hypot(a, b, c))
SIMT_INLINE(double, norm3d, (double a, double b, double c), std::hypot(a, b, c))
SIMT_INLINE(float, rnorm3df, (float a, float b, float c), 1.0f / std::hypot(a, b, c))
SIMT_INLINE(double, rnorm3d, (double a, double b, double c), 1.0 / std::hypot(a, b, c))
SIMT_INLINE(float, norm4df, (float a, float b, float c, float d), std::hypot(std::hypot(a, b), c, d))
SIMT_INLINE(double, norm4d, (double a, double b, double c, double d), std::hypot(std::hypot(a, b), c, d))
SIMT_INLINE(float, rnorm4df, (float a, float b, float c, float d), 1.0f / norm4df(a, b, c, d))
SIMT_INLINE(double, rnorm4d, (double a, double b, double c, double d), 1.0 / norm4d(a, b, c, d))
SIMT_INLINE(float, rhypotf, (float x, float y), 1.0f / std::hypot(x, y))
SIMT_INLINE(double, rhypot, (double x, double y), 1.0 / std::hypot(x, y))

/* ---- Fast intrinsics. The C library declares the first ten, without defining them. ---- */

#define SIMT_FAST(name, accurate)                                                                  \
    extern "C" inline float name(float x) noexcept { return accurate(x); }

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
#undef SIMT_FAST

#define SIMT_SINE_AND_COSINE(language, T, name, sine_of, cosine_of)                                \
    language inline void name(T x, T *sine, T *cosine) noexcept                                    \
    {                                                                                              \
        *sine = sine_of(x);                                                                        \
        *cosine = cosine_of(x);                                                                    \
    }
SIMT_SINE_AND_COSINE(, float, sincospif, sinpif, cospif)
SIMT_SINE_AND_COSINE(, double, sincospi, sinpi, cospi)
SIMT_SINE_AND_COSINE(extern "C", float, __sincosf, std::sin, std::cos)
#undef SIMT_SINE_AND_COSINE

extern "C" inline float __powf(float x, float y) noexcept { return std::pow(x, y); }
SIMT_INLINE(float, __fdividef, (float x, float y), x / y)
SIMT_INLINE(float, __frsqrt_rn, (float x), float(1.0 / std::sqrt(double(x))))
SIMT_INLINE(float, __saturatef, (float x), x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f) /* NaN: 0 */

/* ---- Arithmetic with a rounding direction ---- */

/* In each direction: R name_rn(parameters) and so on, from an expression in a, b, c of type T. */
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
#undef SIMT_ROUNDED
#undef SIMT_ROUNDED_TO
#undef SIMT_ROUNDED_1
#undef SIMT_ROUNDED_2
#undef SIMT_ROUNDED_3

/* ---- Conversions: out-of-range values saturate, NaN becomes 0 ---- */

#define SIMT_TO_INTEGER(from, From, to, To)                                                        \
    inline To __##from##2##to##_rn(From x) { return simt::saturated<To>(std::nearbyint(x)); }      \
    inline To __##from##2##to##_rz(From x) { return simt::saturated<To>(std::trunc(x)); }          \
    inline To __##from##2##to##_ru(From x) { return simt::saturated<To>(std::ceil(x)); }           \
    inline To __##from##2##to##_rd(From x) { return simt::saturated<To>(std::floor(x)); }

SIMT_TO_INTEGER(float, float, int, int)
SIMT_TO_INTEGER(float, float, uint, unsigned int)
SIMT_TO_INTEGER(float, float, ll, long long)
SIMT_TO_INTEGER(float, float, ull, unsigned long long)
SIMT_TO_INTEGER(double, double, int, int)
SIMT_TO_INTEGER(double, double, uint, unsigned int)
SIMT_TO_INTEGER(double, double, ll, long long)
SIMT_TO_INTEGER(double, double, ull, unsigned long long)
SIMT_INLINE(double, __int2double_rn, (int x), x)
SIMT_INLINE(double, __uint2double_rn, (unsigned int x), x)

/* ---- The same bits under another type ---- */

SIMT_INLINE(int, __float_as_int, (float x), simt::same_bits<int>(x))
SIMT_INLINE(unsigned int, __float_as_uint, (float x), simt::same_bits<unsigned int>(x))
SIMT_INLINE(float, __int_as_float, (int x), simt::same_bits<float>(x))
SIMT_INLINE(float, __uint_as_float, (unsigned int x), simt::same_bits<float>(x))
SIMT_INLINE(long long, __double_as_longlong, (double x), simt::same_bits<long long>(x))
SIMT_INLINE(double, __longlong_as_double, (long long x), simt::same_bits<double>(x))
SIMT_INLINE(int, __double2hiint, (double x), int(simt::same_bits<uint64_t>(x) >> 32))
SIMT_INLINE(int, __double2loint, (double x), int(simt::same_bits<uint64_t>(x)))
SIMT_INLINE(double, __hiloint2double, (int high, int low), simt::same_bits<double>(simt::joined(uint32_t(high), uint32_t(low))))

/* ---- Integers ---- */

SIMT_INLINE(int, __popc, (unsigned int x), __builtin_popcount(x))
SIMT_INLINE(int, __popcll, (unsigned long long x), __builtin_popcountll(x))
SIMT_INLINE(int, __clz, (int x), x ? __builtin_clz(unsigned(x)) : 32)
SIMT_INLINE(int, __clzll, (long long x), x ? __builtin_clzll(uint64_t(x)) : 64)
SIMT_INLINE(int, __ffs, (int x), __builtin_ffs(x))
SIMT_INLINE(int, __ffsll, (long long x), __builtin_ffsll(x))
SIMT_INLINE(int, __mulhi, (int x, int y), int(int64_t(x) * y >> 32))
SIMT_INLINE(unsigned int, __umulhi, (unsigned int x, unsigned int y), unsigned(uint64_t(x) * y >> 32))
SIMT_INLINE(long long, __mul64hi, (long long x, long long y), static_cast<long long>(simt::wide(x) * y >> 64))
SIMT_INLINE(unsigned long long, __umul64hi, (unsigned long long x, unsigned long long y), static_cast<unsigned long long>(simt::unsigned_wide(x) * y >> 64))
/* The product of the low 24 bits. */
SIMT_INLINE(unsigned int, __umul24, (unsigned int x, unsigned int y), (x & 0xffffffu) * (y & 0xffffffu))
SIMT_INLINE(int, __mul24, (int x, int y), int(unsigned(int(unsigned(x) << 8) >> 8) * unsigned(int(unsigned(y) << 8) >> 8)))
SIMT_INLINE(unsigned int, __usad, (unsigned int x, unsigned int y, unsigned int sum), sum + (x > y ? x - y : y - x))
SIMT_INLINE(unsigned int, __sad, (int x, int y, unsigned int sum), sum + (x > y ? unsigned(x) - unsigned(y) : unsigned(y) - unsigned(x)))
SIMT_INLINE(int, __hadd, (int x, int y), int((int64_t(x) + y) >> 1))
SIMT_INLINE(int, __rhadd, (int x, int y), int((int64_t(x) + y + 1) >> 1))
SIMT_INLINE(unsigned int, __uhadd, (unsigned int x, unsigned int y), unsigned((uint64_t(x) + y) >> 1))
SIMT_INLINE(unsigned int, __urhadd, (unsigned int x, unsigned int y), unsigned((uint64_t(x) + y + 1) >> 1))
/* The upper word of high:low shifted left by shift mod 32, and the lower word shifted right; _lc, _rc: by at most 32. */
SIMT_INLINE(unsigned int, __funnelshift_l, (unsigned int low, unsigned int high, unsigned int shift), unsigned(simt::joined(high, low) << (shift & 31) >> 32))
SIMT_INLINE(unsigned int, __funnelshift_r, (unsigned int low, unsigned int high, unsigned int shift), unsigned(simt::joined(high, low) >> (shift & 31)))
SIMT_INLINE(unsigned int, __funnelshift_lc, (unsigned int low, unsigned int high, unsigned int shift), shift < 32 ? __funnelshift_l(low, high, shift) : low)
SIMT_INLINE(unsigned int, __funnelshift_rc, (unsigned int low, unsigned int high, unsigned int shift), shift < 32 ? __funnelshift_r(low, high, shift) : high)
/* clang-format on */

inline unsigned int __brev(unsigned int x)
{
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}

inline unsigned long long __brevll(unsigned long long x)
{
    return simt::joined(__brev(unsigned(x)), __brev(unsigned(x >> 32)));
}

/* Each nibble of `selector` picks one of the bytes of y:x; with its top bit, that byte's sign. */
inline unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int selector)
{
    const uint64_t bytes = simt::joined(y, x);
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

/* Dot products of four bytes, or of two halves and two of four bytes, added to an accumulator. */
#define SIMT_DOT(T, Half, Pair, Byte, Vector)                                                      \
    inline T __dp4a(T a, T b, T sum)                                                               \
    {                                                                                              \
        for (int i = 0; i < 32; i += 8)                                                            \
            sum += static_cast<Byte>(a >> i) * static_cast<Byte>(b >> i);                          \
        return sum;                                                                                \
    }                                                                                              \
    inline T __dp4a(Vector a, Vector b, T sum)                                                     \
    {                                                                                              \
        return sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;                                \
    }                                                                                              \
    inline T __dp2a_lo(T a, T b, T sum)                                                            \
    {                                                                                              \
        return sum + static_cast<Half>(a) * static_cast<Byte>(b) +                                 \
               static_cast<Half>(a >> 16) * static_cast<Byte>(b >> 8);                             \
    }                                                                                              \
    inline T __dp2a_hi(T a, T b, T sum) { return __dp2a_lo(a, b >> 16, sum); }                     \
    inline T __dp2a_lo(Pair a, Vector b, T sum) { return sum + a.x * b.x + a.y * b.y; }            \
    inline T __dp2a_hi(Pair a, Vector b, T sum) { return sum + a.x * b.z + a.y * b.w; }
SIMT_DOT(int, short, short2, signed char, char4)
SIMT_DOT(unsigned int, unsigned short, ushort2, unsigned char, uchar4)
#undef SIMT_DOT

/* ---- The two halves or four bytes of a word, each on its own ---- */

namespace simt
{

template <class T>
inline int clamped(int x)
{
    typedef std::numeric_limits<T> range;
    return x < range::min() ? range::min() : x > range::max() ? range::max() : x;
}

} /* namespace simt */

#define SIMT_EACH(name, T, ...)                                                                    \
    inline unsigned int name(unsigned int x, [[maybe_unused]] unsigned int y = 0)                  \
    {                                                                                              \
        typedef T Part;                                                                            \
        unsigned int result = 0;                                                                   \
        for (unsigned int i = 0; i < 32; i += 8 * sizeof(Part)) {                                  \
            const int a = Part(x >> i), b [[maybe_unused]] = Part(y >> i);                         \
            result |= std::make_unsigned_t<Part>(__VA_ARGS__) * (1u << i);                         \
        }                                                                                          \
        return result;                                                                             \
    }
#define SIMT_SIGNED(name, ...)                                                                     \
    SIMT_EACH(name##2, short, __VA_ARGS__) SIMT_EACH(name##4, signed char, __VA_ARGS__)
#define SIMT_UNSIGNED(name, ...)                                                                   \
    SIMT_EACH(name##2, unsigned short, __VA_ARGS__) SIMT_EACH(name##4, unsigned char, __VA_ARGS__)
#define SIMT_BOTH(name, ...) SIMT_SIGNED(name##s, __VA_ARGS__) SIMT_UNSIGNED(name##u, __VA_ARGS__)
#define SIMT_COMPARISON(KIND, name, operation)                                                     \
    KIND(__vcmp##name, a operation b ? -1 : 0) KIND(__vset##name, a operation b)

/* clang-format off */
SIMT_SIGNED(__vabs, abs(a))
SIMT_SIGNED(__vabsss, simt::clamped<Part>(abs(a)))
SIMT_SIGNED(__vneg, -a)
SIMT_SIGNED(__vnegss, simt::clamped<Part>(-a))
SIMT_UNSIGNED(__vadd, a + b)
SIMT_SIGNED(__vaddss, simt::clamped<Part>(a + b))
SIMT_UNSIGNED(__vaddus, simt::clamped<Part>(a + b))
SIMT_UNSIGNED(__vsub, a - b)
SIMT_SIGNED(__vsubss, simt::clamped<Part>(a - b))
SIMT_UNSIGNED(__vsubus, simt::clamped<Part>(a - b))
SIMT_BOTH(__vmin, min(a, b))
SIMT_BOTH(__vmax, max(a, b))
SIMT_BOTH(__vabsdiff, abs(a - b))
SIMT_BOTH(__vavg, (a + b + (a + b >= 0)) >> 1)
SIMT_UNSIGNED(__vhaddu, (a + b) >> 1)
SIMT_COMPARISON(SIMT_UNSIGNED, eq, ==)
SIMT_COMPARISON(SIMT_UNSIGNED, ne, !=)
SIMT_COMPARISON(SIMT_BOTH, lt, <)
SIMT_COMPARISON(SIMT_BOTH, le, <=)
SIMT_COMPARISON(SIMT_BOTH, gt, >)
SIMT_COMPARISON(SIMT_BOTH, ge, >=)
SIMT_INLINE(unsigned int, __vsads2, (unsigned int x, unsigned int y), __dp2a_lo(__vabsdiffs2(x, y), 0x0101u, 0u))
SIMT_INLINE(unsigned int, __vsadu2, (unsigned int x, unsigned int y), __dp2a_lo(__vabsdiffu2(x, y), 0x0101u, 0u))
SIMT_INLINE(unsigned int, __vsads4, (unsigned int x, unsigned int y), __dp4a(__vabsdiffs4(x, y), 0x01010101u, 0u))
SIMT_INLINE(unsigned int, __vsadu4, (unsigned int x, unsigned int y), __dp4a(__vabsdiffu4(x, y), 0x01010101u, 0u))
/* clang-format on */
#undef SIMT_EACH
#undef SIMT_SIGNED
#undef SIMT_UNSIGNED
#undef SIMT_BOTH
#undef SIMT_COMPARISON
