/*
 * What the runtime tells the checker. The fast build links checker_off.cpp, where all of this does nothing; the
 * checked build links check*.cpp instead. Hooks about a block, warp or thread are called by the worker that runs it.
 */
#ifndef SIMT_CHECKER_H
#define SIMT_CHECKER_H

#include "internal.h"

struct counters;

namespace simt
{
namespace checker
{

extern const char *const build_name; /* "cpu" or "check" */

/*
 * Whether a thread that returned may be missing from a barrier or from a warp operation that names its lane. Since
 * Volta the hardware lets that pass, and so does the fast build; the checked build reports it, as synccheck does.
 */
extern const bool returned_threads_must_arrive;

void launch_begin(Launch &launch);
void launch_end(Launch &launch); /* all blocks are done or abandoned */
void block_begin(Block &block);  /* on the worker, before its first thread */
void block_end(Block &block);    /* also when the block was abandoned */
void thread_end(Thread &thread);

/* All threads of the block passed __syncthreads (or its count, and, or forms). */
void barrier_completed(Block &block);
/* The threads marked true in arrived[0 .. block.threads) passed named barrier `id`. */
void named_barrier_completed(Block &block, unsigned id, const bool *arrived);
/* Lanes `lanes` met in `what`; orders_memory for __syncwarp and the like, not for shuffles and votes. */
void warp_met(Warp &warp, uint32_t lanes, const char *what, bool orders_memory);
/* Called once per block when it leaves grid.sync(). */
void grid_synchronised(Block &block);

/* One atomic operation of the running thread. `where` is an address in the kernel's code. */
void atomic_access(const void *address, size_t bytes, bool writes, const void *where);
/* __threadfence_block, __threadfence, __threadfence_system. */
void thread_fence(const void *where);
/* Memory that a runtime function (an asynchronous copy, a matrix load) touches in a thread's name. */
void access(const void *address, size_t bytes, bool writes, const void *where);

void allocated(Allocation &allocation);
void freed(Allocation &allocation);
void fenced(const void *begin, size_t bytes);
/* cudaMemcpy, cudaMemset and their relatives: host-side writes and reads of device memory. */
void host_wrote(const void *begin, size_t bytes);
void host_read(const void *begin, size_t bytes);
void device_reset();

bool counters(struct ::counters *total);
void counters_reset();

} /* namespace checker */
} /* namespace simt */

#endif
