/* The runtime calls the checker here (host/checker.h), and this file makes it do so. */
#include "check/check.h"
#include "run/cluster.h"

namespace simt::check
{

void (*launch_listener)(const Launch &launch, const struct counters &counted);

static std::mutex totals_lock;
static struct counters totals;

static BlockState *new_state()
{
    BlockState *state = new BlockState();
    const uintptr_t begin = number_of(worker->shared_begin), end = number_of(worker->shared_end);
    const uintptr_t dynamic = number_of(worker->dynamic_begin);
    shadow_reserve(state->shared, worker->shared_begin, end - begin);
    state->static_before = reach_of(begin, dynamic, state->shared);
    state->dynamic = reach_of(dynamic, dynamic, state->shared);
    state->static_behind = reach_of(dynamic + max_shared_per_block, end, state->shared);
    return worker->checked = state;
}

static void count_barrier(BlockState *state, const char *which, Site site = nowhere, int id = -1)
{
    state->counted.barriers++;
    if (state->trace)
        trace_barrier(state, which, site, id);
}

struct Hooks final : Checker {
    uint32_t restarts = 0; /* how often blocks' numbers have started again from 1 */

    void launch_begin(Launch &launch) override
    {
        static uint32_t next_block = 1, launches = 0;
        add_program_variables();
        if (launch.blocks > UINT32_MAX - next_block) {
            forget_shadows(true);
            restarts++;
            next_block = 1;
        }
        const uint32_t number = ++launches & 0x7fffffff, blocks = uint32_t(launch.blocks);
        LaunchState *state = new LaunchState{&launch, next_block, blocks, number};
        next_block += blocks;
        const uint8_t quiet = uint8_t(launches % last_quiet + 1);
        if (quiet == 1)
            forget_shadows(false);
        state->quiet[0] = state->quiet[1] =
            launch.cooperative || launch.cluster_blocks > 1 ? never_quiet : quiet;
        if (launch.cooperative)
            state->grid_time.assign(launch.blocks, 0);
        state->passes_races = is_ignored("race", kernel_name(launch));
        state->passes_uninitialised = is_ignored("uninitialised", kernel_name(launch));
        state->passes_volatile = is_ignored("volatile", kernel_name(launch));
        state->has_shared = launch.dynamic_shared > 0 || static_shared_bytes(launch.entry) > 0;
        launch.checked = state;
        trace_launch_begin(state);
    }

    void launch_end(Launch &launch) override
    {
        LaunchState *state = launch.checked;
        state->counted.launches = 1;
        for (unsigned long long accesses : state->wave_accesses)
            state->counted.wave_accesses += accesses;
        settle_guesses(state, nullptr);
        for (Region *region : state->freed)
            shadow_release(region->shadow);
        tell_what_passed(state);
        trace_launch_end(state);
        if (launch_listener)
            launch_listener(launch, state->counted);
        launch.checked = nullptr;
        std::lock_guard<std::mutex> hold(totals_lock);
        add_counters(&totals, state->counted);
        delete state;
    }

    void block_begin(Block &block) override
    {
        BlockState *state = worker->checked ? worker->checked : new_state();
        LaunchState *launch = block.launch->checked;
        block.checked = state;
        if (std::exchange(state->restarts, restarts) != restarts)
            shadow_forget(state->shared, true);
        static_cast<BlockHistory &>(*state) = {&block, launch,
                                               launch->first_block + uint32_t(block.linear)};
        if (std::exchange(state->places_launch, launch->number) != launch->number)
            state->places.clear(); /* a warp's tables stay as short as its kernel */
        for (unsigned i = 0; i < block.warps; i++) {
            state->warp[i].warp = &block.warp[i];
            state->warp[i].full_time = 1;
            state->warp[i].asked_for_loads = false;
            state->warp[i].ahead = 0;
            state->warp[i].last_barrier = state->last_barrier;
        }
        for (unsigned i = 0; i < block.threads; i++) {
            WarpState *warp = &state->warp[i / warp_size];
            state->thread[i] = {state, warp, &block.thread[i], i, i % warp_size, 1};
            block.thread[i].checked = &state->thread[i];
            block.thread[i].recent = &warp->recent;
        }
        state->counted.blocks = 1;
        state->counted.threads = block.threads;
        begin_moment(state);
        trace_block_begin(state);
    }

    void block_end(Block &block) override
    {
        BlockState *state = block.checked;
        state->held = {}; /* a signal ended the block while the lock was held */
        for (unsigned i = 0; i < block.warps; i++)
            close_round(&state->warp[i]);
        trace_block_end(state);
        std::lock_guard<std::mutex> hold(state->launch->lock);
        add_block(state->launch, state);
    }

    void thread_end(Thread &thread) override
    {
        BlockState *state = thread.checked->block;
        settle_overwrites(state);
        if (state->block->alive == 1) { /* the last one */
            settle_uninitialised(state);
            settle_guesses(state->launch, state);
            settle_visits(state);
        }
    }

    void barrier_completed(Block &block) override
    {
        BlockState *state = block.checked;
        settle_overwrites(state);
        settle_uninitialised(state);
        state->last_barrier = block.barrier.site;
        for (unsigned i = 0; i < block.warps; i++) {
            close_round(&state->warp[i]);
            state->warp[i].last_barrier = block.barrier.site;
        }
        count_barrier(state, "barrier", block.barrier.site);
        order_barrier(state);
    }

    void named_barrier_completed(Block &block, unsigned id) override
    {
        count_barrier(block.checked, "named_barrier", nowhere, int(id));
    }

    /* The block has met at a barrier of its own just before. */
    void grid_arrived(Block &block) override
    {
        count_barrier(block.checked, "grid_barrier");
        LaunchState *launch = block.launch->checked;
        std::lock_guard<std::mutex> hold(launch->lock);
        launch->grid_time[block.linear] = block.checked->full_time;
    }

    void grid_synchronised(Block &block) override
    {
        LaunchState *launch = block.launch->checked;
        std::lock_guard<std::mutex> hold(launch->lock);
        block.checked->grid_known = launch->grid_time;
    }

    void warp_met(Warp &warp, const Meeting &meeting) override
    {
        BlockState *state = warp.block->checked;
        WarpState *warp_state = &state->warp[warp.number];
        settle_overwrites(state);
        /* The mask decides: which lanes have returned depends on the order in which they ran. */
        if ((meeting.mask & warp.present) == warp.present)
            close_round(warp_state);
        const Site site = warp.thread[__builtin_ctz(meeting.arrived)].site;
        if (state->trace)
            trace_meeting(warp_state, meeting, site);
        if (!meeting.orders_memory)
            return;
        order_warp(warp_state, meeting.arrived);
        warp_state->last_barrier = site;
    }

    /* Returns the running thread, which is doing something other than access memory. */
    static ThreadState *settled_thread()
    {
        ThreadState *thread = current_thread_state();
        settle_overwrites(thread->block);
        return thread;
    }

    void released(const void *object, const Block &home) override
    {
        order_release(settled_thread(), object, home);
    }

    void acquired(const void *object) override { order_acquire(current_thread_state(), object); }

    void thread_fence(int scope) override
    {
        if (!current_thread)
            return;
        ThreadState *thread = settled_thread();
        noted("thread_fence", nullptr, 0, 0, nullptr);
        order_fence(thread, scope >= simt_block);
    }

    void proxy_fence() override
    {
        ThreadState *thread = settled_thread();
        noted("proxy_fence", nullptr, 0, 0, nullptr);
        order_proxy_fence(thread);
    }

    void cluster_arrived(bool relaxed) override { arrive_at_cluster(settled_thread(), relaxed); }

    void cluster_barrier_completed(Cluster &cluster) override
    {
        ClusterState &state = *cluster.checked;
        state.completed[cluster.phase % 2] = state.arriving;
        for (unsigned rank = 0; rank < cluster.blocks; rank++)
            if (!cluster.member[rank].ended)
                count_barrier(cluster.member[rank].block->checked, "cluster_barrier");
    }

    void cluster_waited() override { leave_cluster_barrier(current_thread_state()); }

    void cluster_store(Block &home, const void *address, size_t bytes, const void *where) override
    {
        store_in_cluster(home.checked, number_of(address), unsigned(bytes), plain_write, where);
        noted("cluster_store", address, home.rank, bytes, where);
        count_box(shared_space, true, bytes, 1); /* without passes over the banks */
    }

    void cluster_end(Cluster &cluster) override
    {
        delete cluster.checked;
        cluster.checked = nullptr;
    }

    void atomic_access(const void *address, size_t bytes, AccessKind kind, const void *where,
                       int scope) override
    {
        static const char *const names[] = {"atomic_read", "atomic_write", "", "atomic_update"};
        ThreadState *thread = current_thread_state();
        if (!thread)
            return;
        if (writes(kind) || thread->polled != address) {
            thread->block->counted.atomics++;
            noted(names[kind - atomic_read], address, 0, bytes, where);
        }
        /* The checker must learn of atomic operations in the order in which they are made, or the
         * last block to count itself would not be the last that it knows of. So an operation holds
         * a lock, shared with some other addresses, until its end. */
        static std::mutex locks[256];
        thread->block->held = std::unique_lock<std::mutex>(locks[number_of(address) / 8 % 256]);
        /* It may wait for ever for what it has found there. */
        const Uninitialised &noted = thread->block->uninitialised;
        if (noted.thread == thread && noted.read.address == number_of(address))
            settle_uninitialised(thread->block);
        thread->narrow = scope >= simt_block;
        on_access(address, unsigned(bytes), kind, where);
        thread->narrow = false;
    }

    void atomic_done(const void *compared, size_t bytes) override
    {
        const ThreadState *thread = current_thread_state();
        if (!thread)
            return;
        thread->block->held.unlock();
        if (compared)
            confirm_guesses(thread, number_of(compared), bytes);
    }

    void access(const void *address, size_t bytes, AccessKind kind, const void *where,
                const Block *home) override
    {
        if (!home || home == worker->block)
            on_range(address, bytes, kind, where);
        else
            store_in_cluster(home->checked, number_of(address), unsigned(bytes), kind, where);
    }

    void counted(const void *pointer, size_t bytes, bool writes, const void *where) override
    {
        ThreadState *thread = current_thread_state();
        count_access(thread,
                     find_place(thread->block, where, shared_space, writes, unsigned(bytes)),
                     number_of(pointer), no_reach);
    }

    void added(unsigned long long ::counters::*counter, unsigned long long amount) override
    {
        current_thread_state()->block->counted.*counter += amount;
    }

    unsigned long long shared_loads() override { return shared_loads_of(current_thread_state()); }

    /* One instruction of one thread moves this many bytes in this many sectors or wavefronts. */
    static void count_box(Space space, bool writes, size_t bytes, size_t pieces)
    {
        count_requests(current_thread_state()->block->counted, space, writes, 1, 1, bytes,
                       Moved{pieces, 0, pieces, pieces});
    }

    void copied(const BoxCopy &copy, const void *where) override
    {
        const ThreadState *thread = current_thread_state();
        count_box(global_space, !copy.load, copy.bytes, copy.sectors);
        count_box(shared_space, copy.load, copy.bytes, copy.wavefronts);
        if (thread->block->trace)
            trace_box(thread, copy, where);
    }

    void noted(const char *what, const void *object, unsigned long long value,
               unsigned long long size, const void *where) override
    {
        const ThreadState *thread = current_thread_state();
        if (thread->block->trace)
            trace_note(thread, what, object, value, size, where);
    }

    void described(const void *begin, size_t bytes, const struct description &about) override
    {
        trace_describe(begin, bytes, about);
    }

    void allocated(Allocation &allocation) override
    {
        allocation.checked = add_region(allocation.begin, allocation.bytes, &allocation);
    }

    void freed(Allocation &allocation) override
    {
        Region *region = allocation.checked;
        trace_forget(region);
        /* Every access then gets its second look, which finds the fence. */
        region->end = region->begin;
        region->open.end = region->open.begin;
        shadow_forget(region->shadow, false);
        const ThreadState *thread = current_thread_state();
        if (!thread)
            return shadow_release(region->shadow);
        std::lock_guard<std::mutex> hold(thread->block->launch->lock);
        thread->block->launch->freed.push_back(region);
    }

    void written(const void *begin, size_t bytes) override { add_written(begin, bytes); }
    void fenced(const void *begin, size_t bytes) override { add_fence(begin, bytes); }

    void reported(const char *text) override { trace_report(text); }

    bool counters(struct ::counters *total) override
    {
        std::lock_guard<std::mutex> hold(totals_lock);
        *total = totals;
        return true;
    }

    void counters_reset() override
    {
        std::lock_guard<std::mutex> hold(totals_lock);
        totals = {};
    }
};

} /* namespace simt::check */

/* Each object that was compiled to be watched calls this before main(), which arms the checker. */
extern "C" void __tsan_init(void)
{
    static simt::check::Hooks hooks;
    hooks.armed = true;
    simt::checker = &hooks;
}
