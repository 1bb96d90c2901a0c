/* A phase is over when the expected threads have arrived and all announced bytes are written. The
 * state is kept here; a mark in the mbarrier's own 8 bytes tells of stores over it. */
#include "instructions/asynchronous.h"
#include "host/errors.h"
#include <ptx.cuh>

using namespace simt;

static const uint64_t mark = 0x7265697272616210;
static const int largest_count = (1 << 20) - 1; /* of arrivals, and of announced bytes */

/* To the checker an mbarrier is written by its initialisation, and read atomically by uses. */

/* Returns the mbarrier's place in shared memory, aligned, or reports. */
static ClusterPlace checked_place(const uint64_t *place, const Call &call)
{
    if (!simt_is_shared(place))
        fail_at(call, "an mbarrier lies in shared memory, %p does not", place);
    return cluster_place(simt_shared_address(place), sizeof *place, call);
}

Mbarrier &simt::find_mbarrier(const ClusterPlace &at, const Call &call)
{
    BlockWork *const work = at.home->work;
    if (!work || work->mbarriers.count(at.place) == 0)
        fail_at(call, "the mbarrier was not initialised; mbarrier_init() and a __syncthreads() "
                      "come first");
    if (*reinterpret_cast<const uint64_t *>(at.place) != mark)
        fail_at(call, "something else was stored over the mbarrier");
    return work->mbarriers.find(at.place)->second;
}

Mbarrier &simt::find_mbarrier(uint64_t *place, const Call &call)
{
    return find_mbarrier(checked_place(place, call), call);
}

void simt::count_on_mbarrier(Mbarrier &barrier, unsigned arrivals, long long bytes)
{
    barrier.home->work->timeouts = 0;
    barrier.missing -= arrivals;
    barrier.bytes += bytes;
    if (barrier.missing == 0 && barrier.bytes == 0) {
        checker->noted("mbarrier_phase", barrier.place, barrier.phase, 0, nullptr);
        barrier.phase++;
        barrier.missing = barrier.expected;
    }
}

/* Says what the barrier lacks, arrivals or bytes, or has too many of. */
static std::string describe(const Mbarrier &barrier)
{
    const std::string bytes =
        barrier.bytes > 0   ? format("; %lld announced bytes are not being copied", barrier.bytes)
        : barrier.bytes < 0 ? format("; %lld bytes more were copied than announced", -barrier.bytes)
                            : "";
    return format("an mbarrier (phase %llu, parity %llu, lacks %u of %u arrivals%s)", barrier.phase,
                  barrier.phase % 2, barrier.missing, barrier.expected, bytes.c_str());
}

bool ptx::mbarrier_wait(uint64_t *place, int parity, bool may_give_up, Site site)
{
    const Call call(may_give_up ? "mbarrier_try_wait()" : "mbarrier_wait()", site);
    Mbarrier &barrier = find_mbarrier(place, call);
    BlockWork &work = block_work();
    if (parity != 0 && parity != 1)
        fail_at(call, "the parity is %d; it must be 0 or 1", parity);
    checker->access(place, sizeof *place, atomic_read, call.where);
    const auto is_over = [&] { return barrier.phase % 2 != unsigned(parity); };
    const unsigned long long phase = barrier.phase - is_over(), answers = work.answers;
    checker->noted("mbarrier_wait", place, phase, 0, call.where);
    barrier.waiting++;
    work.impatient += may_give_up;
    wait_until([&] { return is_over() || (may_give_up && work.answers != answers); }, call.site,
               [&] { return describe(barrier); });
    work.impatient -= may_give_up;
    barrier.waiting--;
    if (!is_over())
        return false;
    checker->noted("mbarrier_passed", place, phase, 0, call.where);
    checker->acquired(&barrier.order[parity]);
    return true;
}

/* A loop that asks for what no thread does would hang; after so many answers it is told what. */
static const unsigned most_timeouts = 1000;

bool simt::answer_impatient(BlockWork &work)
{
    if (work.impatient == 0 || work.timeouts >= most_timeouts)
        return false;
    work.timeouts++;
    work.answers++;
    return true;
}

void ptx::mbarrier_init(uint64_t *place, int arrivals, Site site)
{
    const Call call("mbarrier_init()", site);
    checked_place(place, call);
    BlockWork &work = block_work();
    if (arrivals < 1 || arrivals > largest_count)
        fail_at(call, "%d arrivals; it must be 1 to %d", arrivals, largest_count);
    if (work.mbarriers.count(place) && *place == mark)
        fail_at(call, "the mbarrier is already initialised");
    checker->access(place, sizeof *place, copy_write, call.where);
    *place = mark;
    const unsigned count = unsigned(arrivals);
    checker->noted("mbarrier_init", place, count, 0, call.where);
    work.mbarriers[place] = {worker->block, place, current_thread->linear, count, count};
}

void ptx::mbarrier_init_fence(void)
{
    for (auto &entry : block_work().mbarriers)
        if (entry.second.initialiser == current_thread->linear)
            entry.second.fenced = true;
}

static void arrive(Mbarrier &barrier, int bytes, const Call &call)
{
    if (bytes < 0 || bytes > largest_count)
        fail_at(call, "%d bytes; it must be 0 to %d", bytes, largest_count);
    if (barrier.missing == 0)
        fail_at(call,
                "all %u arrivals of this phase were there already, which only waits for %lld bytes",
                barrier.expected, barrier.bytes);
    checker->access(barrier.place, sizeof mark, atomic_read, call.where, barrier.home);
    checker->noted("mbarrier_arrive", barrier.place, barrier.phase, unsigned(bytes), call.where);
    checker->released(&barrier.order[barrier.phase % 2], *barrier.home);
    count_on_mbarrier(barrier, 1, bytes);
}

void ptx::mbarrier_arrive(uint64_t *place, Site site)
{
    const Call call("mbarrier_arrive()", site);
    arrive(find_mbarrier(place, call), 0, call);
}

void ptx::mbarrier_arrive_expect(uint64_t *place, int bytes, Site site)
{
    const Call call("mbarrier_arrive_expect()", site);
    Mbarrier &barrier = find_mbarrier(place, call);
    barrier.announcer = current_thread;
    arrive(barrier, bytes, call);
}

void ptx::cluster_mbarrier_arrive(uint32_t address, Site site)
{
    const Call call("cluster_mbarrier_arrive()", site);
    arrive(find_mbarrier(cluster_place(address, sizeof mark, call), call), 0, call);
}
