/*
 * Atomic functions. All of them are calls into the runtime, so that the checked build counts each
 * as one atomic access and both builds notice a thread that does nothing but poll one address, and
 * let others run.
 */
#pragma once

#include <cstdint>
#include <cstring>
#include <simt/keywords.h>
#include <type_traits>

extern "C" {

enum simt_atomic_operation {
    simt_atomic_load,
    simt_atomic_store,
    simt_atomic_exchange,
    simt_atomic_compare, /* compare and swap */
    simt_atomic_add,
    simt_atomic_and,
    simt_atomic_or,
    simt_atomic_xor,
    simt_atomic_min_signed,
    simt_atomic_max_signed,
    simt_atomic_min,
    simt_atomic_max,
    simt_atomic_increment, /* atomicInc: wraps to 0 past the value */
    simt_atomic_decrement,
    simt_atomic_add_float
};

/* Each returns the value from before. */
uint16_t simt_atomic_16(void *address, int operation, uint16_t value, uint16_t expected);
uint32_t simt_atomic_32(void *address, int operation, uint32_t value, uint32_t expected);
uint64_t simt_atomic_64(void *address, int operation, uint64_t value, uint64_t expected);

/* *cell = update(*cell, operand) in one step, for what has no operation of its own. `before`
 * receives the old value. */
typedef void simt_atomic_function(void *cell, const void *operand);
void simt_atomic_update(void *address, size_t bytes, simt_atomic_function *update,
                        const void *operand, void *before);
}

namespace simt
{

inline uint16_t atomic_word(void *cell, int operation, uint16_t value, uint16_t expected)
{
    return simt_atomic_16(cell, operation, value, expected);
}

inline uint32_t atomic_word(void *cell, int operation, uint32_t value, uint32_t expected)
{
    return simt_atomic_32(cell, operation, value, expected);
}

inline uint64_t atomic_word(void *cell, int operation, uint64_t value, uint64_t expected)
{
    return simt_atomic_64(cell, operation, value, expected);
}

/* The operation on the T at `address`, whose bits travel as an unsigned word of its size. */
template <class T>
inline T atomic(const volatile T *address, int operation, T value, T expected = T())
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8,
                  "atomics are 2, 4 or 8 bytes wide");
    typedef std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t> Wide;
    typedef std::conditional_t<sizeof(T) == 2, uint16_t, Wide> Word;
    Word words[2];
    __builtin_memcpy(&words[0], static_cast<const void *>(&value), sizeof value);
    __builtin_memcpy(&words[1], static_cast<const void *>(&expected), sizeof value);
    words[0] = atomic_word(const_cast<T *>(address), operation, words[0], words[1]);
    __builtin_memcpy(static_cast<void *>(&value), &words[0], sizeof value);
    return value;
}

/* T's own minimum and maximum: the word's is unsigned. */
template <class T>
constexpr int atomic_minimum = std::is_signed_v<T> ? simt_atomic_min_signed : simt_atomic_min;
template <class T>
constexpr int atomic_maximum = std::is_signed_v<T> ? simt_atomic_max_signed : simt_atomic_max;
template <class T>
constexpr int atomic_addition =
    std::is_floating_point_v<T> ? simt_atomic_add_float : simt_atomic_add;

/* 0 - value in T's own width, without a warning for unsigned T. */
template <class T>
constexpr T negated(T value)
{
    return static_cast<T>(T(0) - value);
}

} /* namespace simt */

#define SIMT_ATOMIC_ONE(name, T, operation)                                                        \
    inline T name(T *address, T value) { return simt::atomic(address, operation, value); }
#define SIMT_ATOMIC(name, T, operation)                                                            \
    SIMT_ATOMIC_ONE(name, T, operation)                                                            \
    SIMT_ATOMIC_ONE(name##_block, T, operation)                                                    \
    SIMT_ATOMIC_ONE(name##_system, T, operation)

#define SIMT_ATOMIC_COMPARE(name, T)                                                               \
    inline T name(T *address, T expected, T value)                                                 \
    {                                                                                              \
        return simt::atomic(address, simt_atomic_compare, value, expected);                        \
    }

#define SIMT_ATOMIC_INTEGER(T)                                                                     \
    SIMT_ATOMIC(atomicAdd, T, simt_atomic_add)                                                     \
    SIMT_ATOMIC(atomicAnd, T, simt_atomic_and)                                                     \
    SIMT_ATOMIC(atomicOr, T, simt_atomic_or)                                                       \
    SIMT_ATOMIC(atomicXor, T, simt_atomic_xor)                                                     \
    SIMT_ATOMIC(atomicExch, T, simt_atomic_exchange)                                               \
    SIMT_ATOMIC(atomicMin, T, simt::atomic_minimum<T>)                                             \
    SIMT_ATOMIC(atomicMax, T, simt::atomic_maximum<T>)                                             \
    SIMT_ATOMIC_COMPARE(atomicCAS, T)                                                              \
    SIMT_ATOMIC_COMPARE(atomicCAS_block, T)                                                        \
    SIMT_ATOMIC_COMPARE(atomicCAS_system, T)                                                       \
    inline T atomicSub(T *address, T value)                                                        \
    {                                                                                              \
        return simt::atomic(address, simt_atomic_add, simt::negated(value));                       \
    }

/* clang-format off */
SIMT_ATOMIC_INTEGER(int)
SIMT_ATOMIC_INTEGER(unsigned int)
SIMT_ATOMIC_INTEGER(long)
SIMT_ATOMIC_INTEGER(unsigned long)
SIMT_ATOMIC_INTEGER(long long)
SIMT_ATOMIC_INTEGER(unsigned long long)
SIMT_ATOMIC(atomicAdd, float, simt_atomic_add_float)
SIMT_ATOMIC(atomicAdd, double, simt_atomic_add_float)
SIMT_ATOMIC(atomicExch, float, simt_atomic_exchange)
SIMT_ATOMIC(atomicInc, unsigned int, simt_atomic_increment)
SIMT_ATOMIC(atomicDec, unsigned int, simt_atomic_decrement)
SIMT_ATOMIC_COMPARE(atomicCAS, unsigned short)
/* clang-format on */

#undef SIMT_ATOMIC_INTEGER
#undef SIMT_ATOMIC_COMPARE
#undef SIMT_ATOMIC
#undef SIMT_ATOMIC_ONE
