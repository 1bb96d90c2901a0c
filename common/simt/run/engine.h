/* What the files of this room do for each other, and the rooms below. */
#pragma once

#include "run/state.h"
#include <csignal>

namespace simt
{

/* ---- engine.cpp: the threads of one block, on fibers of the calling OS thread ---- */

/* Makes the calling OS thread a worker, able to run blocks on these stacks. Once per OS thread. */
void become_worker(char *stacks);

/* The calling thread waits until holds() is true. Other threads of its block run meanwhile, and may
 * call holds(), which only looks. The report of a wait in vain says name(). */
void wait_until(Borrowed<bool> holds, Site site, Borrowed<std::string> name,
                Wait kind = Wait::condition);

/* Runs the block whose turn it is to its end, or until it is abandoned. */
void run_block(Launch &launch, unsigned long long turn);

/* The running thread; never null in functions that only kernels call. */
inline Thread &self() { return *current_thread; }

/* threadIdx and its relatives, which kernels see as constants. */
extern __thread Index thread_index __asm__("threadIdx") SIMT_OWN;
extern __thread uint3 block_index __asm__("blockIdx") SIMT_OWN;
extern __thread dim3 block_shape __asm__("blockDim") SIMT_OWN;
extern __thread dim3 grid_shape __asm__("gridDim") SIMT_OWN;

/* Whether an address is part of one of them: they lie among the OS thread's shared variables. */
bool is_builtin(const void *address);

/* ---- report.cpp ---- */

/* Says what is wrong and who waits where, fails the launch and gives the block up. */
[[noreturn]] void report_waiting(const Block &block, const char *headline);
/* The same when no thread of the block can go on. */
[[noreturn]] void report_deadlock(const Block &block);

/* A fault_handler: a kernel's fault fails the launch. */
void fail_kernel(int signal, const siginfo_t *info);

/* ---- order.cpp: in which order blocks, warps and lanes run ---- */

/* blockIdx of the block that runs as number `turn`; those of a cluster follow each other. */
uint3 launched_in_turn(const Launch &launch, unsigned long long turn);
/* A number that the seed decides. */
uint64_t scramble(uint64_t seed);
/* 0 to count - 1 as warps, lanes or blocks of a cluster run; if at random, the salt decides too. */
void put_in_order(unsigned char *numbers, unsigned count, const Order &order, uint64_t salt);

/* ---- pool.cpp: the OS threads that run blocks ---- */

/* Runs the blocks of the launch before launch.stop_at. Begins with `workers` OS threads (a
 * cooperative launch: one for each block). When no block ends for a while, it adds more, up to
 * `resident`: running blocks may be waiting for some that have not begun. */
cudaError_t run_on_workers(Launch &launch, unsigned workers, unsigned long long resident,
                           bool traced = false);
/* grid.sync() at `site`, once per block and barrier: its OS thread waits for the others'. */
void wait_for_grid(Block &block, Site site);

/* ---- stacks.cpp: one area of address space per worker ---- */

/* What a thread may use; only the pages that it touches take memory. */
constexpr size_t stack_bytes = 256 << 10;
/* From one stack of an area to the next: the stack and an inaccessible part below it. */
size_t stack_stride();
/* Address space for the stacks of one block, none of them usable yet; null if there is no more. */
char *reserve_stacks();
void release_stacks(char *area);
/* Makes `count` stacks of the area usable, counting from 0; false if there is no memory. */
bool prepare_stacks(char *area, unsigned first, unsigned count);
/* How many blocks of `threads` threads may run at a time before the stacks could take more than
 * half of the memory that the process may use. At least 1. */
unsigned long long affordable_blocks(unsigned threads);

} /* namespace simt */
