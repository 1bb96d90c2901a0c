/* Operations of a warp: lanes meet, and the last to arrive does the work for all. */
#include "host/checker.h"
#include "run/scheduling.h"
#include <cstring>
#include <simt/collectives.h>

namespace simt
{

__attribute__((noinline)) static void complete(Warp &warp, Meeting &meeting, bool orders_memory)
{
    Meeting done = meeting;
    meeting = warp.meeting[--warp.meetings];
    checker->warp_met(warp, done.mask, done.arrived, orders_memory);
    done.run(warp.slot, done.arrived);
    Block &block = *warp.block;
    const uint32_t running = 1u << block.lane_position[worker->thread->lane];
    if (const uint32_t waiting = in_positions(block, done.arrived) & ~running) {
        warp.ready |= waiting;
        block.ready_warps |= 1u << block.warp_position[warp.number];
    }
}

/* The lanes that a meeting still waits for. Lanes that never existed are not missed, nor, on most
 * days, returned ones. */
static uint32_t missing(const Warp &warp, const Meeting &meeting)
{
    uint32_t expected = checker->armed ? warp.present : warp.alive;
    return meeting.mask & expected & ~meeting.arrived;
}

static void meetings_after_return_of(Thread &thread)
{
    Warp &warp = *thread.warp;
    for (unsigned i = warp.meetings; i-- > 0;) {
        Meeting &meeting = warp.meeting[i];
        if (!(meeting.mask >> thread.lane & 1))
            continue;
        unsigned first = static_cast<unsigned>(__builtin_ctz(meeting.arrived));
        const Thread &waiting = warp.thread[first];
        if (checker->armed)
            report_incomplete_meeting(warp);
        if (!missing(warp, meeting))
            complete(warp, meeting, waiting.call->orders_memory);
    }
}

static bool is(const Meeting &meeting, uint32_t mask, simt_meeting *run, const char *what)
{
    return meeting.mask == mask && meeting.run == run &&
           (meeting.what == what || !strcmp(meeting.what, what));
}

/* With no meeting open, or with others than the caller's as the first. */
__attribute__((noinline)) static Meeting &find_or_open(Warp &warp, uint32_t mask, simt_meeting *run,
                                                       const char *what)
{
    for (unsigned i = 0; i < warp.meetings; i++)
        if (is(warp.meeting[i], mask, run, what))
            return warp.meeting[i];
    warp.block->after_return[meetings_after_return] = meetings_after_return_of;
    Meeting &meeting = warp.meeting[warp.meetings++];
    meeting = Meeting{mask, 0, run, what};
    return meeting;
}

/* simt_meet(). Inline, because a shuffle does little else. */
__attribute__((always_inline)) static inline void
meet(uint32_t mask, void *slot, simt_meeting *run, const char *what, bool orders_memory, Site site)
{
    Thread &thread = self();
    Warp &warp = *thread.warp;
    const unsigned lane = thread.lane;
    const Call call = {what, site, orders_memory};
    thread.call = &call;
    if (!(mask >> lane & 1)) {
        fail_at(site, what,
                "lane %u calls it with mask 0x%08x, which does not name the lane itself", lane,
                mask);
    }
    const bool open = warp.meetings > 0 && is(warp.meeting[0], mask, run, what);
    Meeting &meeting = open ? warp.meeting[0] : find_or_open(warp, mask, run, what);
    meeting.arrived |= 1u << lane;
    warp.slot[lane] = slot;
    thread.fiber->wait = Wait::warp;
    if (uint32_t absent = missing(warp, meeting)) {
        if (absent & ~warp.alive)
            report_incomplete_meeting(warp);
        suspend(thread);
    } else {
        complete(warp, meeting, orders_memory);
        thread.fiber->wait = Wait::nothing;
    }
}

} /* namespace simt */

using namespace simt;

extern "C" void simt_meet(unsigned mask, void *slot, simt_meeting *run, const char *what,
                          int orders_memory, Site site)
{
    meet(mask, slot, run, what, orders_memory != 0, site);
}

extern "C" unsigned simt_lane(void) { return self().lane; }
extern "C" unsigned simt_thread_number(void) { return self().linear; }

/* ---- __activemask: the lanes that come to the same place together ---- */

static uint32_t ready_lanes(const Warp &warp)
{
    uint32_t lanes = 0;
    for (unsigned lane : bits(warp.ready))
        lanes |= 1u << warp.block->lane_at[lane];
    return lanes;
}

/*
 * Lets the warp's other lanes run until each has come here too, or waits elsewhere, or has
 * returned. A lane that polls memory would never do any of these, so there is an end to it.
 */
extern "C" unsigned simt_activemask(Site site)
{
    Thread &thread = self();
    Warp &warp = *thread.warp;
    const uint32_t me = 1u << thread.lane;
    const Call call = {"__activemask()", site, false};
    thread.call = &call;
    warp.gathering |= me;
    for (int round = 0; warp.gathering & me; round++) {
        if (!(ready_lanes(warp) & ~warp.gathering) || round == 64) {
            uint32_t together = 0;
            for (unsigned lane : bits(warp.gathering)) {
                if (same_site(warp.thread[lane].call->site, call.site))
                    together |= 1u << lane;
            }
            for (unsigned lane : bits(together))
                warp.gathered[lane] = together;
            warp.gathering &= ~together;
        } else {
            make_ready(thread);
            suspend(thread);
        }
    }
    return warp.gathered[thread.lane];
}

/* ---- __syncwarp ---- */

static void nothing(void *const *, unsigned) {}

extern "C" void simt_syncwarp(unsigned mask, Site site)
{
    simt_meet(mask, nullptr, nothing, "__syncwarp()", 1, site);
}

/* ---- Shuffles ---- */

/* What a lane gets when it reads from a lane that is not there: on a GPU anything; here, NaN for
 * every type of float. */
static const uint64_t nobody = ~uint64_t(0);

struct Shuffle {
    uint64_t value, result;
    int how, operand, width;
};

/* The lane that `lane` reads from; itself where the source would lie outside its segment of `width`
 * lanes. */
static unsigned source_lane(const Shuffle &shuffle, unsigned lane)
{
    unsigned width = static_cast<unsigned>(shuffle.width);
    unsigned operand = static_cast<unsigned>(shuffle.operand);
    unsigned begin = lane & ~(width - 1), end = begin + width;
    unsigned from = lane;
    switch (shuffle.how) {
    case simt_shuffle_index:
        return begin | (operand & (width - 1));
    case simt_shuffle_up:
        from = lane - operand;
        return operand <= lane && from >= begin ? from : lane;
    case simt_shuffle_down:
        from = lane + operand;
        return operand < warp_size && from < end ? from : lane;
    default: /* xor may reach into lower segments, but not into higher ones */
        from = lane ^ operand;
        return from < end ? from : lane;
    }
}

static void run_shuffle(void *const *slot, unsigned lanes)
{
    for (unsigned lane : bits(lanes)) {
        Shuffle &shuffle = *static_cast<Shuffle *>(slot[lane]);
        unsigned from = source_lane(shuffle, lane);
        shuffle.result =
            lanes >> from & 1 ? static_cast<const Shuffle *>(slot[from])->value : nobody;
    }
}

extern "C" uint64_t simt_shuffle(unsigned mask, uint64_t value, int how, int operand, int width,
                                 Site site)
{
    static const char *const names[] = {"__shfl_sync()", "__shfl_up_sync()", "__shfl_down_sync()",
                                        "__shfl_xor_sync()"};
    if (width < 1 || width > 32 || (width & (width - 1)))
        simt_fail("%s at %s:%d: the width is %d; it must be 1, 2, 4, 8, 16 or 32", names[how],
                  site.file, site.line, width);
    Shuffle shuffle = {value, 0, how, operand, width};
    meet(mask, &shuffle, run_shuffle, names[how], false, site);
    return shuffle.result;
}

/* ---- Votes ---- */

struct Vote {
    int predicate;
    unsigned ballot, voters;
};

static void run_vote(void *const *slot, unsigned lanes)
{
    unsigned ballot = 0;
    for (unsigned lane : bits(lanes)) {
        if (static_cast<const Vote *>(slot[lane])->predicate)
            ballot |= 1u << lane;
    }
    for (unsigned lane : bits(lanes)) {
        Vote &vote = *static_cast<Vote *>(slot[lane]);
        vote.ballot = ballot;
        vote.voters = lanes;
    }
}

extern "C" unsigned simt_vote(unsigned mask, int predicate, int how, Site site)
{
    static const char *const names[] = {"__all_sync()", "__any_sync()", "__uni_sync()",
                                        "__ballot_sync()"};
    Vote vote = {predicate, 0, 0};
    simt_meet(mask, &vote, run_vote, names[how], 0, site);
    switch (how) {
    case simt_vote_all:
        return vote.ballot == vote.voters;
    case simt_vote_any:
        return vote.ballot != 0;
    case simt_vote_uni:
        return vote.ballot == 0 || vote.ballot == vote.voters;
    default:
        return vote.ballot;
    }
}

/* ---- Matches ---- */

struct Match {
    uint64_t value;
    unsigned same;
    int all_agree;
};

static void run_match(void *const *slot, unsigned lanes)
{
    for (unsigned lane : bits(lanes)) {
        Match &match = *static_cast<Match *>(slot[lane]);
        match.same = 0;
        for (unsigned other : bits(lanes)) {
            if (static_cast<const Match *>(slot[other])->value == match.value)
                match.same |= 1u << other;
        }
        match.all_agree = match.same == lanes;
    }
}

extern "C" unsigned simt_match(unsigned mask, uint64_t value, int *all_agree, Site site)
{
    Match match = {value, 0, 0};
    simt_meet(mask, &match, run_match, all_agree ? "__match_all_sync()" : "__match_any_sync()", 0,
              site);
    if (!all_agree)
        return match.same;
    *all_agree = match.all_agree;
    return match.all_agree ? match.same : 0;
}

/* ---- Reductions ---- */

struct Reduction {
    unsigned value;
    int how;
};

static unsigned combine(unsigned a, unsigned b, int how)
{
    switch (how) {
    case simt_reduce_add:
        return a + b;
    case simt_reduce_min_signed:
        return static_cast<int>(b) < static_cast<int>(a) ? b : a;
    case simt_reduce_max_signed:
        return static_cast<int>(b) > static_cast<int>(a) ? b : a;
    case simt_reduce_min:
        return b < a ? b : a;
    case simt_reduce_max:
        return b > a ? b : a;
    case simt_reduce_and:
        return a & b;
    case simt_reduce_or:
        return a | b;
    default:
        return a ^ b;
    }
}

static void run_reduction(void *const *slot, unsigned lanes)
{
    unsigned first = static_cast<unsigned>(__builtin_ctz(lanes));
    Reduction result = *static_cast<const Reduction *>(slot[first]);
    for (unsigned lane : bits(lanes & (lanes - 1)))
        result.value =
            combine(result.value, static_cast<const Reduction *>(slot[lane])->value, result.how);
    for (unsigned lane : bits(lanes))
        static_cast<Reduction *>(slot[lane])->value = result.value;
}

extern "C" unsigned simt_reduce(unsigned mask, unsigned value, int how, Site site)
{
    static const char *const names[] = {
        "__reduce_add_sync()", "__reduce_min_sync()", "__reduce_max_sync()", "__reduce_min_sync()",
        "__reduce_max_sync()", "__reduce_and_sync()", "__reduce_or_sync()",  "__reduce_xor_sync()"};
    Reduction reduction = {value, how};
    simt_meet(mask, &reduction, run_reduction, names[how], 0, site);
    return reduction.value;
}
