/* What the runtime tells the checker: see checker.h. */
#include "check/check.h"

#include <sched.h>

namespace simt
{
namespace checker
{

const char *const build_name = "check";
const bool returned_threads_must_arrive = true;

void (*launch_listener)(const Launch &launch, const struct counters &counted);
void (*report_listener)(const char *text);

static std::mutex totals_lock;
static struct counters totals;

static BlockState *state_of(const Block &block)
{
    return static_cast<BlockState *>(block.checker);
}

/* -------------------------------------------------------------------------------------------------
 * launches */

void launch_begin(Launch &launch)
{
    static uint32_t next_block = 1, launches = 0;
    add_program_variables();
    LaunchState *state = new LaunchState();
    state->launch = &launch;
    state->number = ++launches & 0x7fffffff;
    if (launch.blocks > UINT32_MAX - next_block) {
        forget_shadows();
        next_block = 1;
    }
    state->first_block = next_block;
    next_block += static_cast<uint32_t>(launch.blocks);
    if (launch.cooperative)
        state->grid_time.assign(launch.blocks, 0);
    launch.checker = state;
}

void launch_end(Launch &launch)
{
    LaunchState *state = static_cast<LaunchState *>(launch.checker);
    state->counted.launches = 1;
    {
        std::lock_guard<std::mutex> hold(totals_lock);
        add_counters(&totals, state->counted);
    }
    if (launch_listener)
        launch_listener(launch, state->counted);
    launch.checker = nullptr;
    delete state;
}

/* -------------------------------------------------------------------------------------------------
 * blocks */

static BlockState *new_state()
{
    BlockState *state = new BlockState();
    shadow_reserve(state->shared, worker->shared_begin,
                   static_cast<size_t>(worker->shared_end - worker->shared_begin));
    worker->checker = state;
    return state;
}

void block_begin(Block &block)
{
    BlockState *state = worker->checker ? static_cast<BlockState *>(worker->checker) : new_state();
    block.checker = state;
    state->block = &block;
    state->launch = static_cast<LaunchState *>(block.launch->checker);
    state->number = state->launch->first_block + static_cast<uint32_t>(block.linear);
    if (state->places_launch != block.launch->number) {
        /* Numbers start afresh with each launch, so that the tables of a warp stay as short as its
         * kernel. */
        state->places_launch = block.launch->number;
        forget_places(state);
    }
    state->overwrites.clear();
    state->uninitialised.thread = nullptr;
    state->counted = {};
    for (unsigned i = 0; i < block.warps; i++) {
        state->warp[i].warp = &block.warp[i];
        state->warp[i].first_round = ++state->warp[i].round;
    }
    for (unsigned i = 0; i < block.threads; i++) {
        ThreadState &thread = state->thread[i];
        thread.block = state;
        thread.thread = &block.thread[i];
        thread.warp = &state->warp[i / warp_size];
        thread.number = i;
        thread.lane = i % warp_size;
        block.thread[i].checker = &thread;
    }
    state->engine.block = state;
    order_block_begin(state);
}

void block_end(Block &block)
{
    BlockState *state = state_of(block);
    let_go(state); /* a signal ended the block in the middle of something */
    for (unsigned i = 0; i < block.warps; i++)
        close_round(state, &state->warp[i]);
    std::lock_guard<std::mutex> hold(state->launch->lock);
    add_counters(&state->launch->counted, state->counted);
}

void thread_end(Thread &thread)
{
    BlockState *state = static_cast<ThreadState *>(thread.checker)->block;
    settle_overwrites(state);
    if (state->block->alive == 1) { /* the last one */
        settle_uninitialised(state);
        settle_visits(state);
    }
}

/* -------------------------------------------------------------------------------------------------
 * synchronisations */

static void block_came_together(BlockState *state)
{
    settle_overwrites(state);
    settle_uninitialised(state);
    state->counted.barriers++;
    for (unsigned i = 0; i < state->block->warps; i++)
        close_round(state, &state->warp[i]);
}

void barrier_completed(Block &block)
{
    block_came_together(state_of(block));
    order_barrier(state_of(block));
}

void named_barrier_completed(Block &block, unsigned)
{
    state_of(block)->counted.barriers++;
}

void grid_arrived(Block &block)
{
    block_came_together(state_of(block));
    order_grid_arrived(state_of(block));
}

void grid_synchronised(Block &block)
{
    order_grid_left(state_of(block));
}

void warp_met(Warp &warp, uint32_t mask, uint32_t lanes, const char *, bool orders_memory)
{
    BlockState *state = state_of(*warp.block);
    WarpState *warp_state = &state->warp[warp.number];
    settle_overwrites(state);
    /* By the mask, not by who is left: which lanes have returned by now depends on the order in
     * which they ran. */
    if ((mask & warp.present) == warp.present)
        close_round(state, warp_state);
    if (orders_memory)
        order_warp(state, warp_state, lanes);
}

void released(const void *object)
{
    BlockState *state = current_block_state();
    settle_overwrites(state);
    order_release(current_thread_state(state), object);
}

void acquired(const void *object)
{
    BlockState *state = current_block_state();
    order_acquire(current_thread_state(state), object);
}

void thread_fence(const void *)
{
    BlockState *state = current_block_state();
    settle_overwrites(state);
    order_fence(current_thread_state(state));
}

/* -------------------------------------------------------------------------------------------------
 * accesses */

/*
 * What the shadow and the publications say of an atomic operation must be in the order in which the
 * operations are made, or the last block to count itself would not be the last that we know of. So
 * from its announcement to its end an operation holds a lock, which it shares with some other
 * addresses.
 */
static void hold(BlockState *block, const void *address)
{
    static std::atomic_flag locks[256];
    std::atomic_flag &lock = locks[reinterpret_cast<uintptr_t>(address) / 8 % 256];
    for (unsigned tries = 1; lock.test_and_set(std::memory_order_acquire); tries++)
        if (tries % 64 == 0)
            sched_yield();
    block->held = &lock;
}

void let_go(BlockState *block)
{
    if (block->held)
        block->held->clear(std::memory_order_release);
    block->held = nullptr;
}

void atomic_done()
{
    let_go(current_block_state());
}

void atomic_access(const void *address, size_t bytes, bool reads, bool writes, const void *where)
{
    BlockState *state = current_block_state();
    if (writes || !polls(current_thread_state(state), address))
        state->counted.atomics++;
    hold(state, address);
    on_access(address, static_cast<unsigned>(bytes),
              !writes ? atomic_read
              : reads ? atomic_update
                      : atomic_write,
              where);
}

void access(const void *address, size_t bytes, bool writes, const void *where)
{
    on_range(address, bytes, writes ? plain_write : plain_read, where);
}

/* -------------------------------------------------------------------------------------------------
 * memory */

void allocated(Allocation &allocation)
{
    allocation.checker = add_region(allocation.begin, allocation.bytes, &allocation);
}

void freed(Allocation &allocation)
{
    Region *region = static_cast<Region *>(allocation.checker);
    region->freed = true;
    region->open_end =
        region->open_begin; /* every access gets its second look, which sees that it is freed */
    shadow_release(region->shadow);
}

void fenced(const void *begin, size_t bytes)
{
    add_fence(begin, bytes);
}

/* Copies by the host are ordered with all kernels, and the runtime checks their bounds. */
void host_wrote(const void *, size_t)
{
}

void host_read(const void *, size_t)
{
}

void device_reset()
{
}

void reported(const char *text)
{
    if (report_listener)
        report_listener(text);
}

/* -------------------------------------------------------------------------------------------------
 * counters */

bool counters(struct ::counters *total)
{
    std::lock_guard<std::mutex> hold(totals_lock);
    *total = totals;
    return true;
}

void counters_reset()
{
    std::lock_guard<std::mutex> hold(totals_lock);
    totals = {};
}

} /* namespace checker */
} /* namespace simt */
