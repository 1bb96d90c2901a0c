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
void begin(Thread &thread, void **from);

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

/* Takes the next ready thread: of the same warp as long as it has any, then of the next. */
inline Thread *take_ready(Block &block)
{
    if (!block.ready_warps)
        return nullptr;
    if (!(block.ready_warps >> block.warp_cursor & 1)) {
        block.warp_cursor = next_bit(block.ready_warps, block.warp_cursor);
        block.lane_cursor = warp_size - 1;
    }
    Warp &warp = block.warp[block.warp_at[block.warp_cursor]];
    block.lane_cursor = next_bit(warp.ready, block.lane_cursor);
    warp.ready &= ~(1u << block.lane_cursor);
    if (!warp.ready)
        block.ready_warps &= ~(1u << block.warp_cursor);
    return &block.thread[warp.number * warp_size + block.lane_at[block.lane_cursor]];
}

/* Some thread that can run. */
inline Thread &next_thread(Block &block)
{
    Thread *thread = take_ready(block);
    return thread ? *thread : wait_for_ready(block);
}

inline void activate(Thread &thread)
{
    worker->thread = &thread;
    set_thread_index(thread.index);
    thread.wait = Wait::nothing;
}

/* Where a thread left off is about to be read: it comes into the cache meanwhile. */
inline void prefetch_context(const Thread &thread)
{
    const char *context = static_cast<const char *>(thread.context);
    __builtin_prefetch(context, 1);
    __builtin_prefetch(context + 64, 1);
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
    Thread &next = next_thread(block);
    prefetch_context((&next)[1]); /* likely to run after the next one */
    activate(next);
    if (&next == &self)
        return;
    if (next.stack)
        simt_switch(&self.context, next.context);
    else
        begin(next, &self.context);
}

} /* namespace simt */

#endif
