/* Atomic functions are relaxed, as CUDA's are. */
#include "run/engine.h"
#include "threads/operations.h"
#include <simt/atomics.h>

using namespace simt;

/* Most kernels ignore what an exchange returns: they set a flag with it for the first time. */
static AccessKind kind_of(int operation)
{
    return operation == simt_load                                  ? atomic_read
           : operation == simt_store || operation == simt_exchange ? atomic_write
                                                                   : atomic_update;
}

/* Who keeps to one address may wait for another thread, so now and then it lets others run. */
static void notice(const void *address, size_t bytes, AccessKind kind, const void *where, int scope)
{
    constexpr unsigned repeats_before_yield = 64;
    if (!current_thread)
        return; /* host code, by cuda::atomic */
    Block &block = *worker->block;
    if (block.last_atomic != current_thread || block.atomic_address != address) {
        block.last_atomic = current_thread;
        block.atomic_address = address;
        block.atomic_repeats = 0;
    } else if (++block.atomic_repeats == repeats_before_yield) {
        block.atomic_repeats = 0;
        simt_yield();
    }
    checker->atomic_access(address, bytes, kind, where, scope);
}

/* Stores update(old) in place of the old value, and returns the old value. */
template <class Word, class Update> static Word replace(Word *cell, Update update)
{
    Word seen = __atomic_load_n(cell, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(cell, &seen, update(seen), false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
    return seen;
}

template <class Word>
static uint64_t perform(void *address, int operation, Word value, Word expected)
{
    Word *cell = static_cast<Word *>(address);
    switch (operation) {
    case simt_load:
        return __atomic_load_n(cell, __ATOMIC_ACQUIRE);
    case simt_store:
        __atomic_store_n(cell, value, __ATOMIC_RELEASE);
        return value;
    case simt_compare:
        __atomic_compare_exchange_n(cell, &expected, value, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
        return expected;
    case simt_add:
        return __atomic_fetch_add(cell, value, __ATOMIC_RELAXED);
    default:
        return replace(cell, [=](Word old) { return combined(old, operation, value); });
    }
}

uint64_t simt_atomic(void *address, size_t bytes, int which, uint64_t value, uint64_t expected)
{
    const int operation = which & ((1 << simt_operation_bits) - 1);
    notice(address, bytes, kind_of(operation), __builtin_return_address(0),
           which >> simt_operation_bits);
    const uint64_t before = bytes == 4   ? perform<uint32_t>(address, operation, value, expected)
                            : bytes == 8 ? perform<uint64_t>(address, operation, value, expected)
                                         : perform<uint16_t>(address, operation, value, expected);
    checker->atomic_done(operation == simt_compare ? address : nullptr, bytes);
    return before;
}

void simt_atomic_update(void *address, size_t bytes, simt_atomic_function *update,
                        const void *operand, void *before)
{
    notice(address, bytes, atomic_update, __builtin_return_address(0), simt_device);
    const auto updated = [=](auto value) {
        update(&value, operand);
        return value;
    };
    if (bytes == 2)
        *static_cast<uint16_t *>(before) = replace(static_cast<uint16_t *>(address), updated);
    else
        *static_cast<uint32_t *>(before) = replace(static_cast<uint32_t *>(address), updated);
    checker->atomic_done();
}

void simt_atomic_add_floats(float *address, const float *addends, size_t count, const void *where)
{
    notice(address, count * sizeof *address, atomic_update, where, simt_device);
    for (size_t i = 0; i < count; i++)
        replace(reinterpret_cast<uint32_t *>(&address[i]), [=](uint32_t old) {
            return combined(old, simt_add_float, uint32_t(to_word(addends[i])));
        });
    checker->atomic_done();
}
