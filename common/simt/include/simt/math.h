/* CUDA's mathematical functions that <math.h> lacks, and integer and conversion intrinsics. The
 * fast ones (__expf, __sinf, __fdividef, ...) give the accurate result: that a program needs the
 * slow functions' accuracy does not show here. */
#pragma once

#include <cfenv>
#include <climits>
#include <cstdlib>
#include <limits>
#include <math.h>
#include <simt/keywords.h>
#include <type_traits>

namespace simt
{

/* Returns sin(pi x) with exact zeros and ones: x is brought to [-1, 1] first. */
inline double sin_of_pi(double x)
{
    double reduced = std::remainder(x, 2.0);
    if (std::fabs(reduced) == 1.0)
        return std::copysign(0.0, x);
    return std::sin(M_PI * reduced);
}

inline double cos_of_pi(double x)
{
    double reduced = std::fabs(std::remainder(x, 2.0));
    return reduced == 0.5 || reduced == 1.5 ? 0.0 : std::cos(M_PI * reduced);
}

/* This is Newton's method on erf, from a rational first guess. */
inline double inverse_erf(double y)
{
    if (!(y > -1.0 && y < 1.0))
        return y == 1.0 || y == -1.0 ? y * HUGE_VAL : NAN;
    double l = std::log1p(-y * y), a = 0.147, b = 2 / (M_PI * a) + l / 2;
    double x = std::copysign(std::sqrt(std::sqrt(b * b - l / a) - b), y);
    for (int step = 0; step < 4 && x != 0.0; step++)
        x -= (std::erf(x) - y) * std::sqrt(M_PI) / 2 * std::exp(x * x);
    return x;
}

/* Returns what `operation` gives in this rounding direction for the variables that it refers to.
 * The compiler has to take them as changed, or it would calculate before the direction is set. */
template <class To, class Operation> inline To rounded(int direction, Operation operation)
{
    int before = std::fegetround();
    std::fesetround(direction);
    asm volatile("" : : "r"(&operation) : "memory");
    volatile To result = operation();
    std::fesetround(before);
    return result;
}

template <class To> inline To saturated(double whole)
{
    typedef std::numeric_limits<To> range;
    /* 2^63 and the like are doubles; the largest To may not be one. */
    if (whole >= std::ldexp(1.0, range::digits))
        return range::max();
    if (whole < double(range::min()))
        return range::min();
    return whole != whole ? To(0) : To(whole);
}

template <class To, class From> constexpr To same_bits(From from)
{
    return __builtin_bit_cast(To, from);
}

constexpr uint64_t joined(uint32_t high, uint32_t low) { return uint64_t(high) << 32 | low; }

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 unsigned_wide;

} /* namespace simt */

/* clang-format off */
/* ---- min, max, abs for every pair of types that CUDA has ---- */

#define SIMT_MIN_MAX(prefix, A, B, R)                                                              \
    constexpr R prefix##min(A a, B b) { return (R)b < (R)a ? (R)b : (R)a; }                        \
    constexpr R prefix##max(A a, B b) { return (R)a < (R)b ? (R)b : (R)a; }
#define SIMT_MIN_MAX_INTEGER(S, U)                                                                 \
    SIMT_MIN_MAX(, S, S, S) SIMT_MIN_MAX(, U, U, U) SIMT_MIN_MAX(, S, U, U) SIMT_MIN_MAX(, U, S, U)
/* As with fminf and fmaxf, a number wins over NaN. */
#define SIMT_MIN_MAX_FLOAT(A, B, R)                                                                \
    inline R min(A a, B b) { return std::fmin(R(a), R(b)); }                                       \
    inline R max(A a, B b) { return std::fmax(R(a), R(b)); }

SIMT_MIN_MAX_INTEGER(int, unsigned int)
SIMT_MIN_MAX_INTEGER(long, unsigned long)
SIMT_MIN_MAX_INTEGER(long long, unsigned long long)
SIMT_MIN_MAX(u, unsigned int, unsigned int, unsigned int)
SIMT_MIN_MAX(ll, long long, long long, long long)
SIMT_MIN_MAX(ull, unsigned long long, unsigned long long, unsigned long long)
SIMT_MIN_MAX_FLOAT(float, float, float)
SIMT_MIN_MAX_FLOAT(double, double, double)
SIMT_MIN_MAX_FLOAT(float, double, double)
SIMT_MIN_MAX_FLOAT(double, float, double)
#undef SIMT_MIN_MAX
#undef SIMT_MIN_MAX_INTEGER
#undef SIMT_MIN_MAX_FLOAT

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
SIMT_INLINE(float, rsqrt, (float x), 1.0f / std::sqrt(x))
SIMT_INLINE(float, fdividef, (float x, float y), x / y)

#define SIMT_LENGTHS(T, suffix)                                                                    \
    SIMT_INLINE(T, rsqrt##suffix, (T x), 1 / std::sqrt(x))                                         \
    SIMT_INLINE(T, norm3d##suffix, (T a, T b, T c), std::hypot(a, b, c))                           \
    SIMT_INLINE(T, norm4d##suffix, (T a, T b, T c, T d), std::hypot(std::hypot(a, b), c, d))       \
    SIMT_INLINE(T, rhypot##suffix, (T a, T b), 1 / std::hypot(a, b))                               \
    SIMT_INLINE(T, rnorm3d##suffix, (T a, T b, T c), 1 / std::hypot(a, b, c))                      \
    SIMT_INLINE(T, rnorm4d##suffix, (T a, T b, T c, T d), 1 / norm4d##suffix(a, b, c, d))
SIMT_LENGTHS(float, f)
SIMT_LENGTHS(double, )
#undef SIMT_LENGTHS

/* ---- Fast intrinsics. The C library declares the first ten, without defining them. ---- */

#define SIMT_FAST(name)                                                                            \
    extern "C" inline float __##name(float x) noexcept { return ::name(x); }

SIMT_FAST(expf) SIMT_FAST(exp10f) SIMT_FAST(exp2f) SIMT_FAST(logf) SIMT_FAST(log10f) SIMT_FAST(log2f)
SIMT_FAST(sinf) SIMT_FAST(cosf) SIMT_FAST(tanf) SIMT_FAST(tanhf)
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

/* Evaluates the expression in each direction: name_rn(parameters) and so on. */
#define SIMT_ROUNDED_TO(R, name, direction, parameters, ...)                                       \
    SIMT_INLINE(R, name, parameters, simt::rounded<R>(direction, [&] { return R(__VA_ARGS__); }))
#define SIMT_ROUNDED(R, name, parameters, ...)                                                     \
    SIMT_INLINE(R, name##_rn, parameters, R(__VA_ARGS__))                                          \
    SIMT_ROUNDED_TO(R, name##_rz, FE_TOWARDZERO, parameters, __VA_ARGS__)                          \
    SIMT_ROUNDED_TO(R, name##_ru, FE_UPWARD, parameters, __VA_ARGS__)                              \
    SIMT_ROUNDED_TO(R, name##_rd, FE_DOWNWARD, parameters, __VA_ARGS__)

SIMT_ROUNDED(float, __fadd, (float a, float b), a + b)
SIMT_ROUNDED(float, __fsub, (float a, float b), a - b)
SIMT_ROUNDED(float, __fmul, (float a, float b), a * b)
SIMT_ROUNDED(float, __fdiv, (float a, float b), a / b)
SIMT_ROUNDED(float, __fmaf, (float a, float b, float c), std::fma(a, b, c))
SIMT_ROUNDED(float, __frcp, (float a), 1.0f / a)
SIMT_ROUNDED(float, __fsqrt, (float a), std::sqrt(a))
SIMT_ROUNDED(double, __drcp, (double a), 1.0 / a)
SIMT_ROUNDED(double, __dsqrt, (double a), std::sqrt(a))
SIMT_ROUNDED(double, __dadd, (double a, double b), a + b)
SIMT_ROUNDED(double, __dsub, (double a, double b), a - b)
SIMT_ROUNDED(double, __dmul, (double a, double b), a * b)
SIMT_ROUNDED(double, __ddiv, (double a, double b), a / b)
SIMT_ROUNDED(double, __fma, (double a, double b, double c), std::fma(a, b, c))
SIMT_ROUNDED(float, __int2float, (int a), a)
SIMT_ROUNDED(float, __uint2float, (unsigned int a), a)
SIMT_ROUNDED(float, __ll2float, (long long a), a)
SIMT_ROUNDED(float, __ull2float, (unsigned long long a), a)
SIMT_ROUNDED(double, __ll2double, (long long a), a)
SIMT_ROUNDED(double, __ull2double, (unsigned long long a), a)
SIMT_ROUNDED(float, __double2float, (double a), a)
#undef SIMT_ROUNDED
#undef SIMT_ROUNDED_TO

/* ---- Conversions: out-of-range values saturate, NaN becomes 0 ---- */

#define SIMT_TO_INTEGER(name, From, To)                                                            \
    SIMT_INLINE(To, name##_rn, (From x), simt::saturated<To>(std::nearbyint(x)))                   \
    SIMT_INLINE(To, name##_rz, (From x), simt::saturated<To>(std::trunc(x)))                       \
    SIMT_INLINE(To, name##_ru, (From x), simt::saturated<To>(std::ceil(x)))                        \
    SIMT_INLINE(To, name##_rd, (From x), simt::saturated<To>(std::floor(x)))

SIMT_TO_INTEGER(__float2int, float, int)
SIMT_TO_INTEGER(__float2uint, float, unsigned int)
SIMT_TO_INTEGER(__float2ll, float, long long)
SIMT_TO_INTEGER(__float2ull, float, unsigned long long)
SIMT_TO_INTEGER(__double2int, double, int)
SIMT_TO_INTEGER(__double2uint, double, unsigned int)
SIMT_TO_INTEGER(__double2ll, double, long long)
SIMT_TO_INTEGER(__double2ull, double, unsigned long long)
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
/* This is the product of the low 24 bits. */
SIMT_INLINE(unsigned int, __umul24, (unsigned int x, unsigned int y), (x & 0xffffffu) * (y & 0xffffffu))
SIMT_INLINE(int, __mul24, (int x, int y), int(unsigned(int(unsigned(x) << 8) >> 8) * unsigned(int(unsigned(y) << 8) >> 8)))
SIMT_INLINE(unsigned int, __usad, (unsigned int x, unsigned int y, unsigned int sum), sum + (x > y ? x - y : y - x))
SIMT_INLINE(unsigned int, __sad, (int x, int y, unsigned int sum), sum + (x > y ? unsigned(x) - unsigned(y) : unsigned(y) - unsigned(x)))
SIMT_INLINE(int, __hadd, (int x, int y), int((int64_t(x) + y) >> 1))
SIMT_INLINE(int, __rhadd, (int x, int y), int((int64_t(x) + y + 1) >> 1))
SIMT_INLINE(unsigned int, __uhadd, (unsigned int x, unsigned int y), unsigned((uint64_t(x) + y) >> 1))
SIMT_INLINE(unsigned int, __urhadd, (unsigned int x, unsigned int y), unsigned((uint64_t(x) + y + 1) >> 1))
/* The upper word of high:low << shift % 32, or the lower of >>. _lc and _rc shift by at most 32. */
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

SIMT_INLINE(unsigned long long, __brevll, (unsigned long long x),
            simt::joined(__brev(unsigned(x)), __brev(unsigned(x >> 32))))

/* Each nibble of `selector` picks a byte of y:x, or, with its top bit, that byte's sign. */
inline unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int selector)
{
    const uint64_t bytes = simt::joined(y, x);
    unsigned int result = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned int pick = selector >> (4 * i);
        const int8_t byte = int8_t(bytes >> (pick & 7) * 8);
        result |= unsigned(uint8_t(pick & 8 ? byte >> 7 : byte)) << (8 * i);
    }
    return result;
}

/* Adds dot products of four bytes, or of two halves and two of four bytes, to an accumulator. */
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
SIMT_SIGNED(__vabsss, simt::saturated<Part>(abs(a)))
SIMT_SIGNED(__vneg, -a)
SIMT_SIGNED(__vnegss, simt::saturated<Part>(-a))
SIMT_UNSIGNED(__vadd, a + b)
SIMT_SIGNED(__vaddss, simt::saturated<Part>(a + b))
SIMT_UNSIGNED(__vaddus, simt::saturated<Part>(a + b))
SIMT_UNSIGNED(__vsub, a - b)
SIMT_SIGNED(__vsubss, simt::saturated<Part>(a - b))
SIMT_UNSIGNED(__vsubus, simt::saturated<Part>(a - b))
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
