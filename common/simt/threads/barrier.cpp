/* __syncthreads and its relatives, and PTX's named barriers. */
#include "host/checker.h"
#include "run/scheduling.h"
#include <ptx.cuh>

namespace simt
{

/* What a report would say about the thread until it goes on. */
static inline void note(Fiber &fiber, unsigned barrier, Site site)
{
    fiber.file = site.file;
    fiber.line = site.line;
    fiber.wait = Wait::barrier;
    fiber.barrier = static_cast<unsigned char>(barrier);
    fiber.unused = 0;
}

/* ---- Barrier 0: all threads of the block ---- */

/* Some lanes of a warp have returned and the others wait. Whole warps may return: no hardware ever
 * waited for those. */
static bool splits_a_warp(const Block &block)
{
    for (unsigned w = 0; w < block.warps; w++)
        if (block.warp[w].alive && block.warp[w].alive != block.warp[w].present)
            return true;
    return false;
}

/*
 * bar.sync counts arrivals, so on hardware whole warps may arrive from different lines; the lanes
 * of one warp may not, nor may barriers of different kinds be mixed. The checked build wants one
 * line for all. Calls of a file under two names are the same.
 */
static bool at_different_sites(const Block &block)
{
    const Fiber *of_block = nullptr;
    for (unsigned w = 0; w < block.warps; w++) {
        const Fiber *of_warp = nullptr;
        for (unsigned lane : bits(block.warp[w].alive)) {
            const Fiber &fiber = block.fiber[w * warp_size + lane];
            of_block = of_block ? of_block : &fiber;
            of_warp = of_warp ? of_warp : &fiber;
            const Fiber &other = checker->armed ? *of_block : *of_warp;
            if (fiber.barrier != of_block->barrier || !same_site(site_of(other), site_of(fiber)))
                return true;
        }
    }
    return false;
}

/* All threads that must arrive have arrived. */
static void complete(Block &block)
{
    Barrier &barrier = block.barrier[0];
    if (block.launch->failed.load(std::memory_order_relaxed))
        abandon_block();
    if ((barrier.mixed && at_different_sites(block)) || (checker->armed && splits_a_warp(block)))
        report_divergent_barrier(block);
    barrier.count = static_cast<int>(barrier.truths);
    barrier.all = barrier.truths == block.alive;
    barrier.any = barrier.truths > 0;
    barrier.truths = 0;
    block.expected = block.alive;
    block.barriers++;
    checker->barrier_completed(block);
    barrier.site = nowhere;
    for (unsigned position = 0; position < block.warps; position++) {
        Warp &warp = block.warp[block.warp_at[position]];
        if (warp.at_barrier)
            block.ready_warps |= 1u << position;
        warp.ready |= warp.at_barrier;
        warp.at_barrier = 0;
    }
}

/* The running thread was the last to arrive. */
__attribute__((noinline)) static void complete_and_go_on(Block &block, Fiber &self)
{
    complete(block);
    self.wait = Wait::nothing;
}

/* The running thread is counted, and waits unless it is the last. */
__attribute__((always_inline)) static inline void arrive(Block &block, Fiber &self, bool truth)
{
    Barrier &barrier = block.barrier[0];
    barrier.truths += truth;
    if (__builtin_expect(--block.expected == 0, false))
        return complete_and_go_on(block, self);
    Warp *warp = block.running;
    warp->at_barrier |= block.lane_cursor;
    leave(block, warp, self);
}

/* It is the first to arrive, or came to another place than the first. */
__attribute__((noinline)) static void arrive_elsewhere(Block &block, Fiber &self, bool truth)
{
    Barrier &barrier = block.barrier[0];
    if (!barrier.site.file) { /* nowhere */
        barrier.site = site_of(self);
        barrier.mixed = false;
        block.barrier_complete = complete;
    } else {
        barrier.mixed = true;
    }
    arrive(block, self, truth);
}

/* All that is rare is a call in tail position too: see leave(). */
__attribute__((always_inline)) static inline void synchronise(Site site, bool truth,
                                                              unsigned char name)
{
    Block &block = *worker->block;
    Fiber &self = *worker->fiber;
    const Barrier &barrier = block.barrier[0];
    note(self, name, site);
    if (__builtin_expect(site.file != barrier.site.file || site.line != barrier.site.line, false))
        return arrive_elsewhere(block, self, truth);
    arrive(block, self, truth);
}

/* ---- Named barriers: those that arrive are counted, whoever they are ---- */

static bool arrive_named(Thread &thread, unsigned id, unsigned threads, Site site, bool waits,
                         const void *where)
{
    Block &block = *thread.warp->block;
    if (id >= max_barriers || threads == 0 || threads % warp_size || threads > max_block_threads)
        simt_fail("named barrier %u with %u threads at %s:%d: the barrier must be 0 to 15 and the "
                  "count a multiple of 32",
                  id, threads, site.file, site.line);
    Barrier &barrier = block.barrier[id];
    if (barrier.arrived == 0)
        barrier.expected = threads;
    if (barrier.expected != threads)
        simt_fail("named barrier %u at %s:%d expects %u threads, but others came to it with a "
                  "count of %u",
                  id, site.file, site.line, threads, barrier.expected);
    checker->noted(waits ? "named_barrier_sync" : "named_barrier_arrive", nullptr, id, threads,
                   where);
    checker->released(&barrier, *worker->block);
    return ++barrier.arrived == threads;
}

static void complete_named(Block &block, unsigned id)
{
    block.barrier[id].arrived = 0;
    checker->named_barrier_completed(block, id);
    for (unsigned t = 0; t < block.threads; t++) {
        Thread &thread = block.thread[t];
        const Fiber &fiber = *thread.fiber;
        if (fiber.stack && fiber.wait == Wait::barrier && fiber.barrier == plain_barrier + id)
            make_ready(thread);
    }
}

} /* namespace simt */

using namespace simt;

extern "C" void simt_syncthreads(Site site) { synchronise(site, false, plain_barrier); }

extern "C" int simt_syncthreads_reduce(int which, int value, Site site)
{
    const Barrier &barrier = worker->block->barrier[0];
    synchronise(site, value != 0, static_cast<unsigned char>(which));
    return which == 0 ? barrier.count : which == 1 ? barrier.all : barrier.any;
}

void ptx::named_barrier_sync(int id, int threads, Site site)
{
    Thread &thread = self();
    Block &block = *thread.warp->block;
    if (arrive_named(thread, id, threads, site, true, __builtin_return_address(0))) {
        complete_named(block, id);
    } else {
        note(*thread.fiber, plain_barrier + static_cast<unsigned>(id), site);
        suspend(thread);
    }
    checker->acquired(&block.barrier[id]);
}

void ptx::named_barrier_arrive(int id, int threads, Site site)
{
    Thread &thread = self();
    if (arrive_named(thread, id, threads, site, false, __builtin_return_address(0)))
        complete_named(*thread.warp->block, id);
}
