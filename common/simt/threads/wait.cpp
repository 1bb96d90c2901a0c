/* Threads wait here for other blocks, and for other threads that nothing announces. */
#include "host/memory.h"
#include "run/cluster.h"
#include "run/scheduling.h"
#include <algorithm>
#include <chrono>
#include <thread>

using namespace simt;

/* What new memory holds is no value that a program waits with, as a rule. */
static void report_wait_for_new_memory()
{
    const void *address = worker->block->atomic_address;
    uint32_t value = 0;
    if (address && uintptr_t(address) % sizeof value == 0)
        memcpy(&value, address, sizeof value);
    if (value == 0xffffffff || value == 0x7fff7fff)
        simt_fail(
            "waits for memory that was never written: for seconds atomic operations on %s have "
            "found %#x, which is what new memory holds",
            in_device_arena(address) ? describe_address(address).c_str() : "shared memory", value);
}

/* When all threads of a block poll, what they wait for must come from another OS thread. If it does
 * not come soon, there may be many more OS threads than cores: the more sleep, the sooner it comes.
 * Each sleeps, after a look by each of its threads, for a part of the time that it has waited. */
static void rest(bool alone, unsigned pollers)
{
    constexpr unsigned patience = 100, longest = 100000; /* looks; microseconds */
    constexpr unsigned long long most = 5000000;         /* microseconds */
    static __thread unsigned in_vain, pause;
    static __thread unsigned long long slept;
    in_vain = alone ? in_vain + 1 : 0;
    if (alone && worker->block->launch->failed) /* what it waits for may never come */
        abandon_block();
    if (slept > most)
        report_wait_for_new_memory();
    if (in_vain <= patience * pollers) {
        pause = 10;
        slept = 0;
        if (alone)
            std::this_thread::yield();
    } else if (in_vain % pollers == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(pause));
        slept += pause;
        pause = std::min(pause + pause / 8 + 1, longest);
    }
}

/* Other warps come first, then the other lanes: a poller must not keep the rest from running. */
void simt_yield(void)
{
    Thread &thread = *current_thread;
    Block &block = *thread.warp->block;
    unsigned ready = 0;
    for (unsigned w = 0; w < block.warps; w++)
        ready += unsigned(__builtin_popcount(block.warp[w].ready));
    bool alone = ready == block.pollers;
    if (alone && let_waiters_go_on(block)) /* what this one waits for may be theirs to do */
        alone = false;
    const unsigned pollers = ++block.pollers;
    make_ready(thread);
    thread.warp->resume_after = block.lane_cursor;
    next_warp(block);
    suspend(thread);
    block.pollers--;
    rest(alone, pollers);
    /* Several threads of the block may poll for another block of its cluster. */
    static __thread unsigned yields;
    if (alone || ++yields % 64 == 0)
        yield_to_cluster(block);
}

void simt_grid_sync(Site site)
{
    Block &block = *worker->block;
    if (!block.launch->cooperative)
        simt_fail("grid.sync() at %s:%d in a kernel that was not launched with "
                  "cudaLaunchCooperativeKernel",
                  site.file, site.line);
    simt_syncthreads(site);
    if (block.leaving_grid == 0) { /* the first of the block to come out waits for the others */
        wait_for_grid(block, site);
        block.leaving_grid = block.alive;
    }
    block.leaving_grid--;
}

int simt_is_cooperative(void) { return worker->block->launch->cooperative; }
