/*
 * Which accesses are ordered before which: the part of CUDA's memory model that programs use.
 *
 * A block's time is the number of synchronisations in it so far. A thread stamps its accesses with
 * the time of its own last synchronisation. "Thread T knows what thread S did before time t" is
 * then one number:
 *   __syncthreads  each thread of the block knows the accesses of all before now
 *                  (BlockState::full_time)
 *   __syncwarp       the same for a warp                                     (WarpState::full_time)
 *   part of a warp   one number per thread of the block                        (ThreadState::known)
 *   grid.sync        one number per block of the grid (LaunchState::grid_time)
 *   clusters         one number per thread of each block (ClusterKnowledge)
 * Without a barrier knowledge travels by publication: a fence followed by an atomic or volatile
 * write, or a release, seen by an atomic or volatile read of the same address. What is published is
 * what the thread knew at its fence, as a Clock. Who sees it has glimpsed it, and knows it after a
 * fence of its own, or when its block meets at a barrier: the programming guide's own example (the
 * last block to finish adds up what all wrote) has a barrier there and no fence.
 * All that has a scope. What was fenced, written, read or fenced again for the block alone means
 * nothing to other blocks. An atomic update hands on what it finds, a store begins anew.
 */
#include "check/check.h"
#include "run/cluster.h"

namespace simt::check
{

/* The later of each. */
static void join(std::vector<uint32_t> &into, const std::vector<uint32_t> &from)
{
    if (into.size() < from.size())
        into.resize(from.size());
    for (size_t i = 0; i < from.size(); i++)
        into[i] = std::max(into[i], from[i]);
}

/* ---- clocks ---- */

constexpr unsigned fan_bits = 4, fan = 1u << fan_bits;

/* Either children, or what is known of one block: of each of its threads accesses before a time. */
struct ClockNode {
    Clock child[fan];
    std::vector<uint32_t> known;
};

static unsigned levels_of(const LaunchState *launch)
{
    unsigned levels = 0;
    for (uint64_t blocks = 1; blocks < launch->blocks; blocks *= fan)
        levels++;
    return levels;
}

static const std::vector<uint32_t> *find(const Clock &clock, const LaunchState *launch,
                                         uint32_t block)
{
    const uint32_t index = block - launch->first_block;
    const ClockNode *node = clock.get();
    for (unsigned level = levels_of(launch); node && level-- > 0;)
        node = node->child[index >> level * fan_bits & (fan - 1)].get();
    return node ? &node->known : nullptr;
}

static Clock of_one_block(std::vector<uint32_t> known, const LaunchState *launch, uint32_t block)
{
    auto node = std::make_shared<ClockNode>();
    node->known = std::move(known);
    for (unsigned level = 0; level < levels_of(launch); level++) {
        auto above = std::make_shared<ClockNode>();
        above->child[(block - launch->first_block) >> level * fan_bits & (fan - 1)] = node;
        node = above;
    }
    return node;
}

/* What either knows. Parts that one of them has already are shared, so that it costs no more than
 * there is to learn. */
static Clock joined(const Clock &a, const Clock &b)
{
    if (a == b || !b)
        return a;
    if (!a)
        return b;
    auto both = std::make_shared<ClockNode>();
    bool all_a = true, all_b = true;
    both->known = a->known;
    join(both->known, b->known);
    all_a = both->known == a->known;
    all_b = both->known == b->known;
    for (unsigned i = 0; a->known.empty() && i < fan; i++) {
        both->child[i] = joined(a->child[i], b->child[i]);
        all_a &= both->child[i] == a->child[i];
        all_b &= both->child[i] == b->child[i];
    }
    return all_a ? a : all_b ? b : both;
}

static bool covers(const Clock &clock, const LaunchState *launch, const Stamp &stamp)
{
    const std::vector<uint32_t> *known = find(clock, launch, stamp.block);
    return known && covers(*known, stamp);
}

static Clocks &clocks_of(ThreadState *thread)
{
    if (!thread->clocks)
        thread->clocks = std::make_unique<Clocks>();
    return *thread->clocks;
}

/* What the thread knows from the barrier of its cluster; null before it knows of any phase. */
static const ClusterKnowledge *knowledge(const ThreadState *thread)
{
    const uint32_t phase = known_cluster_phase(thread);
    const ClusterState *state = thread->block->block->cluster->checked;
    return phase == 0 ? nullptr : &state->completed[phase % 2];
}

static bool cluster_orders(const ThreadState *thread, const Stamp &earlier)
{
    const ClusterKnowledge *known = knowledge(thread);
    const int rank = known ? cluster_rank_of(thread->block, earlier.block) : -1;
    return rank >= 0 && covers(known->known[rank], earlier);
}

bool ordered_before(const Stamp &earlier, const ThreadState *thread)
{
    const BlockState *block = thread->block;
    if (cluster_orders(thread, earlier))
        return true;
    if (earlier.block == block->number) {
        unsigned number = earlier.thread();
        return number == thread->number || earlier.time < block->full_time ||
               (number / warp_size == thread->warp->warp->number &&
                earlier.time < thread->warp->full_time) ||
               covers(thread->known, earlier);
    }
    const LaunchState *launch = block->launch;
    if (!block->grid_known.empty() &&
        earlier.time < block->grid_known[earlier.block - launch->first_block])
        return true;
    return covers(block->seen, launch, earlier) ||
           (thread->clocks && covers(thread->clocks->seen, launch, earlier));
}

bool is_glimpsed(const Stamp &earlier, const ThreadState *thread)
{
    const LaunchState *launch = thread->block->launch;
    return thread->clocks && (covers(thread->clocks->glimpsed[block_scope], launch, earlier) ||
                              covers(thread->clocks->glimpsed[device_scope], launch, earlier));
}

bool is_published_to_its_block(const Stamp &earlier, LaunchState *launch, const void *address)
{
    std::lock_guard<std::mutex> hold(launch->lock);
    const auto found = launch->objects.find(address);
    if (found == launch->objects.end())
        return false;
    const auto local = found->second.local.find(earlier.block);
    return local != found->second.local.end() && covers(local->second, launch, earlier);
}

void begin_moment(BlockState *block)
{
    if (block->moments + block->block->warps >= last_quiet) {
        std::fill_n(block->shared.quiet, block->shared.bytes / 4, uint8_t{0});
        block->moments = 0;
    }
    const uint8_t common = ++block->moments;
    for (unsigned i = 0; i < block->block->warps; i++) {
        block->warp[i].quiet[0] = common;
        block->warp[i].quiet[1] = ++block->moments;
    }
}

/* Lanes of the warp have learnt what threads of the block did. */
static void learnt(WarpState *warp)
{
    BlockState *block = warp->block();
    if (block->moments == last_quiet)
        begin_moment(block);
    else
        warp->quiet[1] = ++block->moments;
}

/* ---- small pieces ---- */

/* The thread knows all this from here on. What is new about its own block, its warp has to look at
 * again. */
static void absorb(ThreadState *thread, const Clock &clock)
{
    if (!clock)
        return;
    BlockState *block = thread->block;
    Clock &seen = clocks_of(thread).seen;
    Clock both = joined(seen, clock);
    if (both == seen)
        return;
    seen = std::move(both);
    const std::vector<uint32_t> *own = find(clock, block->launch, block->number);
    bool news = false;
    for (size_t i = 0; own && i < own->size(); i++)
        news |= (*own)[i] > block->full_time &&
                (i >= thread->known.size() || (*own)[i] > thread->known[i]);
    if (news) {
        join(thread->known, *own);
        block->partial = true;
    }
    learnt(thread->warp);
}

/* What the thread has glimpsed, it knows from here on, as far as a fence of this scope says. */
static void confirm(ThreadState *thread, Scope scope)
{
    for (unsigned each = block_scope; thread->clocks && each <= scope; each++)
        absorb(thread, std::exchange(thread->clocks->glimpsed[each], nullptr));
}

/* What the thread knows about its block, one number per thread: what all did before `block_time`,
 * its warp before `warp_time`, itself before `own_time`, and what it has learnt besides. */
static std::vector<uint32_t> known_as_of(const ThreadState *thread, uint32_t block_time,
                                         uint32_t warp_time, uint32_t own_time)
{
    std::vector<uint32_t> known(thread->block->block->threads, block_time);
    const size_t first = thread->number - thread->lane;
    for (size_t i = first; i < std::min(first + warp_size, known.size()); i++)
        known[i] = std::max({block_time, warp_time, i == thread->number ? own_time : 0});
    join(known, thread->known);
    return known;
}

/* Everything the thread knows about its block. */
static std::vector<uint32_t> all_known(const ThreadState *thread)
{
    std::vector<uint32_t> known =
        known_as_of(thread, thread->block->full_time, thread->warp->full_time, thread->time + 1);
    if (const ClusterKnowledge *cluster = knowledge(thread))
        join(known, cluster->known[thread->block->block->rank]);
    return known;
}

/* All that it knows. */
static Clock everything(const ThreadState *thread)
{
    const BlockState *block = thread->block;
    return joined(joined(thread->clocks ? thread->clocks->seen : nullptr, block->seen),
                  of_one_block(all_known(thread), block->launch, block->number));
}

/* The same as of its last fence of a scope, or the last barrier when the block had fenced: what it
 * may publish. Null when there was none. */
static Clock fenced(ThreadState *thread, Scope scope)
{
    const BlockState *block = thread->block;
    const Fence &fence = thread->fence[scope];
    if (fence.time == 0 && block->clean_full == 0)
        return nullptr;
    Clocks &clocks = clocks_of(thread);
    if (!clocks.publication[scope])
        clocks.publication[scope] =
            joined(joined(clocks.fenced[scope], block->clean_seen),
                   of_one_block(known_as_of(thread, std::max(fence.full, block->clean_full),
                                            fence.warp, fence.time),
                                block->launch, block->number));
    return clocks.publication[scope];
}

/* A new moment: what the thread does from now on is not covered by what it published before. */
static void step(ThreadState *thread) { thread->time = ++thread->block->now; }

/* ---- barriers ---- */

void order_barrier(BlockState *block)
{
    /* When all threads that wrote have fenced, each may publish what the block did. */
    bool fenced = block->launch->fenced;
    for (unsigned i = 0; fenced && i < block->block->threads; i++)
        fenced = !(block->thread[i].unfenced >> device_scope & 1);

    block->full_time = ++block->now;
    begin_moment(block);
    if (fenced)
        block->clean_full = block->full_time;
    for (unsigned i = 0; i < block->block->threads; i++) {
        ThreadState &thread = block->thread[i];
        thread.time = block->now;
        thread.flag_scope = fenced ? device_scope : std::max(thread.flag_scope, block_scope);
        thread.unfenced &= uint8_t(~(1u << block_scope));
        if (thread.look_at)
            order_look(&thread);
        block->cluster_phase = std::max(block->cluster_phase, thread.cluster_phase);
        if (thread.clocks) {
            confirm(&thread, device_scope);
            block->seen = joined(block->seen, thread.clocks->seen);
            thread.clocks->seen = nullptr;
            if (fenced)
                thread.clocks->publication[block_scope] = thread.clocks->publication[device_scope] =
                    nullptr;
        }
        if (block->partial)
            thread.known.clear();
    }
    if (fenced)
        block->clean_seen = block->seen;
    block->partial = false;
    block->objects.clear(); /* nothing can be learned from them any more */
}

/* The thread may publish what it did before now, and what its warp and its block did. */
static void fenced_now(ThreadState *thread, Scope scope)
{
    const BlockState *block = thread->block;
    thread->flag_scope = std::max(thread->flag_scope, scope);
    for (unsigned each = block_scope; each <= scope; each++) {
        thread->fence[each] = {thread->time, block->full_time, thread->warp->full_time};
        thread->unfenced &= uint8_t(~(1u << each));
        if (!thread->clocks && !block->seen)
            continue;
        Clocks &clocks = clocks_of(thread);
        clocks.fenced[each] = joined(clocks.seen, block->seen);
        clocks.publication[each] = nullptr;
    }
}

void order_warp(WarpState *warp, uint32_t lanes)
{
    BlockState *block = warp->block();
    ThreadState *const thread = &block->thread[warp->warp->number * warp_size];
    bool fenced = block->launch->fenced;
    Clock seen, glimpsed[scopes];
    uint32_t cluster_phase = 0;
    for (unsigned lane : bits(lanes)) {
        if (thread[lane].look_at)
            order_look(&thread[lane]);
        if (const Clocks *clocks = thread[lane].clocks.get()) {
            seen = joined(seen, clocks->seen);
            for (unsigned scope = block_scope; scope < scopes; scope++)
                glimpsed[scope] = joined(glimpsed[scope], clocks->glimpsed[scope]);
        }
        fenced &= !(thread[lane].unfenced >> device_scope & 1); /* as at a barrier of the block */
        cluster_phase = std::max(cluster_phase, thread[lane].cluster_phase);
    }
    const bool whole = (warp->warp->alive & ~lanes) == 0;
    if (!whole || block->partial) {
        /* Each lane learns what each other knows. */
        std::vector<uint32_t> known;
        for (unsigned lane : bits(lanes))
            join(known, all_known(&thread[lane]));
        for (unsigned lane : bits(lanes))
            thread[lane].known = known;
        block->partial = true;
    }
    block->now++;
    if (whole)
        warp->full_time = block->now;
    learnt(warp);
    for (unsigned lane : bits(lanes)) {
        thread[lane].time = block->now;
        thread[lane].cluster_phase = cluster_phase;
        if (seen || glimpsed[block_scope] || glimpsed[device_scope]) {
            Clocks &clocks = clocks_of(&thread[lane]);
            clocks.seen = seen;
            std::copy(glimpsed, glimpsed + scopes, clocks.glimpsed);
        }
        if (fenced)
            fenced_now(&thread[lane], device_scope);
    }
}

/* ---- fences and publications ---- */

void order_fence(ThreadState *thread, Scope scope)
{
    if (thread->look_at)
        order_look(thread);
    confirm(thread, scope);
    thread->block->launch->fenced = true;
    step(thread);
    fenced_now(thread, scope);
}

/* Blocks of the launch can learn something of each other. */
static void note_publication(LaunchState *launch)
{
    if (launch->published.exchange(true))
        return;
    for (uint8_t &quiet : launch->quiet)
        __atomic_store_n(&quiet, never_quiet, __ATOMIC_RELAXED);
}

void order_look_at(ThreadState *thread, const void *address, bool global, const Atomic &operation)
{
    if (operation.store)
        return;
    thread->look_at = address;
    thread->look_at_global = global;
    thread->look = operation;
}

void order_publish(ThreadState *thread, const void *address, bool global, const Atomic &operation)
{
    BlockState *block = thread->block;
    LaunchState *launch = block->launch;
    Clock known[scopes];
    const Scope widest = operation.block_only ? block_scope : device_scope;
    if (operation.release)
        std::fill_n(known + block_scope, widest, everything(thread));
    else if (launch->fenced)
        for (unsigned scope = block_scope; scope <= widest; scope++)
            known[scope] = fenced(thread, Scope(scope));
    if (!known[block_scope] && !(operation.store && (launch->published || !global)))
        return;
    const auto put = [&](Clock &clock, const Clock &added) {
        clock = operation.store ? added : joined(clock, added);
    };
    if (global) {
        if (known[block_scope])
            note_publication(launch);
        std::lock_guard<std::mutex> hold(launch->lock);
        SyncObject &object = launch->objects[address];
        put(object.clock, known[device_scope]);
        if (operation.store)
            object.local.clear();
        if (known[block_scope])
            put(object.local[block->number], known[block_scope]);
    } else {
        put(block->objects[address].clock, known[block_scope]);
    }
    if (operation.release)
        step(thread);
}

void order_look(ThreadState *thread)
{
    BlockState *block = thread->block;
    LaunchState *launch = block->launch;
    const void *address = std::exchange(thread->look_at, nullptr);
    Clock looked[scopes];
    if (!thread->look_at_global) {
        const auto found = block->objects.find(address);
        if (found == block->objects.end())
            return;
        looked[block_scope] = found->second.clock;
    } else {
        if (!launch->published)
            return;
        std::lock_guard<std::mutex> hold(launch->lock);
        const auto found = launch->objects.find(address);
        if (found == launch->objects.end())
            return;
        const SyncObject &object = found->second;
        const auto local = object.local.find(block->number);
        if (local != object.local.end())
            looked[block_scope] = local->second;
        if (!thread->look.block_only)
            looked[device_scope] = object.clock;
    }
    for (unsigned scope = block_scope; scope < scopes; scope++)
        if (thread->look.acquire)
            absorb(thread, looked[scope]);
        else if (looked[scope]) {
            Clock &glimpsed = clocks_of(thread).glimpsed[scope];
            glimpsed = joined(glimpsed, looked[scope]);
        }
}

void order_release(ThreadState *thread, const void *object, const Block &home)
{
    BlockState *block = thread->block;
    const Clock known = everything(thread);
    if (home.checked != block) { /* in the cluster */
        note_publication(block->launch);
        std::lock_guard<std::mutex> hold(block->launch->lock);
        Clock &clock = block->launch->objects[object].clock;
        clock = joined(clock, known);
    } else {
        SyncObject &shared = block->objects[object];
        shared.clock = joined(shared.clock, known);
        shared.cluster_phase = std::max(shared.cluster_phase, known_cluster_phase(thread));
    }
    step(thread);
}

/* Whoever's fence it was: which of them lies on the way from a write to a read is not followed. */
void order_proxy_fence(ThreadState *thread)
{
    join(thread->block->proxy_fenced, all_known(thread));
    step(thread);
}

void order_acquire(ThreadState *thread, const void *object)
{
    BlockState *block = thread->block;
    if (block->launch->published) {
        std::unique_lock<std::mutex> hold(block->launch->lock);
        const auto far = block->launch->objects.find(object);
        const Clock clock = far == block->launch->objects.end() ? nullptr : far->second.clock;
        hold.unlock();
        absorb(thread, clock);
    }
    const auto found = block->objects.find(object);
    if (found == block->objects.end())
        return;
    absorb(thread, found->second.clock);
    thread->cluster_phase = std::max(thread->cluster_phase, found->second.cluster_phase);
}

/* ---- the barrier of a cluster ---- */

void arrive_at_cluster(ThreadState *thread, bool relaxed)
{
    const BlockState *block = thread->block;
    ClusterState *&state = block->block->cluster->checked;
    if (!state)
        state = new ClusterState();
    if (relaxed)
        return;
    ClusterKnowledge &arriving = state->arriving;
    /* About its own block: what it knows of others it has from earlier phases. */
    join(arriving.known[block->block->rank], all_known(thread));
    if (thread->clocks)
        arriving.seen = joined(arriving.seen, thread->clocks->seen);
    arriving.seen = joined(arriving.seen, block->seen);
    step(thread);
}

void leave_cluster_barrier(ThreadState *thread)
{
    thread->cluster_phase = uint32_t(thread->thread->cluster_waits);
    absorb(thread, knowledge(thread)->seen);
    learnt(thread->warp);
}

} /* namespace simt::check */
