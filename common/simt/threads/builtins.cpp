/* What device code reads and calls that is neither a barrier nor a warp operation nor an atomic. */
#include "threads/builtins.h"
#include "check/checker.h"
#include "host/device.h"
#include "run/engine.h"
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <iterator>

namespace simt
{

__thread uint3 thread_index __asm__("threadIdx");
__thread uint3 block_index __asm__("blockIdx");
__thread dim3 block_shape __asm__("blockDim");
__thread dim3 grid_shape __asm__("gridDim");

bool is_builtin(const void *address)
{
    const char *p = static_cast<const char *>(address);
    for (const void *each :
         {static_cast<const void *>(&thread_index), static_cast<const void *>(&block_index),
          static_cast<const void *>(&block_shape), static_cast<const void *>(&grid_shape)}) {
        const char *begin = static_cast<const char *>(each);
        if (p >= begin && p < begin + sizeof(uint3))
            return true;
    }
    return false;
}

} /* namespace simt */

using namespace simt;

/* The largest block that a launch can ask for; aligned for everything that wants shared memory
 * aligned. */
__thread char simt_dynamic_shared[max_shared_per_block] __attribute__((aligned(1024)));

/* -------------------------------------------------------------------------------------------------
 */
/* Clocks */

static unsigned long long nanoseconds()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<unsigned long long>(now.tv_sec) * 1000000000u +
           static_cast<unsigned long long>(now.tv_nsec);
}

/* One tick per nanosecond: a device of 1 GHz. */
extern "C" long long simt_clock(void)
{
    return static_cast<long long>(nanoseconds());
}

extern "C" unsigned long long simt_globaltimer(void)
{
    return nanoseconds();
}

/* -------------------------------------------------------------------------------------------------
 */
/* Fences and other small things */

extern "C" void simt_threadfence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    checker::thread_fence(__builtin_return_address(0));
}

extern "C" void simt_nanosleep(unsigned)
{
    simt_yield();
}

extern "C" void simt_touch(const void *address, size_t bytes, int writes)
{
    checker::access(address, bytes, writes, __builtin_return_address(0));
}

extern "C" void simt_released(const void *object)
{
    checker::released(object);
}

extern "C" void simt_acquired(const void *object)
{
    checker::acquired(object);
}

extern "C" void simt_trap(void)
{
    simt_fail("__trap()");
}

extern "C" void simt_fail(const char *format, ...)
{
    char what[1000], who[100];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    describe_thread(self(), who, sizeof who);
    Launch &launch = *worker->block->launch;
    report(&launch, cudaErrorLaunchFailure, "%s (kernel %s, %s)", what, kernel_name(launch), who);
    abandon_block();
}

/* -------------------------------------------------------------------------------------------------
 */
/* Where an address lies */

/* Shared-window address 0 would look like a null pointer, so the window begins a little further
 * on. */
static const unsigned window_offset = 1024;

extern "C" unsigned simt_is_shared(const void *pointer)
{
    const char *p = static_cast<const char *>(pointer);
    return p >= worker->shared_begin && p < worker->shared_end;
}

extern "C" unsigned simt_is_local(const void *pointer)
{
    return on_thread_stack(pointer);
}

/* Keeps the alignment of shared_begin, which alignment checks of matrix loads and bulk copies look
 * at. */
static char *window_begin()
{
    return reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(worker->shared_begin) &
                                    ~uintptr_t(1023));
}

extern "C" unsigned simt_shared_address(const void *pointer)
{
    return static_cast<unsigned>(static_cast<const char *>(pointer) - window_begin()) +
           window_offset;
}

extern "C" void *simt_shared_pointer(unsigned address)
{
    return window_begin() + (address - window_offset);
}
