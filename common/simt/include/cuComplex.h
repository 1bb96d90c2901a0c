/* <cuComplex.h>: complex numbers as float2 and double2, for host and device. */
#pragma once

#include <math.h>
#include <vector_functions.h>

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

/* Names end in `suffix` where the numbers are floats. Quotients and magnitudes do not overflow on
 * the way. */
#define SIMT_COMPLEX(Complex, Real, suffix)                                                        \
    static inline Complex make_##Complex(Real x, Real y)                                           \
    {                                                                                              \
        Complex z;                                                                                 \
        z.x = x;                                                                                   \
        z.y = y;                                                                                   \
        return z;                                                                                  \
    }                                                                                              \
    static inline Real cuCreal##suffix(Complex z) { return z.x; }                                  \
    static inline Real cuCimag##suffix(Complex z) { return z.y; }                                  \
    static inline Complex cuConj##suffix(Complex z) { return make_##Complex(z.x, -z.y); }          \
    static inline Complex cuCadd##suffix(Complex a, Complex b)                                     \
    {                                                                                              \
        return make_##Complex(a.x + b.x, a.y + b.y);                                               \
    }                                                                                              \
    static inline Complex cuCsub##suffix(Complex a, Complex b)                                     \
    {                                                                                              \
        return make_##Complex(a.x - b.x, a.y - b.y);                                               \
    }                                                                                              \
    static inline Complex cuCmul##suffix(Complex a, Complex b)                                     \
    {                                                                                              \
        return make_##Complex(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);                       \
    }                                                                                              \
    static inline Complex cuCfma##suffix(Complex a, Complex b, Complex c)                          \
    {                                                                                              \
        return cuCadd##suffix(cuCmul##suffix(a, b), c);                                            \
    }                                                                                              \
    static inline Complex cuCdiv##suffix(Complex a, Complex b)                                     \
    {                                                                                              \
        const Real scale = 1 / (fabs##suffix(b.x) + fabs##suffix(b.y));                            \
        const Complex p = make_##Complex(a.x * scale, a.y * scale);                                \
        const Complex q = make_##Complex(b.x * scale, b.y * scale);                                \
        const Real inverse = 1 / (q.x * q.x + q.y * q.y);                                          \
        return make_##Complex((p.x * q.x + p.y * q.y) * inverse,                                   \
                              (p.y * q.x - p.x * q.y) * inverse);                                  \
    }                                                                                              \
    static inline Real cuCabs##suffix(Complex z) { return hypot##suffix(z.x, z.y); }

SIMT_COMPLEX(cuFloatComplex, float, f)
SIMT_COMPLEX(cuDoubleComplex, double, )
#undef SIMT_COMPLEX

static inline cuComplex make_cuComplex(float x, float y) { return make_cuFloatComplex(x, y); }

static inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex z)
{
    return make_cuDoubleComplex(z.x, z.y);
}

static inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex z)
{
    return make_cuFloatComplex((float)z.x, (float)z.y);
}
