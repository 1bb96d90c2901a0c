/* Who runs next, and the switch to it. Inline, because a barrier does little else. */
#ifndef SIMT_SCHEDULING_H
#define SIMT_SCHEDULING_H

#include "threads/builtins.h"
#include "run/engine.h"
#include "run/switch.h"

namespace simt
{

/* Nobody is ready: looks at conditions and carries out asynchronous work until somebody is. */
Thread &wait_for_ready(Block &block);

/* Leaves the running thread's context in *from and begins a thread that has not run yet. */
void begin(Fiber &fiber, void **from);

/* Whoever waits may go on: called once for each thread that is suspended. */
inline void make_ready(Thread &thread)
{
    Warp &warp = *thread.warp;
    Block &block = *warp.block;
    warp.ready |= 1u << block.lane_position[thread.lane];
    block.ready_warps |= 1u << block.warp_position[warp.number];
}

/* The lowest set bit of `mask` after position `after`, going round. */
inline unsigned next_bit(uint32_t mask, unsigned after)
{
    uint32_t later = mask & (~1u << after);
    return static_cast<unsigned>(__builtin_ctz(later ? later : mask));
}

/* When no lane of the running warp is ready: the next warp that has any. */
inline bool next_warp(Block &block)
{
    if (!block.ready_warps)
        return false;
    block.warp_cursor = next_bit(block.ready_warps, block.warp_cursor);
    block.running = &block.warp[block.warp_at[block.warp_cursor]];
    block.lane_cursor = warp_size - 1;
    return true;
}

/* Takes the next ready thread: of the same warp as long as it has any, then of the next. */
__attribute__((always_inline)) inline Thread *take_ready(Block &block)
{
    if (__builtin_expect(!block.running->ready, false) && !next_warp(block))
        return nullptr;
    Warp &warp = *block.running;
    block.lane_cursor = next_bit(warp.ready, block.lane_cursor);
    warp.ready &= ~(1u << block.lane_cursor);
    if (!warp.ready)
        block.ready_warps &= ~(1u << block.warp_cursor);
    return warp.thread + block.lane_at[block.lane_cursor];
}

/* Some thread that can run. */
inline Thread &next_thread(Block &block)
{
    Thread *thread = take_ready(block);
    return thread ? *thread : wait_for_ready(block);
}

/* `thread` is the running one from now on. */
inline Fiber &activate(Block &block, Thread &thread)
{
    Fiber &fiber = block.fiber[&thread - block.thread];
    worker->thread = &thread;
    set_thread_index(fiber);
    fiber.wait = Wait::nothing;
    return fiber;
}

/* Where a thread left off is about to be read: it comes into the cache meanwhile. */
inline void prefetch_context(const Fiber &fiber)
{
    const char *context = static_cast<const char *>(fiber.context);
    __builtin_prefetch(context, 1);
    __builtin_prefetch(context + 64, 1);
}

/* From the running fiber to `next`, which may be the same. */
__attribute__((always_inline)) inline void switch_to(Block &block, Thread &next, Fiber &self)
{
    Fiber &fiber = activate(block, next);
    prefetch_context((&fiber)[1]); /* likely to run after the next one */
    if (!fiber.stack)
        return begin(fiber, &self.context);
    if (&fiber != &self)
        simt_switch(&self.context, fiber.context);
}

/*
 * For operations that block. The caller has noted what it waits for in the thread; suspend returns
 * once somebody called make_ready for it (or at once, if that happened already).
 */
__attribute__((always_inline)) inline void suspend(Thread &self)
{
    Block &block = *worker->block;
    if (block.launch->failed.load(std::memory_order_relaxed))
        abandon_block();
    switch_to(block, next_thread(block), *self.fiber);
}

} /* namespace simt */

#endif
