/* dim3 and CUDA's small vectors: char1 to double4. In C++ those of 2 or 4 components are copied as
 * one machine word, so that a float4 load stays one load in the compiled program too. */
#pragma once

#include <stdint.h>

typedef uint16_t __attribute__((may_alias)) simt_word2;
typedef uint32_t __attribute__((may_alias)) simt_word4;
typedef uint64_t __attribute__((may_alias)) simt_word8;
typedef uint32_t __attribute__((may_alias, vector_size(16))) simt_word16;
/* This has four 8-byte components, which move as two words. */
typedef struct {
    simt_word16 half[2];
} simt_word32;

#ifdef __cplusplus

/* The bracketed lists are members, parameters and initialisers. */
#define SIMT_WHOLE_VECTOR(name, word, members, parameters, ...)                                    \
    struct __attribute__((aligned(__alignof__(word)))) name {                                      \
        __extension__ union {                                                                      \
            __extension__ struct {                                                                 \
                members                                                                            \
            };                                                                                     \
            word simt_whole;                                                                       \
        };                                                                                         \
        name() = default;                                                                          \
        constexpr name parameters : __VA_ARGS__ {}                                                 \
        name(const name &other) : simt_whole(other.simt_whole) {}                                  \
        name &operator=(const name &other)                                                         \
        {                                                                                          \
            simt_whole = other.simt_whole;                                                         \
            return *this;                                                                          \
        }                                                                                          \
    };

#else

#define SIMT_WHOLE_VECTOR(name, word, members, ...)                                                \
    typedef struct __attribute__((aligned(__alignof__(word)))) name {                              \
        members                                                                                    \
    } name;

#endif

#define SIMT_MAKE(name, parameters, ...)                                                           \
    static inline __attribute__((unused)) name make_##name parameters                              \
    {                                                                                              \
        name v = {__VA_ARGS__};                                                                    \
        return v;                                                                                  \
    }

/* clang-format off */
/* Defines name1 to name4, and make_name1() to make_name4(). `two` and `four` are the sizes of
 * two and four components. 1 and 3 are aligned as, and moved by, their component. */
#define SIMT_VECTORS(name, T, two, four)                                                           \
    typedef struct name##1 { T x; } name##1;                                                       \
    typedef struct name##3 { T x, y, z; } name##3;                                                 \
    SIMT_WHOLE_VECTOR(name##2, simt_word##two, T x; T y;, (T x_, T y_ = 0), x(x_), y(y_))          \
    SIMT_WHOLE_VECTOR(name##4, simt_word##four, T x; T y; T z; T w;                                \
                      , (T x_, T y_ = 0, T z_ = 0, T w_ = 0), x(x_), y(y_), z(z_), w(w_))          \
    SIMT_MAKE(name##1, (T x), x)                                                                   \
    SIMT_MAKE(name##2, (T x, T y), x, y)                                                           \
    SIMT_MAKE(name##3, (T x, T y, T z), x, y, z)                                                   \
    SIMT_MAKE(name##4, (T x, T y, T z, T w), x, y, z, w)
/* clang-format on */

SIMT_VECTORS(char, signed char, 2, 4)
SIMT_VECTORS(uchar, unsigned char, 2, 4)
SIMT_VECTORS(short, short, 4, 8)
SIMT_VECTORS(ushort, unsigned short, 4, 8)
SIMT_VECTORS(int, int, 8, 16)
SIMT_VECTORS(uint, unsigned int, 8, 16)
SIMT_VECTORS(float, float, 8, 16)
SIMT_VECTORS(long, long, 16, 32)
SIMT_VECTORS(ulong, unsigned long, 16, 32)
SIMT_VECTORS(longlong, long long, 16, 32)
SIMT_VECTORS(ulonglong, unsigned long long, 16, 32)
SIMT_VECTORS(double, double, 16, 32)

typedef struct dim3 {
    unsigned int x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1)
        : x(x_), y(y_), z(z_)
    {
    }
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return uint3{x, y, z}; }
#endif
} dim3;
