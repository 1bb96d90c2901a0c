/* Decides who runs next, and switches to it. It is inline, because a barrier does little else. */
#pragma once

#include "run/engine.h"

namespace simt
{

/* No thread is ready: looks at conditions and carries out asynchronous work until one is. Takes
 * that thread's lane, with its warp in block.running. */
unsigned wait_for_ready(Block &block);

/* Leaves the running thread's context in *from and begins a thread that has not run yet. */
uint64_t begin(Thread &thread, simt_context *from);

/* Returns lanes as scheduling positions. */
inline uint32_t in_positions(const Block &block, uint32_t lanes)
{
    if (lanes == ~0u)
        return lanes;
    uint32_t positions = 0;
    for (unsigned lane : bits(lanes))
        positions |= 1u << block.lane_position[lane];
    return positions;
}

/* A waiting thread may go on. This is called once for each thread that is suspended. */
inline void make_ready(Thread &thread)
{
    Warp &warp = *thread.warp;
    Block &block = *warp.block;
    warp.ready |= 1u << block.lane_position[thread.lane];
    block.ready_warps |= 1u << block.warp_position[warp.number];
}

/* Returns the lowest bit of `mask` above the bit `after`, going round. */
inline uint32_t next_bit(uint32_t mask, uint32_t after)
{
    const uint32_t later = mask & -(after + after);
    const uint32_t from = later ? later : mask;
    return from & -from;
}

constexpr uint32_t last_lane = 1u << (warp_size - 1);

/* Moves to the next warp, after the running one, with a ready lane; false if there is none. */
inline bool next_warp(Block &block)
{
    if (!block.running->ready) /* an old bit may be left */
        block.ready_warps &= ~(1u << block.warp_cursor);
    if (!block.ready_warps)
        return false;
    block.warp_cursor =
        unsigned(__builtin_ctz(next_bit(block.ready_warps, 1u << block.warp_cursor)));
    block.running = &block.warp[block.warp_at[block.warp_cursor]];
    block.lane_cursor = block.running->resume_after;
    block.running->resume_after = last_lane;
    return true;
}

/* Finds a ready thread: of the running warp while it has any, or else of the next one. */
inline bool find_ready(Block &block)
{
    return __builtin_expect(block.running->ready != 0, true) || next_warp(block);
}

/* Takes the next ready lane of `warp`, the running one, which has one. */
inline unsigned take_lane(Block &block, Warp &warp)
{
    const uint32_t bit = next_bit(warp.ready, block.lane_cursor);
    block.lane_cursor = bit;
    warp.ready ^= bit;
    return block.lane_at[size_t(__builtin_ctz(bit))];
}

/* From now on that lane of `warp`, the running one, is the running thread. */
inline Thread &activate(const Warp &warp, unsigned lane)
{
    Thread &thread = warp.thread[lane];
    current_thread = &thread;
    thread_index = thread.index;
    return thread;
}

/* Switches from the running thread to a lane of `warp`. Returns what it goes on with. */
__attribute__((always_inline)) inline uint64_t switch_to(const Warp &warp, unsigned lane,
                                                         Thread &self)
{
    Thread &thread = activate(warp, lane);
    __builtin_prefetch((&thread)[2].context.stack); /* likely to run soon */
    if (__builtin_expect(!thread.stack, false))
        return begin(thread, &self.context);
    return simt_switch(&self.context, &thread.context);
}

/* No thread of the block runs, but for those that poll. Those whose condition holds become ready;
 * if there are none, asynchronous work is done. Returns whether either happened. */
bool let_waiters_go_on(Block &block);

/* The running thread waits, and no other thread of the block is ready. */
uint64_t leave_idle_block(Block &block, Thread &self);

/* The running thread, of `warp`, waits for others of its block. In tail position the stack keeps
 * only what the switch itself saves. Returns what switch_to() does. */
__attribute__((always_inline)) inline uint64_t leave(Block &block, Warp *warp, Thread &self)
{
    if (__builtin_expect(!warp->ready, false)) {
        if (!next_warp(block))
            return leave_idle_block(block, self);
        warp = block.running;
    }
    return switch_to(*warp, take_lane(block, *warp), self);
}

/* This is for operations that block. The caller has noted in the thread what it waits for. suspend
 * returns once make_ready was called for it (or at once, if that happened already). */
__attribute__((always_inline)) inline void suspend(Thread &self)
{
    Block &block = *worker->block;
    if (is_stopped(block))
        abandon_block();
    leave(block, block.running, self);
}

} /* namespace simt */
