/* __syncthreads and its relatives, and PTX's named barriers. */
#include "threads/barrier.h"
#include "check/checker.h"
#include "run/scheduling.h"
#include <cstring>

namespace simt
{

bool same_site(const Site &a, const Site &b)
{
    return a.line == b.line && (a.file == b.file || !strcmp(a.file, b.file));
}

const char *flavour_name(unsigned char flavour)
{
    static const char *const names[] = {"__syncthreads_count()", "__syncthreads_and()",
                                        "__syncthreads_or()", "__syncthreads()", "a named barrier"};
    return names[flavour];
}

/* What a report would say about the thread until it goes on. */
static inline void note(Fiber &fiber, unsigned id, unsigned char flavour, Site site)
{
    fiber.file = site.file;
    fiber.line = site.line;
    fiber.wait = Wait::barrier;
    fiber.barrier = static_cast<unsigned char>(id);
    fiber.flavour = flavour;
}

/* -------------------------------------------------------------------------------------------------
 */
/* Barrier 0: all threads of the block */

/* Some lanes of a warp have returned and the others wait. Whole warps may return: no hardware ever
 * waited for those. */
static bool splits_a_warp(const Block &block)
{
    for (unsigned w = 0; w < block.warps; w++)
        if (block.warp[w].alive && block.warp[w].alive != block.warp[w].present)
            return true;
    return false;
}

/* The same file may have two names. */
static bool at_different_sites(const Block &block)
{
    for (unsigned t = 0; t < block.threads; t++) {
        const Fiber &fiber = block.fiber[t];
        if (fiber.stack && !same_site(block.barrier[0].site, Site{fiber.file, fiber.line}))
            return true;
    }
    return false;
}

/* Everybody who has to come is there. */
static void complete(Block &block)
{
    Barrier &barrier = block.barrier[0];
    if (block.launch->failed.load(std::memory_order_relaxed))
        abandon_block();
    if ((barrier.mixed && at_different_sites(block)) || (checker::returned_threads_must_arrive && splits_a_warp(block)))
        report_divergent_barrier(block);
    barrier.count = static_cast<int>(barrier.truths);
    barrier.all = barrier.truths == barrier.arrived;
    barrier.any = barrier.truths > 0;
    barrier.arrived = barrier.truths = 0;
    block.barriers++;
    checker::barrier_completed(block);
    for (unsigned position = 0; position < block.warps; position++) {
        Warp &warp = block.warp[block.warp_at[position]];
        if (warp.at_barrier)
            block.ready_warps |= 1u << position;
        warp.ready |= warp.at_barrier;
        warp.at_barrier = 0;
    }
}

/* The running thread was the last to arrive. Never inlined: what it needs, others need not save. */
__attribute__((noinline)) static void complete_and_go_on(Block &block, Fiber &fiber)
{
    complete(block);
    fiber.wait = Wait::nothing;
}

/* No thread of the block is ready: conditions and asynchronous work may change that. */
__attribute__((noinline)) static void wait_in_idle_block(Block &block, Fiber &fiber)
{
    switch_to(block, wait_for_ready(block), fiber);
}

/*
 * The running thread arrives, and waits unless it is the last. Nothing comes after the switch, and
 * whatever is rare is a call in tail position: so no register is saved but by the switch itself.
 */
__attribute__((always_inline)) static inline void synchronise(Site site, bool truth,
                                                              unsigned char flavour)
{
    Block &block = *worker->block;
    Barrier &barrier = block.barrier[0];
    Fiber &fiber = block.fiber[worker->thread - block.thread];
    note(fiber, 0, flavour, site);
    if (barrier.arrived == 0) {
        barrier.site = site;
        barrier.mixed = false;
    } else if (barrier.site.line != site.line || barrier.site.file != site.file) {
        barrier.mixed = true;
    }
    barrier.truths += truth;
    if (++barrier.arrived == block.alive)
        return complete_and_go_on(block, fiber);
    block.running->at_barrier |= 1u << block.lane_cursor;
    if (Thread *next = take_ready(block))
        return switch_to(block, *next, fiber);
    wait_in_idle_block(block, fiber);
}

void barriers_after_return(Thread &thread)
{
    Block &block = *thread.warp->block;
    if (block.barrier[0].arrived > 0 && block.barrier[0].arrived == block.alive)
        complete(block);
}

/* -------------------------------------------------------------------------------------------------
 */
/* Named barriers: those that arrive are counted, whoever they are */

static bool arrive(Thread &thread, unsigned id, unsigned threads, Site site)
{
    Block &block = *thread.warp->block;
    if (id >= max_barriers || threads == 0 || threads % warp_size || threads > max_block_threads) {
        report(block.launch, cudaErrorLaunchFailure,
               "named barrier %u with %u threads at %s:%d: the barrier must be 0 to 15 and the "
               "count a "
               "multiple of 32",
               id, threads, site.file, site.line);
        abandon_block();
    }
    Barrier &barrier = block.barrier[id];
    if (barrier.arrived == 0)
        barrier.expected = threads;
    if (barrier.expected != threads) {
        report(block.launch, cudaErrorLaunchFailure,
               "named barrier %u at %s:%d expects %u threads, but others came to it with a count "
               "of %u",
               id, site.file, site.line, threads, barrier.expected);
        abandon_block();
    }
    checker::released(&barrier);
    return ++barrier.arrived == threads;
}

static void complete_named(Block &block, unsigned id)
{
    block.barrier[id].arrived = 0;
    checker::named_barrier_completed(block, id);
    for (unsigned t = 0; t < block.threads; t++) {
        Thread &thread = block.thread[t];
        const Fiber &fiber = *thread.fiber;
        if (fiber.stack && fiber.wait == Wait::barrier && fiber.barrier == id)
            make_ready(thread);
    }
}

} /* namespace simt */

using namespace simt;

extern "C" void simt_syncthreads(int line, const char *file)
{
    synchronise(Site{file, line}, false, flavour_plain);
}

extern "C" int simt_syncthreads_reduce(int which, int value, int line, const char *file)
{
    const Barrier &barrier = worker->block->barrier[0];
    synchronise(Site{file, line}, value != 0, static_cast<unsigned char>(which));
    return which == 0 ? barrier.count : which == 1 ? barrier.all : barrier.any;
}

extern "C" void simt_barrier_sync(unsigned id, unsigned threads, int line, const char *file)
{
    Thread &thread = self();
    Block &block = *thread.warp->block;
    if (arrive(thread, id, threads, Site{file, line})) {
        complete_named(block, id);
    } else {
        note(*thread.fiber, id, flavour_named, Site{file, line});
        suspend(thread);
    }
    checker::acquired(&block.barrier[id]);
}

extern "C" void simt_barrier_arrive(unsigned id, unsigned threads, int line, const char *file)
{
    Thread &thread = self();
    if (arrive(thread, id, threads, Site{file, line}))
        complete_named(*thread.warp->block, id);
}
