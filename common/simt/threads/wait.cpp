/* Conditions that a thread waits for, and whoever else may run meanwhile. */
#include "threads/wait.h"
#include "run/cluster.h"
#include "run/pool.h"
#include "run/scheduling.h"
#include <algorithm>
#include <chrono>
#include <thread>

namespace simt
{

void wait_for(simt_condition *condition, void *argument, const Call &call, Wait kind)
{
    if (condition(argument))
        return;
    Thread &thread = self();
    thread.fiber->wait = kind;
    thread.condition = condition;
    thread.condition_argument = argument;
    thread.call = &call;
    thread.warp->polling |= 1u << thread.lane;
    suspend(thread);
}

} /* namespace simt */

using namespace simt;

extern "C" void simt_wait(simt_condition *condition, void *argument, const char *what, Site site)
{
    wait_for(condition, argument, Call{what, site, true});
}

/*
 * What a block waits for must come from another one, on another OS thread. When it does not come
 * soon, there may be many more of those than cores: the more of them sleep, the sooner it comes.
 */
static void rest(bool alone)
{
    constexpr unsigned patience = 100, longest = 5000;
    static __thread unsigned in_vain;
    in_vain = alone ? in_vain + 1 : 0;
    if (in_vain > patience)
        std::this_thread::sleep_for(
            std::chrono::microseconds(std::min(10 * (in_vain - patience), longest)));
    else if (alone)
        std::this_thread::yield();
}

/* Other warps first: two lanes of one warp that both poll must not keep the rest from running. */
extern "C" void simt_yield(void)
{
    Thread &thread = self();
    Block &block = *thread.warp->block;
    bool alone = !any_ready(block);
    make_ready(thread);
    next_warp(block);
    suspend(thread);
    rest(alone);
    static __thread unsigned
        yields; /* several threads of the block may poll for another one of its cluster */
    if (alone || ++yields % 64 == 0)
        yield_to_cluster(block);
}

extern "C" void simt_grid_sync(Site site)
{
    Thread &thread = self();
    Block &block = *thread.warp->block;
    if (!block.launch->cooperative)
        simt_fail("grid.sync() at %s:%d in a kernel that was not launched with "
                  "cudaLaunchCooperativeKernel",
                  site.file, site.line);
    simt_syncthreads(site);
    /* the first of the block to come out waits for all */
    if (++thread.grid_barriers > block.grid_barriers) {
        block.grid_barriers++;
        wait_for_grid(block, site);
    }
}

extern "C" int simt_is_cooperative(void)
{
    return worker->block->launch->cooperative;
}
