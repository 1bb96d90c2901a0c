/* These are __syncthreads and its relatives, PTX's named barriers, and those of <cuda/barrier>. */
#include "run/scheduling.h"
#include <ptx.cuh>

using namespace simt;

/* ---- __syncthreads: all threads of the block ---- */

/* Returns whether some lanes of a warp have returned and others wait. Whole warps may. */
static bool splits_a_warp(const Block &block)
{
    for (unsigned w = 0; w < block.warps; w++)
        if (block.warp[w].alive && block.warp[w].alive != block.warp[w].present)
            return true;
    return false;
}

/* bar.sync counts arrivals: whole warps may arrive from different lines, but not one warp's lanes,
 * nor at barriers of different kinds. The checked build wants one line for all. */
static bool at_different_sites(const Block &block)
{
    const Thread *of_block = nullptr;
    for (unsigned w = 0; w < block.warps; w++) {
        const Thread *of_warp = nullptr;
        for (unsigned lane : bits(block.warp[w].alive)) {
            const Thread &thread = block.warp[w].thread[lane];
            of_block = of_block ? of_block : &thread;
            of_warp = of_warp ? of_warp : &thread;
            const Thread &other = checker->armed ? *of_block : *of_warp;
            if (thread.barrier != of_block->barrier || !same_site(site_of(other), site_of(thread)))
                return true;
        }
    }
    return false;
}

/* No thread can go on: the barrier opens, unless some that have not returned wait elsewhere. */
static bool open(Block &block)
{
    Barrier &barrier = block.barrier;
    for (unsigned w = 0; w < block.warps; w++)
        if (block.warp[w].at_barrier != in_positions(block, block.warp[w].alive))
            return false;
    if (is_stopped(block))
        abandon_block();
    if ((barrier.mixed && at_different_sites(block)) || (checker->armed && splits_a_warp(block)))
        report_waiting(block, "a divergent barrier (not all threads reach the same __syncthreads)");
    barrier.count = int(barrier.truths);
    barrier.all = barrier.truths == block.alive;
    barrier.any = barrier.truths > 0;
    barrier.truths = 0;
    checker->barrier_completed(block);
    barrier.site = nowhere;
    if (block.running->at_barrier & block.lane_cursor) /* the last to arrive needs no switch */
        block.lane_cursor = block.lane_cursor >> 1 | block.lane_cursor << 31;
    for (unsigned position = 0; position < block.warps; position++) {
        Warp &warp = block.warp[block.warp_at[position]];
        if (warp.at_barrier)
            block.ready_warps |= 1u << position;
        warp.ready |= warp.at_barrier;
        warp.at_barrier = 0;
    }
    return true;
}

__attribute__((always_inline)) static inline void wait_at_barrier(Block &block, Thread &self)
{
    Warp *warp = block.running;
    warp->at_barrier |= block.lane_cursor;
    leave(block, warp, self);
}

/* The running thread is the first to arrive, or arrived at another place than the first. */
__attribute__((noinline)) static void arrive_elsewhere(Block &block, Thread &self, Site site)
{
    Barrier &barrier = block.barrier;
    if (!barrier.site.file) { /* nowhere */
        barrier.site = site;
        barrier.mixed = false;
        block.open_barrier = open;
    } else {
        barrier.mixed = true;
        self.wait = Wait::barrier;
        self.site = site;
    }
    wait_at_barrier(block, self);
}

/* Everything rare is also a call in tail position: see leave(). */
__attribute__((always_inline)) static inline void synchronise(Site site, unsigned char name)
{
    Block &block = *worker->block;
    Thread &self = *current_thread;
    const Site &usual = block.barrier.site;
    self.wait = Wait::usual_barrier;
    self.barrier = name;
    if (__builtin_expect(site.file != usual.file || site.line != usual.line, false))
        return arrive_elsewhere(block, self, site);
    wait_at_barrier(block, self);
}

void simt_syncthreads(Site site) { synchronise(site, plain_barrier); }

int simt_syncthreads_reduce(int which, int value, Site site)
{
    Barrier &barrier = worker->block->barrier;
    barrier.truths += value != 0;
    synchronise(site, uint8_t(which));
    return which == 0 ? barrier.count : which == 1 ? barrier.all : barrier.any;
}

/* ---- Barriers that count arrivals, whoever they are ---- */

/* To the checker a thread that waits for a phase knows of arrivals in that phase, not in the next.
 * It is never further behind. */
static const void *order_of(const simt_barrier &barrier, unsigned phase)
{
    return reinterpret_cast<const char *>(&barrier) + phase % 2;
}

/* Returns the phase in which the running thread arrives. */
static unsigned arrive(simt_barrier &barrier, unsigned count)
{
    const unsigned phase = barrier.phase;
    checker->released(order_of(barrier, phase), *worker->block);
    barrier.missing -= count;
    if (barrier.missing == 0) {
        barrier.missing = barrier.expected;
        barrier.phase++;
    }
    return phase;
}

static void wait(const simt_barrier &barrier, unsigned phase, Site site, const char *who, Wait kind)
{
    wait_until([&] { return barrier.phase != phase; }, site, [&] { return who; }, kind);
    checker->acquired(order_of(barrier, phase));
}

/* ---- Named barriers: the count is what the first to arrive in a phase says ---- */

static unsigned arrive(unsigned id, unsigned threads, const Call &call)
{
    Block &block = *worker->block;
    if (id >= named_barriers || threads == 0 || threads % warp_size || threads > max_block_threads)
        simt_fail("named barrier %u with %u threads at %s:%d: the barrier must be 0 to 15 and the "
                  "count a multiple of 32",
                  id, threads, call.site.file, call.site.line);
    simt_barrier &barrier = block.named_barrier[id];
    if (barrier.missing == barrier.expected)
        barrier.missing = barrier.expected = threads;
    if (barrier.expected != threads)
        simt_fail("named barrier %u at %s:%d expects %u threads, but others came to it with a "
                  "count of %u",
                  id, call.site.file, call.site.line, threads, barrier.expected);
    checker->noted(call.what, nullptr, id, threads, call.where);
    const unsigned phase = arrive(barrier, 1);
    if (barrier.phase != phase)
        checker->named_barrier_completed(block, id);
    return phase;
}

void ptx::named_barrier_sync(int id, int threads, Site site)
{
    const unsigned phase = arrive(id, threads, {"named_barrier_sync", site});
    wait(worker->block->named_barrier[id], phase, site, "a named barrier", Wait::named_barrier);
}

void ptx::named_barrier_arrive(int id, int threads, Site site)
{
    arrive(id, threads, {"named_barrier_arrive", site});
}

/* ---- cuda::barrier: the memory is the program's, its contents only ours ---- */

static const unsigned long long initialised = 0xba441e4ba441e4bau;

static void check_barrier(const struct simt_barrier *barrier, const char *what, Site site)
{
    if (!simt_is_shared(barrier))
        fail_at({what, site}, "the barrier is not in shared memory, which is all there is");
    if (barrier->mark != initialised)
        fail_at({what, site}, "the barrier is not initialised");
}

void simt_barrier_init(struct simt_barrier *barrier, unsigned expected)
{
    if (!simt_is_shared(barrier))
        simt_fail("cuda::barrier: it is not in shared memory, which is all there is");
    *barrier = {initialised, expected, expected, 0};
}

unsigned simt_barrier_arrive(struct simt_barrier *barrier, unsigned count, Site site)
{
    const char *what = "cuda::barrier::arrive()";
    check_barrier(barrier, what, site);
    if (count > barrier->missing)
        fail_at({what, site}, "%u arrivals, where the phase lacks %u", count, barrier->missing);
    return arrive(*barrier, count);
}

void simt_barrier_drop(struct simt_barrier *barrier, Site site)
{
    check_barrier(barrier, "cuda::barrier::arrive_and_drop()", site);
    barrier->expected--;
    simt_barrier_arrive(barrier, 1, site);
}

void simt_barrier_wait(struct simt_barrier *barrier, unsigned phase, Site site)
{
    const char *what = "cuda::barrier::wait()";
    check_barrier(barrier, what, site);
    wait(*barrier, phase, site, what, Wait::condition);
}
