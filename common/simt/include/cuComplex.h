/* <cuComplex.h>: complex numbers as float2 and double2, for host and device. */
#pragma once

#include <math.h>
#include <vector_types.h>

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

#define SIMT_FUNCTION(R, name, parameters, ...)                                                    \
    static inline R name parameters { return __VA_ARGS__; }

/* clang-format off */
/* Names end in `suffix` where the numbers are floats. Quotients and magnitudes do not overflow on the way. */
#define SIMT_COMPLEX(Complex, make, Real, suffix)                                                  \
    SIMT_FUNCTION(Complex, make_##Complex, (Real x, Real y), make(x, y))                           \
    SIMT_FUNCTION(Real, cuCreal##suffix, (Complex z), z.x)                                         \
    SIMT_FUNCTION(Real, cuCimag##suffix, (Complex z), z.y)                                         \
    SIMT_FUNCTION(Complex, cuConj##suffix, (Complex z), make(z.x, -z.y))                           \
    SIMT_FUNCTION(Complex, cuCadd##suffix, (Complex a, Complex b), make(a.x + b.x, a.y + b.y))     \
    SIMT_FUNCTION(Complex, cuCsub##suffix, (Complex a, Complex b), make(a.x - b.x, a.y - b.y))     \
    SIMT_FUNCTION(Complex, cuCmul##suffix, (Complex a, Complex b),                                 \
                  make(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x))                              \
    SIMT_FUNCTION(Complex, cuCfma##suffix, (Complex a, Complex b, Complex c),                      \
                  cuCadd##suffix(cuCmul##suffix(a, b), c))                                         \
    static inline Complex cuCdiv##suffix(Complex a, Complex b)                                     \
    {                                                                                              \
        const Real scale = 1 / (fabs##suffix(b.x) + fabs##suffix(b.y));                            \
        const Complex p = make(a.x * scale, a.y * scale), q = make(b.x * scale, b.y * scale);      \
        const Real inverse = 1 / (q.x * q.x + q.y * q.y);                                          \
        return make((p.x * q.x + p.y * q.y) * inverse, (p.y * q.x - p.x * q.y) * inverse);         \
    }                                                                                              \
    SIMT_FUNCTION(Real, cuCabs##suffix, (Complex z), hypot##suffix(z.x, z.y))

SIMT_COMPLEX(cuFloatComplex, make_float2, float, f)
SIMT_COMPLEX(cuDoubleComplex, make_double2, double, )
SIMT_FUNCTION(cuComplex, make_cuComplex, (float x, float y), make_float2(x, y))
SIMT_FUNCTION(cuDoubleComplex, cuComplexFloatToDouble, (cuFloatComplex z), make_double2(z.x, z.y))
SIMT_FUNCTION(cuFloatComplex, cuComplexDoubleToFloat, (cuDoubleComplex z), make_float2((float)z.x, (float)z.y))
/* clang-format on */
#undef SIMT_COMPLEX
#undef SIMT_FUNCTION
