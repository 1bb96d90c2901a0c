/* In operations of a warp, lanes meet, and the last to arrive does the work for all. */
#include "run/scheduling.h"
#include "threads/operations.h"
#include <simt/collectives.h>

using namespace simt;

/* A lane reads this from a lane that is not there: NaN of every type; on a GPU anything. */
static const uint64_t no_lane = ~uint64_t(0);

/* Returns the lane that `lane` reads from; itself outside its segment of `width` lanes. */
static inline unsigned source_lane(unsigned lane, unsigned how, unsigned operand, unsigned width)
{
    const unsigned begin = lane & ~(width - 1), end = begin + width;
    switch (how) {
    case simt_shuffle_index:
        return begin | (operand & (width - 1));
    case simt_shuffle_up:
        return operand <= lane && lane - operand >= begin ? lane - operand : lane;
    case simt_shuffle_down:
        return operand < warp_size && lane + operand < end ? lane + operand : lane;
    default: /* xor may reach into lower segments, but not into higher ones */
        return (lane ^ operand) < end ? lane ^ operand : lane;
    }
}

/* Each lane's context takes the value that it goes on with. */
static void exchange(const Warp &warp, uint32_t lanes)
{
    for (unsigned lane : bits(lanes)) {
        const Shuffled &own = warp.shuffled[lane];
        const unsigned from = source_lane(lane, own.form & 3, own.operand, own.form >> 2);
        warp.thread[lane].context.value = lanes >> from & 1 ? warp.shuffled[from].value : no_lane;
    }
}

/* All lanes have arrived. Returns what the running thread goes on with. */
__attribute__((noinline)) static uint64_t complete(Warp &warp, Meeting &meeting)
{
    const Meeting done = meeting;
    meeting = warp.meeting[--warp.meetings];
    Block &block = *warp.block;
    if (is_stopped(block))
        abandon_block();
    checker->warp_met(warp, done);
    if (done.run)
        done.run(warp.slot, done.arrived);
    else
        exchange(warp, done.arrived);
    if (const uint32_t waiting = in_positions(block, done.arrived) & ~block.lane_cursor) {
        warp.ready |= waiting;
        block.ready_warps |= 1u << block.warp_position[warp.number];
    }
    return current_thread->context.value;
}

constexpr char lanes_have_returned[] = "a warp operation that names lanes which have returned";

/* Returns the lanes that a meeting waits for: those that exist and have not returned. */
static inline uint32_t missing(const Warp &warp, const Meeting &meeting)
{
    return meeting.mask & warp.missed & ~meeting.arrived;
}

static void meetings_after_return_of(Thread &thread)
{
    Warp &warp = *thread.warp;
    for (unsigned i = warp.meetings; i-- > 0;) {
        Meeting &meeting = warp.meeting[i];
        if (!(meeting.mask >> thread.lane & 1))
            continue;
        if (checker->armed)
            report_waiting(*warp.block, lanes_have_returned);
        if (!missing(warp, meeting))
            complete(warp, meeting);
    }
}

/* The running thread is counted, and waits unless it is the last. */
__attribute__((always_inline)) static inline uint64_t arrive(Block &block, Warp &warp,
                                                             Meeting &meeting, Thread &self)
{
    meeting.arrived |= 1u << self.lane;
    const uint32_t absent = missing(warp, meeting);
    if (!absent)
        return complete(warp, meeting);
    if (__builtin_expect(absent & ~warp.alive, 0))
        report_waiting(*warp.block, lanes_have_returned);
    return leave(block, &warp, self);
}

/* No meeting is open, or the first one is for other lanes than the caller's. */
__attribute__((noinline)) static uint64_t arrive_elsewhere(uint32_t mask, simt_meeting *run,
                                                           bool orders_memory, Thread &self)
{
    Block &block = *worker->block;
    Warp &warp = *block.running;
    if (!(mask >> self.lane & 1))
        fail_at({self.what, self.site},
                "lane %u calls it with mask 0x%08x, which does not name the lane itself", self.lane,
                mask);
    for (unsigned i = 0; i < warp.meetings; i++) {
        Meeting &open = warp.meeting[i];
        if (open.mask == mask && open.run == run &&
            (open.what == self.what || !strcmp(open.what, self.what)))
            return arrive(block, warp, open, self);
    }
    block.after_return[meetings_after_return] = meetings_after_return_of;
    Meeting &meeting = warp.meeting[warp.meetings++];
    meeting = Meeting{mask, 0, run, self.what, orders_memory};
    return arrive(block, warp, meeting, self);
}

/* Joins the meeting and leaves for another thread by calls in tail position: see leave(). */
__attribute__((always_inline)) static inline uint64_t
meet(Warp &warp, uint32_t mask, simt_meeting *run, const char *what, bool orders_memory, Site site)
{
    Thread &self = *current_thread;
    self.site = site;
    self.what = what;
    self.wait = Wait::warp;
    Meeting &first = warp.meeting[0];
    if (__builtin_expect(warp.meetings == 0 || first.mask != mask || first.run != run ||
                             first.what != what || !(mask >> self.lane & 1),
                         0))
        return arrive_elsewhere(mask, run, orders_memory, self);
    return arrive(*worker->block, warp, first, self);
}

void simt_meet(unsigned mask, void *slot, simt_meeting *run, const char *what, int orders,
               Site site)
{
    Warp &warp = *worker->block->running;
    warp.slot[current_thread->lane] = slot;
    meet(warp, mask, run, what, orders != 0, site);
}

unsigned simt_lane(void) { return current_thread->lane; }
unsigned simt_thread_number(void) { return current_thread->linear; }

/* ---- __activemask: the lanes that come to the same place together ---- */

/* Lets the warp's other lanes run until each has arrived here too, or waits elsewhere, or has
 * returned. A lane that polls memory would never do any of these, so the waiting is limited. */
unsigned simt_activemask(Site site)
{
    Thread &thread = *current_thread;
    Warp &warp = *thread.warp;
    const uint32_t me = 1u << thread.lane;
    thread.site = site;
    warp.gathering |= me;
    for (int round = 0; warp.gathering & me; round++) {
        if (warp.ready & ~in_positions(*warp.block, warp.gathering) && round < 64) {
            make_ready(thread);
            suspend(thread);
            continue;
        }
        uint32_t together = 0;
        for (unsigned lane : bits(warp.gathering))
            together |= uint32_t(same_site(warp.thread[lane].site, site)) << lane;
        for (unsigned lane : bits(together))
            warp.gathered[lane] = together;
        warp.gathering &= ~together;
    }
    return warp.gathered[thread.lane];
}

static void nothing(void *const *, unsigned) {}

void simt_syncwarp(unsigned mask, Site site)
{
    meet(*worker->block->running, mask, nothing, "__syncwarp()", true, site);
}

uint64_t simt_shuffle(unsigned mask, uint64_t value, unsigned operand, unsigned form, Site site)
{
    static const char *const names[] = {"__shfl_sync()", "__shfl_up_sync()", "__shfl_down_sync()",
                                        "__shfl_xor_sync()"};
    const unsigned how = form & 3, width = form >> 2;
    if (__builtin_expect(width - 1 >= warp_size || (width & (width - 1)), false))
        fail_at({names[how], site}, "the width is %d; it must be 1, 2, 4, 8, 16 or 32",
                int(form) >> 2);
    Warp &warp = *worker->block->running;
    warp.shuffled[current_thread->lane] = Shuffled{value, operand, form};
    return meet(warp, mask, nullptr, names[how], false, site);
}

struct Match {
    uint64_t value;
    unsigned same, lanes; /* that gave the same value; that took part */
};

static void run_match(void *const *slot, unsigned lanes)
{
    for (unsigned lane : bits(lanes)) {
        Match &match = *static_cast<Match *>(slot[lane]);
        match.lanes = lanes;
        for (unsigned other : bits(lanes))
            if (static_cast<const Match *>(slot[other])->value == match.value)
                match.same |= 1u << other;
    }
}

unsigned simt_match(unsigned mask, uint64_t value, int *all_agree, Site site)
{
    Match match = {value, 0, 0};
    simt_meet(mask, &match, run_match, all_agree ? "__match_all_sync()" : "__match_any_sync()", 0,
              site);
    if (!all_agree)
        return match.same;
    *all_agree = match.same == match.lanes;
    return *all_agree ? match.same : 0;
}

struct Reduction {
    unsigned value;
    int how;
    unsigned lanes; /* that took part */
};

static void run_reduction(void *const *slot, unsigned lanes)
{
    unsigned first = unsigned(__builtin_ctz(lanes));
    Reduction result = *static_cast<const Reduction *>(slot[first]);
    result.lanes = lanes;
    for (unsigned lane : bits(lanes & (lanes - 1)))
        result.value =
            combined(result.value, result.how, static_cast<const Reduction *>(slot[lane])->value);
    for (unsigned lane : bits(lanes))
        *static_cast<Reduction *>(slot[lane]) = result;
}

unsigned simt_reduce(unsigned mask, unsigned value, int how, Site site)
{
    static const char *const names[] = {
        "__reduce_add_sync()", "__reduce_and_sync()", "__reduce_or_sync()",  "__reduce_xor_sync()",
        "__reduce_min_sync()", "__reduce_max_sync()", "__reduce_min_sync()", "__reduce_max_sync()"};
    Reduction reduction = {value, how, 0};
    simt_meet(mask, &reduction, run_reduction, names[how], 0, site);
    return reduction.value;
}

unsigned simt_vote(unsigned mask, int predicate, int how, Site site)
{
    static const char *const names[] = {"__all_sync()", "__any_sync()", "__uni_sync()",
                                        "__ballot_sync()"};
    Reduction ballot = {unsigned(predicate != 0) << current_thread->lane, simt_or, 0};
    simt_meet(mask, &ballot, run_reduction, names[how], 0, site);
    const bool all = ballot.value == ballot.lanes, any = ballot.value != 0;
    return how == simt_vote_all   ? all
           : how == simt_vote_any ? any
           : how == simt_vote_uni ? all || !any
                                  : ballot.value;
}
