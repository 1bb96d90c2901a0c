/* All atomic functions are calls into the runtime. So the checked build counts each as one access,
 * and both builds let others run when a thread only polls one address. */
#pragma once

#include <simt/collectives.h>
#include <type_traits>

extern "C" {

/* Does a simt_operation, of some scope, on 2, 4 or 8 bytes; returns the value from before. */
uint64_t simt_atomic(void *address, size_t bytes, int operation, uint64_t value, uint64_t expected);

/* Does *cell = update(*cell, operand), for 2 or 4 bytes. `before` receives the old value. */
typedef void simt_atomic_function(void *cell, const void *operand);
void simt_atomic_update(void *address, size_t bytes, simt_atomic_function *update,
                        const void *operand, void *before);

/* Adds floats to as many neighbours, in one access of the kernel's line `where`. */
void simt_atomic_add_floats(float *address, const float *addends, size_t count, const void *where);
}

namespace simt
{

/* Carries out the operation on the T at `address`, whose bits travel in a word. */
template <int scope = simt_device, class T>
inline T atomic(const volatile T *address, int operation, T value, T expected = T())
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8,
                  "atomics are 2, 4 or 8 bytes wide");
    return from_word(simt_atomic(const_cast<T *>(address), sizeof value,
                                 operation | scope << simt_operation_bits, to_word(value),
                                 to_word(expected)),
                     value);
}

/* T has its own minimum and maximum, because the word's are unsigned. */
template <class T> constexpr int atomic_minimum = std::is_signed_v<T> ? simt_min_signed : simt_min;
template <class T> constexpr int atomic_maximum = std::is_signed_v<T> ? simt_max_signed : simt_max;
template <class T> constexpr int atomic_addition =
    std::is_floating_point_v<T> ? simt_add_float : simt_add;

/* Returns 0 - value in T's own width, without a warning for unsigned T. */
template <class T> constexpr T negated(T value) { return static_cast<T>(T(0) - value); }

} /* namespace simt */

#define SIMT_ATOMIC_ONE(name, T, parameters, ...)                                                  \
    SIMT_INLINE(T, name, parameters, simt::atomic(address, __VA_ARGS__))                           \
    SIMT_INLINE(T, name##_block, parameters, simt::atomic<simt_block>(address, __VA_ARGS__))       \
    SIMT_INLINE(T, name##_system, parameters, simt::atomic<simt_system>(address, __VA_ARGS__))
#define SIMT_ATOMIC(name, T, operation)                                                            \
    SIMT_ATOMIC_ONE(name, T, (T * address, T value), operation, value)
#define SIMT_ATOMIC_COMPARE(T)                                                                     \
    SIMT_ATOMIC_ONE(atomicCAS, T, (T * address, T expected, T value), simt_compare, value, expected)
#define SIMT_ATOMIC_INTEGER(T)                                                                     \
    SIMT_ATOMIC(atomicAdd, T, simt_add)                                                            \
    SIMT_ATOMIC_ONE(atomicSub, T, (T * address, T value), simt_add, simt::negated(value))          \
    SIMT_ATOMIC(atomicAnd, T, simt_and)                                                            \
    SIMT_ATOMIC(atomicOr, T, simt_or)                                                              \
    SIMT_ATOMIC(atomicXor, T, simt_xor)                                                            \
    SIMT_ATOMIC(atomicExch, T, simt_exchange)                                                      \
    SIMT_ATOMIC(atomicMin, T, simt::atomic_minimum<T>)                                             \
    SIMT_ATOMIC(atomicMax, T, simt::atomic_maximum<T>)                                             \
    SIMT_ATOMIC_COMPARE(T)

SIMT_ATOMIC_INTEGER(int)
SIMT_ATOMIC_INTEGER(unsigned int)
SIMT_ATOMIC_INTEGER(long)
SIMT_ATOMIC_INTEGER(unsigned long)
SIMT_ATOMIC_INTEGER(long long)
SIMT_ATOMIC_INTEGER(unsigned long long)
SIMT_ATOMIC(atomicAdd, float, simt_add_float)
SIMT_ATOMIC(atomicAdd, double, simt_add_float)
SIMT_ATOMIC(atomicExch, float, simt_exchange)
SIMT_ATOMIC(atomicInc, unsigned int, simt_increment)
SIMT_ATOMIC(atomicDec, unsigned int, simt_decrement)
SIMT_ATOMIC_COMPARE(unsigned short)
#undef SIMT_ATOMIC_INTEGER
#undef SIMT_ATOMIC_COMPARE
#undef SIMT_ATOMIC
#undef SIMT_ATOMIC_ONE
