/* Atomic functions: relaxed, as CUDA's are. */
#include "host/checker.h"
#include "run/engine.h"
#include <cstring>
#include <simt/atomics.h>
#include <type_traits>

namespace simt
{

/* An exchange returns the old value, which most kernels ignore: they set a flag with it for the
 * first time. */
static bool reads(int operation)
{
    return operation != simt_atomic_store && operation != simt_atomic_exchange;
}

/*
 * A thread that keeps to one address may be waiting for another thread to change it: now and then
 * it lets the others run, or they never would.
 */
static void notice(const void *address, size_t bytes, bool reads, bool writes, const void *where)
{
    constexpr unsigned repeats_before_yield = 64;
    Block &block = *worker->block;
    if (block.last_atomic != worker->thread || block.atomic_address != address) {
        block.last_atomic = worker->thread;
        block.atomic_address = address;
        block.atomic_repeats = 0;
    } else if (++block.atomic_repeats == repeats_before_yield) {
        block.atomic_repeats = 0;
        simt_yield();
    }
    checker->atomic_access(address, bytes, reads, writes, where);
}

template <class Word>
static Word value_after(Word old, int operation, Word value)
{
    typedef std::make_signed_t<Word> Signed;
    switch (operation) {
    case simt_atomic_min_signed:
        return static_cast<Signed>(value) < static_cast<Signed>(old) ? value : old;
    case simt_atomic_max_signed:
        return static_cast<Signed>(value) > static_cast<Signed>(old) ? value : old;
    case simt_atomic_min:
        return value < old ? value : old;
    case simt_atomic_max:
        return value > old ? value : old;
    case simt_atomic_increment:
        return old >= value ? Word(0) : Word(old + 1);
    case simt_atomic_decrement:
        return old == 0 || old > value ? value : Word(old - 1);
    default: { /* simt_atomic_add_float */
        typedef std::conditional_t<sizeof(Word) == 8, double, float> Float;
        if constexpr (sizeof(Word) == sizeof(Float)) {
            Float a, b;
            memcpy(&a, &old, sizeof a);
            memcpy(&b, &value, sizeof b);
            a += b;
            memcpy(&old, &a, sizeof a);
        }
        return old;
    }
    }
}

template <class Word>
static Word perform(void *address, int operation, Word value, Word expected)
{
    Word *cell = static_cast<Word *>(address);
    switch (operation) {
    case simt_atomic_load:
        return __atomic_load_n(cell, __ATOMIC_ACQUIRE);
    case simt_atomic_store:
        __atomic_store_n(cell, value, __ATOMIC_RELEASE);
        return value;
    case simt_atomic_exchange:
        return __atomic_exchange_n(cell, value, __ATOMIC_RELAXED);
    case simt_atomic_compare:
        __atomic_compare_exchange_n(cell, &expected, value, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
        return expected;
    case simt_atomic_add:
        return __atomic_fetch_add(cell, value, __ATOMIC_RELAXED);
    case simt_atomic_and:
        return __atomic_fetch_and(cell, value, __ATOMIC_RELAXED);
    case simt_atomic_or:
        return __atomic_fetch_or(cell, value, __ATOMIC_RELAXED);
    case simt_atomic_xor:
        return __atomic_fetch_xor(cell, value, __ATOMIC_RELAXED);
    default: {
        Word seen = __atomic_load_n(cell, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(cell, &seen, value_after(seen, operation, value), false,
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        }
        return seen;
    }
    }
}

template <class Word>
static void update_word(void *address, simt_atomic_function *update, const void *operand,
                        void *before)
{
    Word *cell = static_cast<Word *>(address);
    Word seen = __atomic_load_n(cell, __ATOMIC_RELAXED), wanted;
    do {
        wanted = seen;
        update(&wanted, operand);
    } while (!__atomic_compare_exchange_n(cell, &seen, wanted, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    memcpy(before, &seen, sizeof seen);
}

} /* namespace simt */

using namespace simt;

#define SIMT_ATOMIC_WORD(bits)                                                                     \
    extern "C" uint##bits##_t simt_atomic_##bits(void *address, int operation,                     \
                                                 uint##bits##_t value, uint##bits##_t expected)    \
    {                                                                                              \
        notice(address, bits / 8, reads(operation), operation != simt_atomic_load,                 \
               __builtin_return_address(0));                                                       \
        uint##bits##_t before = perform(address, operation, value, expected);                      \
        checker->atomic_done();                                                                    \
        if (operation == simt_atomic_compare)                                                      \
            checker->compared(address, bits / 8);                                                  \
        return before;                                                                             \
    }
SIMT_ATOMIC_WORD(16)
SIMT_ATOMIC_WORD(32)
SIMT_ATOMIC_WORD(64)

void simt_atomic_update(void *address, size_t bytes, simt_atomic_function *update,
                        const void *operand, void *before)
{
    notice(address, bytes, true, true, __builtin_return_address(0));
    if (bytes == 2)
        update_word<uint16_t>(address, update, operand, before);
    else if (bytes == 4)
        update_word<uint32_t>(address, update, operand, before);
    else
        update_word<uint64_t>(address, update, operand, before);
    checker->atomic_done();
}
