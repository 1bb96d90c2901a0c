/* make_float4(x, y, z, w) and its relatives. */
#pragma once

#include <vector_types.h>

#define SIMT_MAKE_VECTORS(name, T)                                                                 \
    static inline __attribute__((unused)) name##1 make_##name##1(T x)                              \
    {                                                                                              \
        name##1 v = {x};                                                                           \
        return v;                                                                                  \
    }                                                                                              \
    static inline __attribute__((unused)) name##2 make_##name##2(T x, T y)                         \
    {                                                                                              \
        name##2 v = {x, y};                                                                        \
        return v;                                                                                  \
    }                                                                                              \
    static inline __attribute__((unused)) name##3 make_##name##3(T x, T y, T z)                    \
    {                                                                                              \
        name##3 v = {x, y, z};                                                                     \
        return v;                                                                                  \
    }                                                                                              \
    static inline __attribute__((unused)) name##4 make_##name##4(T x, T y, T z, T w)               \
    {                                                                                              \
        name##4 v = {x, y, z, w};                                                                  \
        return v;                                                                                  \
    }

/* clang-format off */
SIMT_MAKE_VECTORS(char, signed char)
SIMT_MAKE_VECTORS(uchar, unsigned char)
SIMT_MAKE_VECTORS(short, short)
SIMT_MAKE_VECTORS(ushort, unsigned short)
SIMT_MAKE_VECTORS(int, int)
SIMT_MAKE_VECTORS(uint, unsigned int)
SIMT_MAKE_VECTORS(long, long)
SIMT_MAKE_VECTORS(ulong, unsigned long)
SIMT_MAKE_VECTORS(longlong, long long)
SIMT_MAKE_VECTORS(ulonglong, unsigned long long)
SIMT_MAKE_VECTORS(float, float)
SIMT_MAKE_VECTORS(double, double)
/* clang-format on */

#undef SIMT_MAKE_VECTORS
