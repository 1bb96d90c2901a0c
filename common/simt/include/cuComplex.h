/* <cuComplex.h>: complex numbers as float2 and double2, for host and device. */
#pragma once

#include <math.h>
#include <simt/keywords.h>

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

/* clang-format off */
/* Names of floats end in `suffix`. Quotients and magnitudes do not overflow in between. */
#define SIMT_COMPLEX(Complex, make, Real, suffix)                                                  \
    static SIMT_INLINE(Complex, make_##Complex, (Real x, Real y), make(x, y))                      \
    static SIMT_INLINE(Real, cuCreal##suffix, (Complex z), z.x)                                    \
    static SIMT_INLINE(Real, cuCimag##suffix, (Complex z), z.y)                                    \
    static SIMT_INLINE(Complex, cuConj##suffix, (Complex z), make(z.x, -z.y))                      \
    static SIMT_INLINE(Complex, cuCadd##suffix, (Complex a, Complex b), make(a.x + b.x, a.y + b.y)) \
    static SIMT_INLINE(Complex, cuCsub##suffix, (Complex a, Complex b), make(a.x - b.x, a.y - b.y)) \
    static SIMT_INLINE(Complex, cuCmul##suffix, (Complex a, Complex b),                            \
                       make(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x))                         \
    static SIMT_INLINE(Complex, cuCfma##suffix, (Complex a, Complex b, Complex c),                 \
                       cuCadd##suffix(cuCmul##suffix(a, b), c))                                    \
    static inline Complex cuCdiv##suffix(Complex a, Complex b)                                     \
    {                                                                                              \
        const Real scale = 1 / (fabs##suffix(b.x) + fabs##suffix(b.y));                            \
        const Complex p = make(a.x * scale, a.y * scale), q = make(b.x * scale, b.y * scale);      \
        const Real inverse = 1 / (q.x * q.x + q.y * q.y);                                          \
        return make((p.x * q.x + p.y * q.y) * inverse, (p.y * q.x - p.x * q.y) * inverse);         \
    }                                                                                              \
    static SIMT_INLINE(Real, cuCabs##suffix, (Complex z), hypot##suffix(z.x, z.y))

SIMT_COMPLEX(cuFloatComplex, make_float2, float, f)
SIMT_COMPLEX(cuDoubleComplex, make_double2, double, )
static SIMT_INLINE(cuComplex, make_cuComplex, (float x, float y), make_float2(x, y))
static SIMT_INLINE(cuDoubleComplex, cuComplexFloatToDouble, (cuFloatComplex z), make_double2(z.x, z.y))
static SIMT_INLINE(cuFloatComplex, cuComplexDoubleToFloat, (cuDoubleComplex z), make_float2((float)z.x, (float)z.y))
/* clang-format on */
#undef SIMT_COMPLEX
