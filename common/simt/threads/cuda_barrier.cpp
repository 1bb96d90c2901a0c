/* The barriers of <cuda/barrier>. Their memory is the program's, its contents only ours. */
#include "run/engine.h"
#include "threads/wait.h"

using namespace simt;

static const unsigned long long initialised = 0xba441e4ba441e4bau;

static void check_barrier(const struct simt_barrier *barrier, const char *what, Site site)
{
    if (!simt_is_shared(barrier))
        fail_at(site, what, "the barrier is not in shared memory, which is all there is");
    if (barrier->mark != initialised)
        fail_at(site, what, "the barrier is not initialised");
}

/* Of a phase and the one after it: a thread is never further behind. */
static const void *order_of(const struct simt_barrier *barrier, unsigned phase)
{
    return reinterpret_cast<const char *>(barrier) + phase % 2;
}

void simt_barrier_init(struct simt_barrier *barrier, unsigned expected)
{
    *barrier = {initialised, expected, expected, 0};
}

unsigned simt_barrier_arrive(struct simt_barrier *barrier, unsigned count, Site site)
{
    check_barrier(barrier, "cuda::barrier::arrive()", site);
    if (count > barrier->missing)
        fail_at(site, "cuda::barrier::arrive()", "%u arrivals, where the phase lacks %u", count,
                barrier->missing);
    const unsigned phase = barrier->phase;
    checker->released(order_of(barrier, phase), *worker->block);
    barrier->missing -= count;
    if (barrier->missing == 0) {
        barrier->missing = barrier->expected;
        barrier->phase++;
    }
    return phase;
}

void simt_barrier_wait(struct simt_barrier *barrier, unsigned phase, Site site)
{
    const char *what = "cuda::barrier::wait()";
    check_barrier(barrier, what, site);
    wait_until([=] { return barrier->phase != phase; }, site, [=] { return what; });
    checker->acquired(order_of(barrier, phase));
}
