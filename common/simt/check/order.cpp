/* Decides which accesses are ordered before which: the part of CUDA's memory model in use.
 * A block's time is the number of synchronisations in it so far. A thread stamps its accesses with
 * the time of its own last synchronisation. "Thread T knows what thread S did before time t" is
 * then one number:
 *   __syncthreads  each thread of the block knows all accesses before now (BlockState::full_time)
 *   __syncwarp       the same for a warp                                     (WarpState::full_time)
 *   part of a warp   one number per thread of the block                        (ThreadState::known)
 *   grid.sync        one number per block of the grid (LaunchState::grid_time)
 *   clusters         one number per thread of each block (ClusterKnowledge)
 * Between blocks, and between warps without a barrier, knowledge travels by publication: a fence
 * followed by an atomic or volatile write, seen by an atomic or volatile read of the same address.
 * A publication carries what its thread knew at its fence, and what it had itself seen published. A
 * thread that sees it has glimpsed it (ThreadState::glimpsed). It knows it after a fence of its
 * own, or when its block meets at a barrier: the programming guide's own example (the last block to
 * finish adds up what all wrote) has a barrier there and no fence. */
#include "check/check.h"
#include "run/cluster.h"

namespace simt::check
{

/* Returns the last of an object's first publications that is the block's; null where none is. */
static const Publication *last_of(const SyncObject *object, size_t length, uint32_t block)
{
    const auto own = object->of_block.find(block);
    if (own == object->of_block.end())
        return nullptr;
    const auto after = std::lower_bound(own->second.begin(), own->second.end(), length);
    return after == own->second.begin() ? nullptr : &object->publications[*std::prev(after)];
}

/* Finds a publication by a test, among what was seen and what its publishers had seen. */
template <class Test>
static const Publication *find_seen(const Seen &seen, uint32_t block, const Test &test)
{
    Seen looked_at;
    std::vector<std::pair<const SyncObject *, size_t>> all(seen.begin(), seen.end());
    for (size_t i = 0; i < all.size(); i++) {
        const auto [object, length] = all[i];
        size_t &before = looked_at.length(object);
        if (before >= length)
            continue;
        before = length;
        const Publication *last = last_of(object, length, block);
        if (last && test(*last))
            return last;
        const Seen &more = object->publications[length - 1].all_seen;
        all.insert(all.end(), more.begin(), more.end());
    }
    return nullptr;
}

static const Publication *find_cover(const Seen &seen, const Stamp &stamp)
{
    return find_seen(seen, stamp.block,
                     [&](const Publication &each) { return covers(each.far, stamp); });
}

/* Returns what the thread knows from its cluster's barrier; null before it knows of a phase. */
static const ClusterKnowledge *knowledge(const ThreadState *thread)
{
    const uint32_t phase = known_cluster_phase(thread);
    const ClusterState *state = thread->block->block->cluster->checked;
    return phase == 0 ? nullptr : &state->completed[phase % 2];
}

static Learnt &learnt_by(ThreadState *thread)
{
    if (!thread->learnt)
        thread->learnt = std::make_unique<Learnt>();
    return *thread->learnt;
}

/* Returns whether publications that the thread has seen cover what another block did. */
static bool knows_of_block(ThreadState *thread, const Stamp &earlier)
{
    Learnt &learnt = learnt_by(thread);
    for (const auto &[block, publication] : learnt.found)
        if (block == earlier.block && publication && covers(publication->far, earlier))
            return true;
    std::lock_guard<std::mutex> hold(thread->block->launch->lock);
    const Publication *found = find_cover(thread->seen, earlier);
    if (!found)
        found = find_cover(thread->block->seen, earlier);
    if (found)
        learnt.found[learnt.next++ % 8] = {earlier.block, found};
    return found;
}

bool ordered_before(const Stamp &earlier, ThreadState *thread)
{
    const BlockState *block = thread->block;
    const ClusterKnowledge *known = knowledge(thread);
    const int rank = known ? cluster_rank_of(block, earlier.block) : -1;
    if (rank >= 0 && covers(known->known[rank], earlier))
        return true;
    if (earlier.block == block->number) {
        unsigned number = earlier.thread();
        return number == thread->number || earlier.time < block->full_time ||
               (number / warp_size == thread->warp->warp->number &&
                earlier.time < thread->warp->full_time) ||
               covers(thread->known, earlier);
    }
    LaunchState *launch = block->launch;
    if (!block->grid_known.empty() &&
        earlier.time < block->grid_known[earlier.block - launch->first_block])
        return true;
    return (!thread->seen.empty() || !block->seen.empty()) && knows_of_block(thread, earlier);
}

bool would_be_ordered_by_fence(const Stamp &earlier, const ThreadState *thread)
{
    std::lock_guard<std::mutex> hold(thread->block->launch->lock);
    return earlier.block == thread->block->number
               ? thread->learnt && covers(thread->learnt->near, earlier)
               : find_cover(thread->glimpsed, earlier) != nullptr;
}

bool would_be_ordered_by_wider_fence(const Stamp &earlier, const ThreadState *thread)
{
    const auto covers_near = [&](const Publication &each) { return covers(each.near, earlier); };
    std::lock_guard<std::mutex> hold(thread->block->launch->lock);
    const Seen *const all[] = {&thread->glimpsed, &thread->seen, &thread->block->seen};
    for (const Seen *seen : all)
        if (find_seen(*seen, earlier.block, covers_near))
            return true;
    return false;
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

static void join(Times &into, const Times &from)
{
    if (into.size() < from.size())
        into.resize(from.size());
    for (size_t i = 0; i < from.size(); i++)
        into[i] = std::max(into[i], from[i]);
}

static void join(Seen &into, const Seen &from)
{
    for (const auto &[object, length] : from)
        into.length(object) = std::max(into.length(object), length);
}

/* From here on the thread knows what it has glimpsed, of its own block and of what that knew. */
static void confirm_near(ThreadState *thread)
{
    if (!thread->learnt || (thread->learnt->near.empty() && thread->learnt->near_seen.empty()))
        return;
    join(thread->seen, std::exchange(thread->learnt->near_seen, {}));
    join(thread->known, std::exchange(thread->learnt->near, {}));
    thread->block->partial = true;
    learnt(thread->warp);
}

/* The same of everything. */
static void confirm(ThreadState *thread)
{
    confirm_near(thread);
    join(thread->seen, thread->glimpsed);
    thread->glimpsed.clear();
}

/* Returns what the thread knows of its block, by thread: what all did before `block_time`, its
 * warp before `warp_time`, itself before `own_time`, and what else it learnt. */
static Times known_as_of(const ThreadState *thread, uint32_t block_time, uint32_t warp_time,
                         uint32_t own_time)
{
    Times known(thread->block->block->threads, block_time);
    const size_t first = thread->number - thread->lane;
    for (size_t i = first; i < std::min(first + warp_size, known.size()); i++)
        known[i] = std::max({block_time, warp_time, i == thread->number ? own_time : 0});
    join(known, thread->known);
    return known;
}

static Times all_known(const ThreadState *thread)
{
    Times known =
        known_as_of(thread, thread->block->full_time, thread->warp->full_time, thread->time + 1);
    if (const ClusterKnowledge *cluster = knowledge(thread))
        join(known, cluster->known[thread->block->block->rank]);
    return known;
}

/* Return the same as of its last fence for the device, or for its block: what it may publish. */
static Times fenced_known(const ThreadState *thread)
{
    return known_as_of(thread, std::max(thread->fence_full, thread->block->clean_full),
                       thread->fence_warp, thread->fence_time);
}
static Times near_known(const ThreadState *thread)
{
    return known_as_of(thread, thread->block->full_time, thread->near_warp, thread->near_time);
}

/* Begins a moment: what the thread does now is not covered by what it published before. */
static void step(ThreadState *thread) { thread->time = ++thread->block->now; }

/* ---- barriers ---- */

void order_barrier(BlockState *block)
{
    /* When all threads that wrote have fenced, each may publish what the block did. */
    bool fenced = block->launch->fenced;
    for (unsigned i = 0; fenced && i < block->block->threads; i++)
        fenced = !block->thread[i].unfenced_write;

    bool learns = block->launch->published || block->glimpses;
    block->full_time = ++block->now;
    begin_moment(block);
    if (fenced)
        block->clean_full = block->full_time;
    for (unsigned i = 0; i < block->block->threads; i++) {
        ThreadState &thread = block->thread[i];
        thread.time = block->now;
        if (fenced)
            thread.published_on = nullptr;
        if (thread.look_at) {
            order_look(&thread);
            learns = true;
        }
        block->cluster_phase = std::max(block->cluster_phase, thread.cluster_phase);
        if (learns) {
            confirm(&thread);
            join(block->seen, thread.seen);
            thread.seen.clear();
        }
        if (block->partial)
            thread.known.clear();
    }
    block->partial = block->glimpses = false;
    block->objects.clear(); /* nothing more can be learned from them */
}

/* The thread may now publish what it, its warp and its block did; if narrow, to its own block. */
static void fenced_now(ThreadState *thread, bool narrow)
{
    thread->near_time = thread->time;
    thread->near_warp = thread->warp->full_time;
    thread->published_on = nullptr;
    if (narrow)
        return;
    thread->fence_time = thread->time;
    thread->fence_full = thread->block->full_time;
    thread->fence_warp = thread->warp->full_time;
}

void order_warp(WarpState *warp, uint32_t lanes)
{
    BlockState *block = warp->block();
    ThreadState *const thread = &block->thread[warp->warp->number * warp_size];
    bool fenced = block->launch->fenced;
    Seen seen, glimpsed;
    uint32_t cluster_phase = 0;
    for (unsigned lane : bits(lanes)) {
        if (thread[lane].look_at)
            order_look(&thread[lane]);
        if (block->glimpses)
            confirm_near(&thread[lane]);
        if (block->launch->published || block->glimpses) {
            join(seen, thread[lane].seen);
            join(glimpsed, thread[lane].glimpsed);
        }
        fenced &= !thread[lane].unfenced_write; /* as at a barrier of the block */
        cluster_phase = std::max(cluster_phase, thread[lane].cluster_phase);
    }
    const bool whole = (warp->warp->alive & ~lanes) == 0;
    if (!whole || block->partial) {
        /* Each lane learns what every other lane knows. */
        Times known;
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
        if (block->launch->published || block->glimpses) {
            thread[lane].seen = seen;
            thread[lane].glimpsed = glimpsed;
        }
        if (fenced)
            fenced_now(&thread[lane], false);
    }
}

/* ---- fences and publications ---- */

void order_fence(ThreadState *thread, bool narrow)
{
    if (thread->look_at)
        order_look(thread);
    narrow ? confirm_near(thread) : confirm(thread);
    thread->block->launch->fenced = true;
    thread->unfenced_write &= narrow;
    step(thread);
    fenced_now(thread, narrow);
}

/* Publishes to all who look; to other blocks if `far` is not empty. The launch's lock is held. */
static void publish(const ThreadState *thread, SyncObject &object, Times far, Times near)
{
    const BlockState *block = thread->block;
    Publication made = {thread->number, std::move(far), std::move(near), {}, {}};
    if (!made.far.empty()) {
        made.seen = thread->seen;
        join(made.seen, block->seen);
        made.all_seen = made.seen;
    }
    const size_t count = object.publications.size();
    if (const Publication *before = last_of(&object, count, block->number))
        join(made.far, before->far);
    if (count > 0)
        join(made.all_seen, object.publications.back().all_seen);
    object.of_block[block->number].push_back(count);
    object.publications.push_back(std::move(made));
    block->launch->published = true;
    for (uint8_t &quiet : block->launch->quiet)
        __atomic_store_n(&quiet, never_quiet, __ATOMIC_RELAXED);
}

void order_atomic(ThreadState *thread, const void *address, bool global, bool writes)
{
    BlockState *block = thread->block;
    /* Only a thread that has something to publish makes an object. */
    const bool far = thread->fence_time > 0 || block->clean_full > 0;
    const bool publishes = writes && block->launch->fenced && (far || thread->near_time > 0);
    if (publishes && global && thread->published_on != address) {
        std::lock_guard<std::mutex> hold(block->launch->lock);
        publish(thread, block->launch->objects[address], far ? fenced_known(thread) : Times(),
                near_known(thread));
        thread->published_on = address;
    } else if (publishes && !global) {
        SyncObject &object = block->objects[address];
        join(object.known, near_known(thread));
        join(object.seen, thread->seen);
    }
    thread->look_at = address;
    thread->look_at_global = global;
}

/* The thread has seen what another of its block published. */
static void glimpse(ThreadState *thread, const Times &near, const Seen &seen)
{
    Learnt &learnt = learnt_by(thread);
    join(learnt.near, near);
    join(learnt.near_seen, seen);
    thread->block->glimpses = true;
}

void order_look(ThreadState *thread)
{
    BlockState *block = thread->block;
    LaunchState *launch = block->launch;
    const void *address = std::exchange(thread->look_at, nullptr);
    if (!thread->look_at_global) {
        const auto found = block->objects.find(address);
        if (found != block->objects.end())
            glimpse(thread, found->second.known, found->second.seen);
        return;
    }
    if (!launch->published)
        return;
    std::lock_guard<std::mutex> hold(launch->lock);
    const auto found = launch->objects.find(address);
    if (found == launch->objects.end())
        return;
    const SyncObject *object = &found->second;
    const size_t from = std::max(thread->seen.length(object), thread->glimpsed.length(object));
    thread->glimpsed.length(object) = object->publications.size();
    /* What other warps of the same block published there is knowledge about this block. */
    const auto own = object->of_block.find(block->number);
    if (own == object->of_block.end())
        return;
    for (auto i = std::lower_bound(own->second.begin(), own->second.end(), from);
         i != own->second.end(); ++i)
        if (const Publication &each = object->publications[*i]; each.thread != thread->number)
            glimpse(thread, each.near, each.seen);
}

void order_release(ThreadState *thread, const void *object, const Block &home)
{
    BlockState *block = thread->block;
    if (home.checked != block) { /* in the cluster */
        std::lock_guard<std::mutex> hold(block->launch->lock);
        publish(thread, block->launch->objects[object], all_known(thread), {});
    } else {
        SyncObject &shared = block->objects[object];
        join(shared.known, all_known(thread));
        shared.cluster_phase = std::max(shared.cluster_phase, known_cluster_phase(thread));
        join(shared.seen, thread->seen);
    }
    step(thread);
}

/* Any thread's fence counts, wherever it lies on the way from a write to a read. */
void order_proxy_fence(ThreadState *thread)
{
    join(thread->block->proxy_fenced, all_known(thread));
    step(thread);
}

void order_acquire(ThreadState *thread, const void *object)
{
    BlockState *block = thread->block;
    if (block->launch->published) {
        std::lock_guard<std::mutex> hold(block->launch->lock);
        const auto far = block->launch->objects.find(object);
        if (far != block->launch->objects.end()) {
            thread->seen.length(&far->second) = far->second.publications.size();
            learnt(thread->warp);
        }
    }
    const auto found = block->objects.find(object);
    if (found == block->objects.end())
        return;
    const SyncObject &shared = found->second;
    join(thread->known, shared.known);
    thread->cluster_phase = std::max(thread->cluster_phase, shared.cluster_phase);
    join(thread->seen, shared.seen);
    learnt(thread->warp);
    block->partial = true;
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
    /* The thread tells about its own block: of others it knows from earlier phases. */
    join(arriving.known[block->block->rank], all_known(thread));
    join(arriving.seen, thread->seen);
    join(arriving.seen, block->seen);
    step(thread);
}

void leave_cluster_barrier(ThreadState *thread)
{
    thread->cluster_phase = uint32_t(thread->thread->cluster_waits);
    join(thread->seen, knowledge(thread)->seen);
    learnt(thread->warp);
}

} /* namespace simt::check */
