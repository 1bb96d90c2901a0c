/* These are threadIdx and its relatives, barriers, fences, clocks, and loads with a cache hint. */
#pragma once

#include <simt/keywords.h>
#include <simt/warp.h>
#include <type_traits>

extern const __thread uint3 threadIdx;
extern const __thread uint3 blockIdx;
extern const __thread dim3 blockDim;
extern const __thread dim3 gridDim;
static constexpr int warpSize = 32;

/* This is the calling OS thread's dynamic shared memory. It begins 16 bytes past a multiple of
 * 1024, because more alignment than a declaration asks for would be luck. */
extern __thread char simt_dynamic_shared[];
/* Returns where it begins in a block whose declaration asks for more: at the multiple of 1024. */
extern "C" char *simt_aligned_dynamic_shared(void);

namespace simt
{

/* simtcc turns extern __shared__ T name[]; into this: see translate.cpp. */
template <class T> using pointer_to = T *;

template <class T, size_t Alignment = 16> inline T *dynamic_shared()
{
    return reinterpret_cast<T *>(Alignment > 16 ? simt_aligned_dynamic_shared()
                                                : simt_dynamic_shared);
}

/* Each thread of a group copies its share. */
template <class Group>
void copy_together(const Group &group, void *to, const void *from, size_t bytes)
{
    for (size_t i = group.thread_rank(); i < bytes; i += group.size())
        static_cast<char *>(to)[i] = static_cast<const char *>(from)[i];
}

/* simtcc makes device code's new take its memory here. */
enum DeviceHeap { device_heap };

} /* namespace simt */

extern "C" {
/* Allocates device memory for device code; returns null when none is left. */
void *simt_device_malloc(size_t bytes);
void simt_device_free(void *pointer);
void simt_syncthreads(simt::Site site);
/* 0 count, 1 and, 2 or */
int simt_syncthreads_reduce(int which, int value, simt::Site site);
void simt_threadfence(int scope);
long long simt_clock(void);
}

/* clang-format off */
SIMT_INLINE(void *, operator new, (size_t bytes, simt::DeviceHeap), simt_device_malloc(bytes))
SIMT_INLINE(void *, operator new[], (size_t bytes, simt::DeviceHeap), simt_device_malloc(bytes))
SIMT_INLINE(void, __syncthreads, (SIMT_CALL_SITE), simt_syncthreads(site))
SIMT_INLINE(int, __syncthreads_count, (int predicate, SIMT_CALL_SITE), simt_syncthreads_reduce(0, predicate, site))
SIMT_INLINE(int, __syncthreads_and, (int predicate, SIMT_CALL_SITE), simt_syncthreads_reduce(1, predicate, site))
SIMT_INLINE(int, __syncthreads_or, (int predicate, SIMT_CALL_SITE), simt_syncthreads_reduce(2, predicate, site))
__forceinline__ void __threadfence_block() { simt_threadfence(simt_block); }
__forceinline__ void __threadfence() { simt_threadfence(simt_device); }
__forceinline__ void __threadfence_system() { simt_threadfence(simt_system); }
inline void __nanosleep(unsigned) { simt_yield(); }
[[noreturn]] inline void __trap() { simt_fail("__trap()"); }
inline void __brkpt() { __trap(); }
inline void __prof_trigger(int) {}
SIMT_INLINE(long long, clock64, (), simt_clock())
/* simtcc turns clock() in device code into this, because <time.h> has another clock. */
SIMT_INLINE(clock_t, simt_device_clock, (), static_cast<clock_t>(simt_clock()))

/* Loads and stores with a hint for the cache differ from ordinary ones only in that hint. */
#define SIMT_LOAD(name) template <class T> __forceinline__ T name(const T *pointer) { return *pointer; }
#define SIMT_STORE(name) template <class T> __forceinline__ void name(T *pointer, std::common_type_t<T> value) { *pointer = value; }
SIMT_LOAD(__ldg) SIMT_LOAD(__ldca) SIMT_LOAD(__ldcg) SIMT_LOAD(__ldcs) SIMT_LOAD(__ldlu) SIMT_LOAD(__ldcv)
SIMT_STORE(__stwb) SIMT_STORE(__stcg) SIMT_STORE(__stcs) SIMT_STORE(__stwt)
#undef SIMT_LOAD
#undef SIMT_STORE

extern "C" unsigned simt_is_shared(const void *pointer);
extern "C" unsigned simt_is_local(const void *pointer);
SIMT_INLINE(size_t, __cvta_generic_to_shared, (const void *pointer), simt_shared_address(pointer))
SIMT_INLINE(void *, __cvta_shared_to_generic, (size_t address), simt_shared_pointer(unsigned(address)))
SIMT_INLINE(unsigned, __isShared, (const void *pointer), simt_is_shared(pointer))
SIMT_INLINE(unsigned, __isLocal, (const void *pointer), simt_is_local(pointer))
SIMT_INLINE(unsigned, __isGlobal, (const void *pointer), !simt_is_shared(pointer) && !simt_is_local(pointer))
/* clang-format on */
