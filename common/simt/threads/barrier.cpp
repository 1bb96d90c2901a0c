/* __syncthreads and its relatives, and PTX's named barriers. */
#include "host/checker.h"
#include "run/scheduling.h"
#include <ptx.cuh>

namespace simt
{

/* What a report would say about the thread until it goes on. */
static void note(Thread &thread, unsigned id, const Call &call)
{
    thread.wait = Wait::barrier;
    thread.barrier = static_cast<unsigned char>(id);
    thread.call = &call;
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
 * bar.sync counts arrivals, so whole warps may arrive from different lines. The lanes of one warp
 * may not, nor may barriers of different kinds be mixed.
 */
static bool mixes_what_may_not_be(const Block &block)
{
    const Call *any = nullptr;
    for (unsigned w = 0; w < block.warps; w++) {
        const Call *first = nullptr;
        for (unsigned lane : bits(block.warp[w].alive)) {
            const Call *call = block.thread[w * warp_size + lane].call;
            first = first ? first : call;
            any = any ? any : call;
            if (!same_site(first->site, call->site) || any->what != call->what)
                return true;
        }
    }
    return false;
}

/* Everybody who has to come is there. */
static void complete(Block &block)
{
    Barrier &barrier = block.barrier[0];
    if ((barrier.mixed && (checker->armed || mixes_what_may_not_be(block))) ||
        (checker->armed && splits_a_warp(block)))
        report_divergent_barrier(block);
    barrier.count = static_cast<int>(barrier.truths);
    barrier.all = barrier.truths == barrier.arrived;
    barrier.any = barrier.truths > 0;
    barrier.arrived = barrier.truths = 0;
    block.barriers++;
    checker->barrier_completed(block);
    for (unsigned w = 0; w < block.warps; w++) {
        Warp &warp = block.warp[w];
        for (unsigned lane : bits(warp.at_barrier))
            make_ready(block.thread[w * warp_size + lane]);
        warp.at_barrier = 0;
    }
}

static void barrier_after_return_of(Thread &thread)
{
    Block &block = *thread.warp->block;
    if (block.barrier[0].arrived > 0 && block.barrier[0].arrived == block.alive)
        complete(block);
}

static void count_arrival(Block &block, Barrier &barrier, Site site, bool truth)
{
    if (barrier.arrived == 0) {
        barrier.site = site;
        barrier.mixed = false;
        block.after_return[barrier_after_return] = barrier_after_return_of;
    } else if (!same_site(barrier.site, site)) {
        barrier.mixed = true;
    }
    barrier.arrived++;
    barrier.truths += truth;
}

__attribute__((always_inline)) static inline const Barrier &synchronise(Site site, bool truth,
                                                                        const char *what)
{
    const Call call = {what, site, true};
    Thread &thread = self();
    Block &block = *thread.warp->block;
    Barrier &barrier = block.barrier[0];
    count_arrival(block, barrier, site, truth);
    note(thread, 0, call);
    if (barrier.arrived == block.alive) {
        complete(block);
    } else {
        thread.warp->at_barrier |= 1u << thread.lane;
        suspend(thread);
    }
    thread.wait = Wait::nothing;
    return barrier;
}

/* ---- Named barriers: those that arrive are counted, whoever they are ---- */

static bool arrive(Thread &thread, unsigned id, unsigned threads, Site site)
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
    checker->released(&barrier);
    return ++barrier.arrived == threads;
}

static void complete_named(Block &block, unsigned id)
{
    block.barrier[id].arrived = 0;
    checker->named_barrier_completed(block);
    for (unsigned t = 0; t < block.threads; t++) {
        Thread &thread = block.thread[t];
        if (thread.fiber && thread.wait == Wait::barrier && thread.barrier == id)
            make_ready(thread);
    }
}

} /* namespace simt */

using namespace simt;

extern "C" void simt_syncthreads(Site site)
{
    synchronise(site, false, "__syncthreads()");
}

extern "C" int simt_syncthreads_reduce(int which, int value, Site site)
{
    static const char *const names[] = {"__syncthreads_count()", "__syncthreads_and()",
                                        "__syncthreads_or()"};
    const Barrier &barrier = synchronise(site, value != 0, names[which]);
    return which == 0 ? barrier.count : which == 1 ? barrier.all : barrier.any;
}

void ptx::named_barrier_sync(int id, int threads, Site site)
{
    Thread &thread = self();
    Block &block = *thread.warp->block;
    if (arrive(thread, id, threads, site)) {
        complete_named(block, id);
    } else {
        const Call call = {"a named barrier", site, true};
        note(thread, id, call);
        suspend(thread);
        thread.wait = Wait::nothing;
    }
    checker->acquired(&block.barrier[id]);
}

void ptx::named_barrier_arrive(int id, int threads, Site site)
{
    Thread &thread = self();
    if (arrive(thread, id, threads, site))
        complete_named(*thread.warp->block, id);
}
