/* Device code reads and calls these, which are neither barriers nor warp operations nor atomics. */
#include "host/memory.h"
#include "run/engine.h"
#include <chrono>

using namespace simt;

/* One tick is a nanosecond, as on a device of 1 GHz. */
long long simt_clock(void)
{
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void simt_threadfence(int scope)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    checker->thread_fence(scope);
}

void *simt_device_malloc(size_t bytes) { return allocate_in_kernel(bytes); }

void simt_device_free(void *pointer)
{
    if (pointer && !free_in_kernel(pointer))
        simt_fail("free or delete of %p, where no memory of the device's heap begins, or no longer",
                  pointer);
}

void simt_launch_bounds(unsigned threads, unsigned, unsigned)
{
    const Block &block = *worker->block;
    if (block.threads <= threads)
        return;
    /* No thread has done anything yet, so the launch is refused as if it had not begun. */
    block.launch->allowed_threads = threads;
    block.launch->failed_turn = 0;
    block.launch->failed = true;
    abandon_block();
}

/* Address 0 of the shared window would look null, so it begins a little further on. */
static const unsigned window_offset = 1024;

unsigned simt_is_shared(const void *pointer)
{
    const char *p = static_cast<const char *>(pointer);
    return p >= worker->shared_begin && p < worker->shared_end;
}

unsigned simt_is_local(const void *pointer) { return on_thread_stack(pointer); }

/* Keeps the alignment of shared_begin, which matrix loads and bulk copies check. */
static char *window_begin()
{
    return worker->shared_begin - uintptr_t(worker->shared_begin) % 1024;
}

unsigned simt_shared_address(const void *pointer)
{
    return unsigned(static_cast<const char *>(pointer) - window_begin()) + window_offset;
}

void *simt_shared_pointer(unsigned address) { return window_begin() + (address - window_offset); }
