/*
 * What device-side headers (shuffles, cooperative groups, matrix and asynchronous-copy
 * instructions) are built on.
 *
 * - simt_meet: every lane of a mask deposits a pointer; the last to arrive runs a function once for
 *   the warp.
 * - simt_wait: a thread waits for a condition that another thread, or asynchronous work, makes
 *   true.
 * - simt_on_idle: asynchronous work that is carried out as late as allowed: when no thread of the
 *   block can
 * go on.
 * - simt_thread_storage, simt_block_storage: zero-filled memory that lives as long as the block.
 */
#ifndef SIMT_WARP_H
#define SIMT_WARP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * `slot[lane]` is what lane deposited, for every lane of `lanes` (those of the mask that have not
 * returned). Runs once, while the lanes wait, on one of their stacks.
 */
typedef void simt_meeting(void *const *slot, unsigned lanes);

/*
 * The calling lane meets the other lanes of `mask` that call with the same mask and the same `run`.
 * `what` names the operation in reports. orders_memory is nonzero for operations that order shared
 * and global memory between the lanes (__syncwarp), zero for those that do not (shuffles, votes).
 */
void simt_meet(unsigned mask, void *slot, simt_meeting *run, const char *what, int orders_memory,
               int line, const char *file);

/* Nonzero when the thread may go on. Called by any thread of the block, any number of times: it
 * only looks.
 */
typedef int simt_condition(void *argument);

/* Waits until condition(argument); other threads of the block run meanwhile. */
void simt_wait(simt_condition *condition, void *argument, const char *what, int line,
               const char *file);

/* Carries out one piece of outstanding work; 0 when there is none. */
typedef int simt_idle(void *argument);

/*
 * From now until the block ends, `idle` is called whenever every thread of the block waits and none
 * can go on. Calling again with the same pair changes nothing.
 */
void simt_on_idle(simt_idle *idle, void *argument);

/*
 * `finish` is called once when all threads of the block have returned, before its shared memory and
 * storage are gone. Calling again with the same pair changes nothing. Blocks that failed end
 * without.
 */
void simt_at_end(simt_idle *finish, void *argument);

/* `slot` is 0 to 3; `bytes` must be the same in every call for one slot. */
void *simt_thread_storage(unsigned slot, size_t bytes);
void *simt_block_storage(unsigned slot, size_t bytes);

/* PTX's barrier.sync / barrier.arrive: `id` 1 to 15, `threads` a multiple of 32. */
void simt_barrier_sync(unsigned id, unsigned threads, int line, const char *file);
void simt_barrier_arrive(unsigned id, unsigned threads, int line, const char *file);

/*
 * Tells the checker that the running thread reads or writes memory in a way that it cannot see by
 * itself, because a library function does it. Call it inline, in the kernel's code. Does nothing in
 * the fast build.
 */
void simt_touch(const void *address, size_t bytes, int writes);

/*
 * Tells the checker how memory is ordered: the running thread publishes what it did so far
 * (released), or sees what others published on the same object (acquired). mbarriers are such
 * objects. Does nothing in the fast build.
 */
void simt_released(const void *object);
void simt_acquired(const void *object);

/* Other threads of the block, and other blocks, get a chance to run. */
void simt_yield(void);

/* The launch fails with cudaErrorLaunchFailure and this message; the calling block ends here. */
void simt_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Shared-window addresses as 32-bit numbers, as __cvta_generic_to_shared gives them, and back. */
unsigned simt_shared_address(const void *pointer);
void *simt_shared_pointer(unsigned address);

/* The barrier between all blocks of a cooperative launch. */
void simt_grid_sync(int line, const char *file);
int simt_is_cooperative(void);

/* The running thread's lane, and its number in the block. */
unsigned simt_lane(void);
unsigned simt_thread_number(void);

#ifdef __cplusplus
}
#endif

#endif
