/*
 * What the runtime tells the checker. The fast build links checker_off.cpp, where all of this does
 * nothing; the checked build links check*.cpp instead. Hooks about a block, warp or thread are
 * called by the worker that runs it.
 */
#ifndef SIMT_CHECKER_H
#define SIMT_CHECKER_H

/*
 * How the checked build sees a kernel: check.flags (g++'s @file) makes the compiler call a function
 * before every access to memory; check_instrumentation.cpp is those functions. For that to be
 * exact, the device headers
 * - declare threadIdx and its like const (extern const __thread): the compiler then does not
 *   instrument them;
 * - give __shared__ variables __attribute__((used)), or g++ folds reads of an array that nobody
 *   writes to zero;
 * - keep the runtime's own data (Thread, Warp, Worker, heap) out of code that is compiled with the
 *   kernel: what a
 *   kernel touches must be its arguments, its stack, shared, device or constant memory, or
 *   read-only data;
 * - make atomic operations through atomic_access() here, out of the compiler's sight, not with
 *   __atomic built-ins;
 *   an atomic with release or acq_rel order is a thread_fence() and then the atomic.
 */

#include "run/internal.h"

struct counters;

namespace simt
{
namespace checker
{

extern const char *const build_name; /* "cpu" or "check" */

/*
 * Whether a lane that returned is missed at a barrier that other lanes of its warp reach, or in a
 * warp operation that names it. Since Volta the hardware lets both pass, and so does the fast
 * build; the checked build reports them. Whole warps that returned are never missed.
 */
extern const bool returned_threads_must_arrive;

void launch_begin(Launch &launch);
void launch_end(Launch &launch); /* all blocks are done or abandoned */
void block_begin(Block &block);  /* on the worker, before its first thread */
void block_end(Block &block);    /* also when the block was abandoned */
void thread_end(Thread &thread);

/* All threads of the block passed __syncthreads (or its count, and, or forms). */
void barrier_completed(Block &block);
/* A named barrier was completed. Who is ordered with whom is told by released() and acquired(). */
void named_barrier_completed(Block &block, unsigned id);
/*
 * The running thread publishes what it and those it synchronised with did so far (released), or
 * sees what others published on the same object (acquired). For named barriers (arrive or sync
 * releases, coming out of sync acquires), mbarriers (arrive releases, a successful wait acquires)
 * and whatever else orders memory. `object` is any address that stands for the barrier, in shared
 * or in the runtime's own memory.
 */
void released(const void *object);
void acquired(const void *object);
/*
 * The lanes `lanes` met in `what`, which named `mask`; orders_memory for __syncwarp and the like,
 * not for shuffles and votes.
 */
void warp_met(Warp &warp, uint32_t mask, uint32_t lanes, const char *what, bool orders_memory);
/* Once per block: all its threads came to grid.sync(), and, when all blocks had, it leaves. */
void grid_arrived(Block &block);
void grid_synchronised(Block &block);

/* One atomic operation of the running thread. `where` is an address in the kernel's code. */
void atomic_access(const void *address, size_t bytes, bool reads, bool writes, const void *where);
/* The operation that was announced has been made. No other on the same address comes between the
 * two calls. */
void atomic_done();
/* __threadfence_block, __threadfence, __threadfence_system. */
void thread_fence(const void *where);
/*
 * Memory that a runtime function (an asynchronous copy, a matrix load) touches in the running
 * thread's name, or, while no thread runs (simt_on_idle), in the name of an engine that is ordered
 * with everybody.
 */
void access(const void *address, size_t bytes, bool writes, const void *where);

void allocated(Allocation &allocation);
void freed(Allocation &allocation);
void fenced(const void *begin, size_t bytes);
/* cudaMemcpy, cudaMemset and their relatives: host-side writes and reads of device memory. */
void host_wrote(const void *begin, size_t bytes);
void host_read(const void *begin, size_t bytes);
void device_reset();
/* Somebody called report(). */
void reported(const char *text);

bool counters(struct ::counters *total);
void counters_reset();

} /* namespace checker */
} /* namespace simt */

#endif
