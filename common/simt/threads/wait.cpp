/* Waiting for other blocks, and for other threads that nothing tells of. */
#include "host/memory.h"
#include "run/cluster.h"
#include "run/scheduling.h"
#include <algorithm>
#include <chrono>
#include <thread>

using namespace simt;

/* Nobody will come when nobody has ever set what is polled. That it is so is only likely: the
 * thread goes on. */
static void tell_of_new_memory(const Block &block)
{
    const auto *word = static_cast<const uint32_t *>(block.atomic_address);
    if (!block.last_atomic || !is_device_range(word, sizeof *word) || *word != UINT32_MAX ||
        block.launch->told_of_waiting.exchange(true))
        return;
    fprintf(stderr, "simt: %s, %s, polls %s; it holds what new memory does: was it ever set?\n",
            kernel_and_line(*block.launch).c_str(), describe(*block.last_atomic).c_str(),
            describe_address(word).c_str());
}

/* What a block waits for whose threads all poll must come from another OS thread. When it does not
 * come soon, there may be many more of those than cores: the more of them sleep, the sooner it
 * comes. Each sleeps, once for a look of all its threads, a part of what it has waited so far. */
static void rest(const Block &block, bool alone, unsigned pollers)
{
    constexpr unsigned patience = 100, longest = 100000; /* looks; microseconds */
    static __thread unsigned in_vain, pause;
    in_vain = alone ? in_vain + 1 : 0;
    if (in_vain <= patience * pollers) {
        pause = 10;
        if (alone)
            std::this_thread::yield();
    } else if (in_vain % pollers == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(pause));
        pause = std::min(pause + pause / 8 + 1, longest);
        if (pause > longest / 10) /* after a second */
            tell_of_new_memory(block);
    }
}

/* Other warps first, then the other lanes: whoever polls must not keep the rest from running. */
void simt_yield(void)
{
    Thread &thread = *current_thread;
    Block &block = *thread.warp->block;
    unsigned ready = 0;
    for (unsigned w = 0; w < block.warps; w++)
        ready += unsigned(__builtin_popcount(block.warp[w].ready));
    const bool alone = ready == block.pollers;
    const unsigned pollers = ++block.pollers;
    make_ready(thread);
    thread.warp->resume_after = block.lane_cursor;
    next_warp(block);
    suspend(thread);
    block.pollers--;
    if (alone)
        checker->polls_in_vain(block);
    rest(block, alone, pollers);
    /* several threads of the block may poll for another one of its cluster */
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
