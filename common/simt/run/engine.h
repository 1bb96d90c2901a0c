/* The engine runs the threads of one block on fibers of the calling OS thread; see engine.cpp. */
#pragma once

#include "run/state.h"

namespace simt
{

/* Makes the calling OS thread a worker, able to run blocks on these stacks. Once per OS thread. */
void become_worker(char *stacks);

/* Runs the launch's block number `linear` to its end, or until it is abandoned. */
void run_block(Launch &launch, unsigned long long linear);

/* The running thread; never null in functions that only kernels call. */
inline Thread &self() { return *worker->thread; }

/*
 * Each says who waits where, fails the launch and gives the block up: when no thread of it can go
 * on, when not all came to the same barrier, when lanes have returned that a warp operation names.
 */
[[noreturn]] void report_deadlock(Block &block);
[[noreturn]] void report_divergent_barrier(Block &block);
[[noreturn]] void report_incomplete_meeting(const Warp &warp);

} /* namespace simt */
