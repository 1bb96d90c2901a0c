/* The engine runs the threads of one block on fibers of the calling OS thread; see engine.cpp. */
#ifndef SIMT_ENGINE_H
#define SIMT_ENGINE_H

#include "run/internal.h"

namespace simt
{

/* Makes the calling OS thread a worker, able to run blocks on these stacks. Once per OS thread. */
void become_worker(char *stacks);

/* Runs the launch's block number `linear` to its end, or until it is abandoned. */
void run_block(Launch &launch, unsigned long long linear, const Order &order);

/*
 * For operations that block. The caller has noted what it waits for in the thread; suspend returns
 * once somebody called make_ready for it (or at once, if that happened already).
 */
void suspend(Thread &self);
void make_ready(Thread &thread);

/* The running thread; never null in functions that only kernels call. */
inline Thread &self()
{
    return *worker->thread;
}

/* Called by the engine when a thread returned: whoever waited only for it goes on. */
void barriers_after_return(Thread &thread);
void meetings_after_return(Thread &thread);

/* Nobody in the block can go on: says who waits where, fails the launch and gives the block up. */
[[noreturn]] void report_deadlock(Block &block);

} /* namespace simt */

#endif
