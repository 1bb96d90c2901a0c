/*
 * dim3 and CUDA's small vectors: char1 to double4, and make_char1() to make_double4().
 *
 * In C they are plain structs. In C++ a vector that the hardware moves with one instruction (2 or 4
 * components, at most 16 bytes) is copied through one machine word of its size, so that a float4
 * load stays one load in the compiled program too.
 */
#pragma once

#include <stdint.h>

#define SIMT_ALIGNED(n) __attribute__((aligned(n)))

typedef uint16_t __attribute__((may_alias)) simt_word2;
typedef uint32_t __attribute__((may_alias)) simt_word4;
typedef uint64_t __attribute__((may_alias)) simt_word8;
typedef uint32_t __attribute__((may_alias, vector_size(16))) simt_word16;

#ifdef __cplusplus

#define SIMT_COPIED_WHOLE(name)                                                                    \
    name(const name &other) : simt_whole(other.simt_whole) {}                                      \
    name &operator=(const name &other)                                                             \
    {                                                                                              \
        simt_whole = other.simt_whole;                                                             \
        return *this;                                                                              \
    }

#define SIMT_VECTOR2(name, T, word, align)                                                         \
    struct SIMT_ALIGNED(align) name {                                                              \
        __extension__ union {                                                                      \
            __extension__ struct {                                                                 \
                T x, y;                                                                            \
            };                                                                                     \
            word simt_whole;                                                                       \
        };                                                                                         \
        name() = default;                                                                          \
        constexpr name(T x_, T y_ = 0) : x(x_), y(y_) {}                                           \
        SIMT_COPIED_WHOLE(name)                                                                    \
    };

#define SIMT_VECTOR4(name, T, word, align)                                                         \
    struct SIMT_ALIGNED(align) name {                                                              \
        __extension__ union {                                                                      \
            __extension__ struct {                                                                 \
                T x, y, z, w;                                                                      \
            };                                                                                     \
            word simt_whole;                                                                       \
        };                                                                                         \
        name() = default;                                                                          \
        constexpr name(T x_, T y_ = 0, T z_ = 0, T w_ = 0) : x(x_), y(y_), z(z_), w(w_) {}         \
        SIMT_COPIED_WHOLE(name)                                                                    \
    };

#define SIMT_PLAIN_VECTOR(name) /* in C++ the struct's name is a type already */

#else

#define SIMT_PLAIN_VECTOR(name) typedef struct name name;
#define SIMT_VECTOR2(name, T, word, align)                                                         \
    struct SIMT_ALIGNED(align) name {                                                              \
        T x, y;                                                                                    \
    };                                                                                             \
    SIMT_PLAIN_VECTOR(name)
#define SIMT_VECTOR4(name, T, word, align)                                                         \
    struct SIMT_ALIGNED(align) name {                                                              \
        T x, y, z, w;                                                                              \
    };                                                                                             \
    SIMT_PLAIN_VECTOR(name)

#endif

/* Vectors of 1 and 3 have the alignment of their component and move component by component. */
#define SIMT_VECTOR13(name, T)                                                                     \
    struct name##1 { T x; };                                                                       \
    SIMT_PLAIN_VECTOR(name##1)                                                                     \
    struct name##3 { T x, y, z; };                                                                 \
    SIMT_PLAIN_VECTOR(name##3)

/* Four 8-byte components are 32 bytes, which move as two words of 16. */
#define SIMT_WIDE_VECTOR4(name, T)                                                                 \
    struct SIMT_ALIGNED(16) name {                                                                 \
        T x, y, z, w;                                                                              \
    };                                                                                             \
    SIMT_PLAIN_VECTOR(name)

/* make_float4(x, y, z, w) and its relatives. */
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

#define SIMT_VECTORS_OF_1_BYTE(name, T)                                                            \
    SIMT_VECTOR13(name, T)                                                                         \
    SIMT_VECTOR2(name##2, T, simt_word2, 2)                                                        \
    SIMT_VECTOR4(name##4, T, simt_word4, 4) SIMT_MAKE_VECTORS(name, T)
#define SIMT_VECTORS_OF_2_BYTES(name, T)                                                           \
    SIMT_VECTOR13(name, T)                                                                         \
    SIMT_VECTOR2(name##2, T, simt_word4, 4)                                                        \
    SIMT_VECTOR4(name##4, T, simt_word8, 8) SIMT_MAKE_VECTORS(name, T)
#define SIMT_VECTORS_OF_4_BYTES(name, T)                                                           \
    SIMT_VECTOR13(name, T)                                                                         \
    SIMT_VECTOR2(name##2, T, simt_word8, 8)                                                        \
    SIMT_VECTOR4(name##4, T, simt_word16, 16) SIMT_MAKE_VECTORS(name, T)
#define SIMT_VECTORS_OF_8_BYTES(name, T)                                                           \
    SIMT_VECTOR13(name, T)                                                                         \
    SIMT_VECTOR2(name##2, T, simt_word16, 16)                                                      \
    SIMT_WIDE_VECTOR4(name##4, T) SIMT_MAKE_VECTORS(name, T)

/* clang-format off */
SIMT_VECTORS_OF_1_BYTE(char, signed char)
SIMT_VECTORS_OF_1_BYTE(uchar, unsigned char)
SIMT_VECTORS_OF_2_BYTES(short, short)
SIMT_VECTORS_OF_2_BYTES(ushort, unsigned short)
SIMT_VECTORS_OF_4_BYTES(int, int)
SIMT_VECTORS_OF_4_BYTES(uint, unsigned int)
SIMT_VECTORS_OF_4_BYTES(float, float)
SIMT_VECTORS_OF_8_BYTES(long, long)
SIMT_VECTORS_OF_8_BYTES(ulong, unsigned long)
SIMT_VECTORS_OF_8_BYTES(longlong, long long)
SIMT_VECTORS_OF_8_BYTES(ulonglong, unsigned long long)
SIMT_VECTORS_OF_8_BYTES(double, double)
/* clang-format on */

struct dim3 {
    unsigned int x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1)
        : x(x_), y(y_), z(z_)
    {
    }
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return uint3{x, y, z}; }
#endif
};
SIMT_PLAIN_VECTOR(dim3)
