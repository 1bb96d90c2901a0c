/* The compiler put these calls before accesses to memory (check/flags), under the names of GCC's
 * sanitizers, whose libraries are not linked. The return address tells which access it is. */
#include "check/check.h"
#include "host/errors.h"

using namespace simt;
using namespace simt::check;

#define WHERE __builtin_return_address(0)

/* Most accesses are plain reads, by an instruction that was in the same memory before, of words
 * that others have read in the same way since they were last written: they are only counted. For
 * other plain accesses of such an instruction the shadow is checked. All others go to on_access. */
template <unsigned bytes, AccessKind kind>
__attribute__((always_inline)) inline void on_plain(const void *pointer, const void *where)
{
    const uintptr_t address = number_of(pointer);
    const Thread *thread = current_thread;
    if (!thread)
        return on_access(pointer, bytes, kind, where);
    Instruction *instruction = thread->recent->at(where);
    if (instruction->where != where || address - instruction->begin >= instruction->room)
        return on_access(pointer, bytes, kind, where);
    /* Narrower accesses are aligned as their types are, or another check has seen them. */
    if (bytes == 16 && (address % bytes != 0 || instruction->place.bytes != bytes))
        return on_access(pointer, bytes, kind, where);
    bool quiet = kind == plain_read && bytes >= 4;
    for (unsigned i = 0; quiet && i < bytes / 4; i++)
        quiet = is_quiet(reinterpret_cast<const uint8_t *>(instruction->words + address / 4)[i],
                         instruction->quiet);
    if (quiet)
        add_execution(address, *instruction, thread->lane);
    else
        on_known_access<bytes, kind>(address, *instruction, thread->checked);
}

#define ACCESS(name, bytes, kind)                                                                  \
    extern "C" void name(void *address) { on_access(address, bytes, kind, WHERE); }

#define PLAIN(name, bytes, kind)                                                                   \
    extern "C" void name(void *address) { on_plain<bytes, kind>(address, WHERE); }

#define ACCESSES(bytes)                                                                            \
    PLAIN(__tsan_read##bytes, bytes, plain_read)                                                   \
    PLAIN(__tsan_write##bytes, bytes, plain_write)                                                 \
    ACCESS(__tsan_unaligned_read##bytes, bytes, plain_read)                                        \
    ACCESS(__tsan_unaligned_write##bytes, bytes, plain_write)                                      \
    ACCESS(__tsan_volatile_read##bytes, bytes, volatile_read)                                      \
    ACCESS(__tsan_volatile_write##bytes, bytes, volatile_write)

ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

ACCESS(__tsan_vptr_read, sizeof(void *), plain_read)
extern "C" void __tsan_vptr_update(void **address, void *)
{
    on_access(address, sizeof *address, plain_write, WHERE);
}

/* Host code may copy gigabytes; the ends are enough to notice a device pointer. */
static void on_block_of_memory(const void *address, size_t bytes, unsigned kind, const void *where)
{
    ThreadState *thread = current_thread_state();
    if (bytes == 0)
        return;
    if (!thread) {
        on_access(address, 1, kind, where);
        on_access(static_cast<const char *>(address) + bytes - 1, 1, kind, where);
        return;
    }
    thread->copied_struct = kind == plain_read ? number_of(address) : 0;
    on_range(address, bytes, kind, where);
    thread->copied_struct = 0;
}

extern "C" void __tsan_read_range(void *address, size_t bytes)
{
    on_block_of_memory(address, bytes, plain_read, WHERE);
}

extern "C" void __tsan_write_range(void *address, size_t bytes)
{
    on_block_of_memory(address, bytes, plain_write, WHERE);
}

#define COPY(name)                                                                                 \
    extern "C" void *simt_##name(void *to, const void *from, size_t bytes)                         \
    {                                                                                              \
        on_block_of_memory(from, bytes, plain_read, WHERE);                                        \
        on_block_of_memory(to, bytes, plain_write, WHERE);                                         \
        return name(to, from, bytes);                                                              \
    }
COPY(memcpy)
COPY(memmove)

extern "C" void *simt_memset(void *to, int value, size_t bytes)
{
    on_block_of_memory(to, bytes, plain_write, WHERE);
    return memset(to, value, bytes);
}

/* These serve __atomic_... and std::atomic. CUDA's own are calls into the runtime. */
class AtomicBuiltIn
{
    int order;

  public:
    /* A release is a fence before the operation, an acquire one after it. */
    AtomicBuiltIn(const volatile void *address, size_t bytes, AccessKind kind, int order,
                  const void *where)
        : order(order)
    {
        if (writes(kind) && order >= __ATOMIC_RELEASE)
            checker->thread_fence(simt_system);
        checker->atomic_access(const_cast<const void *>(address), bytes, kind, where, simt_system);
    }

    ~AtomicBuiltIn()
    {
        checker->atomic_done();
        if (order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE)
            checker->thread_fence(simt_system);
    }
};

#define ATOMIC(T, bits, name, kind, parameters, expression)                                        \
    extern "C" T __tsan_atomic##bits##_##name parameters                                           \
    {                                                                                              \
        AtomicBuiltIn operation(address, sizeof *address, kind, order, WHERE);                     \
        return expression;                                                                         \
    }

#define ATOMIC_UPDATE(T, bits, name)                                                               \
    ATOMIC(T, bits, name, atomic_update, (volatile T * address, T value, int order),               \
           __atomic_##name(address, value, __ATOMIC_SEQ_CST))

#define ATOMIC_COMPARE(T, bits, name, weak)                                                        \
    ATOMIC(int, bits, name, atomic_update,                                                         \
           (volatile T * address, T * expected, T value, int order, int),                          \
           __atomic_compare_exchange_n(address, expected, value, weak, __ATOMIC_SEQ_CST,           \
                                       __ATOMIC_SEQ_CST))

#define ATOMICS(T, bits)                                                                           \
    ATOMIC(T, bits, load, atomic_read, (const volatile T *address, int order),                     \
           __atomic_load_n(address, __ATOMIC_SEQ_CST))                                             \
    ATOMIC(void, bits, store, atomic_write, (volatile T * address, T value, int order),            \
           __atomic_store_n(address, value, __ATOMIC_SEQ_CST))                                     \
    ATOMIC(T, bits, exchange, atomic_write, (volatile T * address, T value, int order),            \
           __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST))                                  \
    ATOMIC_UPDATE(T, bits, fetch_add)                                                              \
    ATOMIC_UPDATE(T, bits, fetch_sub)                                                              \
    ATOMIC_UPDATE(T, bits, fetch_and)                                                              \
    ATOMIC_UPDATE(T, bits, fetch_or)                                                               \
    ATOMIC_UPDATE(T, bits, fetch_xor)                                                              \
    ATOMIC_UPDATE(T, bits, fetch_nand)                                                             \
    ATOMIC_COMPARE(T, bits, compare_exchange_strong, false)                                        \
    ATOMIC_COMPARE(T, bits, compare_exchange_weak, true)

ATOMICS(uint8_t, 8)
ATOMICS(uint16_t, 16)
ATOMICS(uint32_t, 32)
ATOMICS(uint64_t, 64)

extern "C" void __tsan_atomic_thread_fence(int) { checker->thread_fence(simt_system); }

extern "C" void __tsan_atomic_signal_fence(int) {}

/* ---- fixed-size arrays, and alignment by type ---- */

/* This is GCC's layout for its sanitizer's library. */
struct SourceLocation {
    const char *file;
    uint32_t line, column;
};

struct TypeDescriptor {
    uint16_t kind, information;
    char name[1]; /* in full length and in quotes: "'float [32]'" */
};

struct OutOfBounds {
    SourceLocation location;
    const TypeDescriptor *array, *index;
};

struct TypeMismatch {
    SourceLocation location;
    const TypeDescriptor *type;
    unsigned char alignment_bits;
    /* A load, a store, a reference that is bound to one, ...: all are the same here. */
    unsigned char kind;
};

static long long index_value(const TypeDescriptor *type, uintptr_t value)
{
    bool is_signed = type->information & 1;
    unsigned bits = 1u << (type->information >> 1);
    return is_signed && bits == 32 ? int32_t(value) : static_cast<long long>(value);
}

extern "C" void __ubsan_handle_out_of_bounds(OutOfBounds *data, uintptr_t index)
{
    if (const ThreadState *thread = current_thread_state())
        blame(thread, format("out of bounds: index %lld of an array of type %s at %s:%u",
                             index_value(data->index, index), data->array->name,
                             data->location.file, data->location.line));
}

extern "C" void __ubsan_handle_type_mismatch_v1(TypeMismatch *data, uintptr_t pointer)
{
    const unsigned alignment = 1u << data->alignment_bits;
    const ThreadState *thread = current_thread_state();
    if (thread && !on_thread_stack(memory_at(pointer)))
        blame(thread,
              format("misaligned address: a %s at %s:%u, %u bytes past a multiple of %u",
                     data->type->name, data->location.file, data->location.line,
                     unsigned(pointer % alignment), alignment),
              cudaErrorMisalignedAddress);
}
