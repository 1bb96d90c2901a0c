/*
 * The engine: runs the threads of a block, one after another, on fibers.
 *
 * A fiber runs thread after thread until one of them has to wait. Only then does another fiber take
 * over, so a kernel without barriers never switches. Who runs next is decided by two levels of bit
 * masks (ready warps, ready lanes), in scheduling positions: which warp and lane a position stands
 * for depends on SIMT_ORDER.
 */
#include "run/engine.h"
#include "host/checker.h"
#include "run/builtins.h"
#include "run/cluster.h"
#include "run/fault.h"
#include "run/order.h"
#include "run/scheduling.h"
#include "host/symbols.h"
#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <cstring>
#include <iterator>
#include <link.h>
#include <new>
#include <numeric>
#include <sys/mman.h>
#include <unistd.h>

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

namespace simt
{

__thread Worker *worker;

constexpr size_t stacks_per_mapping = 64;

/* What a worker keeps beside Worker, which the checker knows too. */
struct Engine : Worker {
    Fiber fiber[max_block_threads];
    unsigned fibers; /* that have a stack */
    Fiber *free_fiber[max_block_threads];
    unsigned free_fibers;
    fcontext_t main; /* run_block, while the block runs */
    bool abandoned;
    Cluster alone; /* of a block without others */
    /* the block shape that `storage` is laid out for */
    dim3 shape = dim3(0, 0, 0);
    const std::vector<SharedVariable> *variables; /* the static shared ones of ... */
    const void *variables_of;                     /* ... this kernel */
    Block storage;
};

static Engine &engine()
{
    return *static_cast<Engine *>(worker);
}

/* ---- Fibers ---- */

static void add_stacks(Engine &e)
{
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_t bytes = stacks_per_mapping * stack_bytes;
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        report(*e.block->launch, cudaErrorMemoryAllocation,
               "no memory for the stacks of %u threads", e.block->threads);
        abandon_block();
    }
    for (size_t i = 0; i < stacks_per_mapping && e.fibers < max_block_threads; i++) {
        Fiber &fiber = e.fiber[e.fibers++];
        fiber.stack = static_cast<char *>(memory) + i * stack_bytes;
        mprotect(fiber.stack, page, PROT_NONE); /* if this fails there is only less protection */
        e.free_fiber[e.free_fibers++] = &fiber;
    }
}

static Fiber *take_fiber(Engine &e)
{
    if (e.free_fibers == 0)
        add_stacks(e);
    return e.free_fiber[--e.free_fibers];
}

bool on_fiber_stack(const void *address)
{
    const Engine &e = engine();
    const char *p = static_cast<const char *>(address);
    for (unsigned i = 0; i < e.fibers; i++)
        if (p >= e.fiber[i].stack && p < e.fiber[i].stack + stack_bytes)
            return true;
    return false;
}

/* ---- Scheduling ---- */

/* Threads whose condition has come true become ready. */
static bool poll_conditions(Block &block)
{
    bool any = false;
    for (unsigned w = 0; w < block.warps; w++) {
        for (unsigned lane : bits(block.warp[w].polling)) {
            Thread &thread = block.thread[w * warp_size + lane];
            if (!thread.condition(thread.condition_argument))
                continue;
            block.warp[w].polling &= ~(1u << lane);
            make_ready(thread);
            any = true;
        }
    }
    return any;
}

Thread &wait_for_ready(Block &block)
{
    block.cluster->idle = 0; /* somebody has run just now */
    for (;;) {
        if (!poll_conditions(block) && !(block.carry_out && block.carry_out(block)) &&
            !let_cluster_run(block))
            report_deadlock(block);
        if (block.launch->failed.load(std::memory_order_relaxed))
            abandon_block();
        if (Thread *thread = take_ready(block))
            return *thread;
    }
}

/* ---- Running ---- */

static void run_thread(Block &block, Thread &thread)
{
    thread.wait = Wait::nothing;
    thread.grid_barriers = thread.cluster_arrivals = thread.cluster_waits = 0;
    thread.last_atomic = nullptr;
    block.launch->invoke(block.launch->arguments);
    checker->thread_end(thread);
    thread.fiber = nullptr;
    thread.warp->alive &= ~(1u << thread.lane);
    block.alive--;
    block.cluster->threads--;
    for (auto *after_return : block.after_return)
        if (after_return)
            after_return(thread);
}

/* The body of every fiber: it begins with the thread that was just activated. */
static void fiber_main(transfer_t from)
{
    keep_context(from);
    Engine &e = engine();
    Block &block = *e.block;
    for (;;) {
        Fiber *fiber = e.thread->fiber;
        run_thread(block, *e.thread);
        if (block.alive == 0) {
            e.free_fiber[e.free_fibers++] = fiber;
            jump_fcontext(e.main, nullptr);
            __builtin_unreachable();
        }
        Thread &next = next_thread(block);
        activate(next);
        if (next.fiber) {
            e.free_fiber[e.free_fibers++] = fiber;
            jump_fcontext(next.context, nullptr);
            __builtin_unreachable();
        }
        next.fiber = fiber;
    }
}

void give_fiber(Thread &thread)
{
    Engine &e = engine();
    thread.fiber = take_fiber(e);
    /* Stacks that all begin at the same offset would share few cache sets. */
    size_t stagger = static_cast<size_t>(thread.fiber - e.fiber) % 64 * 64;
    thread.context = make_fcontext(thread.fiber->stack + stack_bytes - stagger,
                                   stack_bytes - stagger, fiber_main);
}

void abandon_block()
{
    engine().abandoned = true;
    jump_fcontext(engine().main, nullptr);
    __builtin_unreachable();
}

/* ---- Blocks ---- */

/* What depends on the block's shape only, so that a launch of many blocks does it once per
 * worker. */
static void lay_out(Engine &e, dim3 shape)
{
    Block &block = e.storage;
    if (e.shape.x == shape.x && e.shape.y == shape.y && e.shape.z == shape.z)
        return;
    e.shape = shape;
    block.threads = shape.x * shape.y * shape.z;
    block.warps = (block.threads + warp_size - 1) / warp_size;
    for (unsigned t = 0; t < block.threads; t++) {
        Thread &thread = block.thread[t];
        thread.index = uint3{t % shape.x, t / shape.x % shape.y, t / shape.x / shape.y};
        thread.linear = t;
        thread.lane = static_cast<unsigned char>(t % warp_size);
        thread.warp = &block.warp[t / warp_size];
        thread.fiber = nullptr;
    }
    for (unsigned w = 0; w < block.warps; w++) {
        unsigned lanes = std::min(warp_size, block.threads - w * warp_size);
        block.warp[w].block = &block;
        block.warp[w].number = w;
        block.warp[w].present = ~0u >> (warp_size - lanes);
    }
}

static void put_in_order(unsigned char *at, unsigned char *position, unsigned count,
                         const Order &order, uint64_t salt)
{
    std::iota(at, at + count, static_cast<unsigned char>(0));
    if (order.kind == Order::reversed)
        std::reverse(at, at + count);
    else if (order.kind == Order::random)
        shuffle(at, count, order.seed + salt);
    for (unsigned i = 0; i < count; i++)
        position[at[i]] = static_cast<unsigned char>(i);
}

static void prepare(Engine &e, Launch &launch, unsigned long long linear)
{
    Block &block = e.storage;
    lay_out(e, launch.block);
    block.launch = &launch;
    block.linear = linear;
    block.index = uint3{static_cast<unsigned>(linear % launch.grid.x),
                        static_cast<unsigned>(linear / launch.grid.x % launch.grid.y),
                        static_cast<unsigned>(linear / launch.grid.x / launch.grid.y)};
    block.alive = block.threads;
    block.barriers = block.grid_barriers = 0;
    std::fill(std::begin(block.after_return), std::end(block.after_return), nullptr);
    block.carry_out = nullptr;
    block.finish = nullptr;
    block.work = nullptr;
    join_cluster(block, e.alone);
    std::fill(std::begin(block.barrier), std::end(block.barrier), Barrier());
    put_in_order(block.warp_at, block.warp_position, block.warps, launch.order, 2 * linear);
    put_in_order(block.lane_at, block.lane_position, warp_size, launch.order, 2 * linear + 1);
    block.ready_warps = ~0u >> (max_warps - block.warps);
    block.warp_cursor = max_warps - 1;
    for (unsigned w = 0; w < block.warps; w++) {
        Warp &warp = block.warp[w];
        warp.alive = warp.present;
        warp.ready = 0;
        for (unsigned lane : bits(warp.present))
            warp.ready |= 1u << block.lane_position[lane];
        warp.at_barrier = warp.polling = warp.gathering = 0;
        warp.meetings = 0;
    }
}

/* 0x7fff, again and again: NaN for types of two, four and eight bytes. */
static void fill_with_nan(char *begin, size_t bytes)
{
    uint16_t *half = reinterpret_cast<uint16_t *>(begin);
    std::fill(half, half + bytes / 2, uint16_t{0x7fff});
    memset(begin + bytes / 2 * 2, 0x7f, bytes % 2);
}

/*
 * Shared memory begins as NaN, whatever the type: what was there before, or zeros, would hide a
 * missing store. Not as the NaN of new device memory, all ones, so that it is known where a NaN in
 * the result comes from.
 */
static void poison_shared_memory(Engine &e, const Launch &launch)
{
    if (!e.variables || e.variables_of != launch.entry) {
        e.variables = &shared_variables(launch.entry);
        e.variables_of = launch.entry;
    }
    for (const SharedVariable &variable : *e.variables)
        fill_with_nan(e.shared_begin + variable.offset, variable.bytes);
    fill_with_nan(e.dynamic_begin - dynamic_shared_offset,
                  dynamic_shared_offset + launch.dynamic_shared);
}

/* An abandoned block leaves fibers in the middle of threads: they are all taken back. */
static void take_back_fibers(Engine &e)
{
    e.abandoned = false;
    for (unsigned t = 0; t < e.storage.threads; t++)
        e.storage.thread[t].fiber = nullptr;
    e.free_fibers = 0;
    for (unsigned i = 0; i < e.fibers; i++)
        e.free_fiber[e.free_fibers++] = &e.fiber[i];
}

void run_block(Launch &launch, unsigned long long linear)
{
    Engine &e = engine();
    prepare(e, launch, linear);
    Block &block = e.storage;
    e.block = &block;
    e.dynamic_begin = simt_dynamic_shared;
    e.dynamic_end = e.dynamic_begin + launch.dynamic_shared;
    poison_shared_memory(e, launch);
    set_block_index(block.index, launch.block, launch.grid);
    checker->block_begin(block);

    if (enter_cluster(block)) {
        Thread &first = *take_ready(block);
        first.fiber = take_fiber(e);
        activate(first);
        fcontext_t start = make_fcontext(first.fiber->stack + stack_bytes, stack_bytes, fiber_main);
        jump_fcontext(start,
                      /* comes back when the last thread has returned, or from abandon_block */
                      &e.main);
    } else {
        e.abandoned = true;
    }

    e.thread = nullptr;
    if (e.abandoned)
        take_back_fibers(e);
    else if (block.finish)
        block.finish(block);
    checker->block_end(block);
    leave_cluster(block);
    e.block = nullptr;
}

/* ---- Workers ---- */

/* The program's thread-local variables, among them all static __shared__ ones, as the calling OS
 * thread has them. */
static int find_shared_variables(struct dl_phdr_info *info, size_t, void *argument)
{
    Worker &w = *static_cast<Worker *>(argument);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_TLS)
            continue;
        w.shared_begin = static_cast<char *>(info->dlpi_tls_data);
        w.shared_end = w.shared_begin + info->dlpi_phdr[i].p_memsz;
    }
    return 1; /* the program itself comes first; its libraries do not matter */
}

void become_worker()
{
    Engine *e = new Engine();
    worker = e;
    dl_iterate_phdr(find_shared_variables, static_cast<Worker *>(e));
    e->dynamic_begin = e->dynamic_end = simt_dynamic_shared;
    catch_faults_on_this_thread();
}

} /* namespace simt */
