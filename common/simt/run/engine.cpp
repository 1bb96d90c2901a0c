/* The engine runs the threads of a block on fibers, as README.md says. Two levels of bit masks
 * (ready warps, ready lanes), in SIMT_ORDER's scheduling positions, say who runs next. */
#include "run/cluster.h"
#include "run/scheduling.h"
#include <algorithm>
#include <link.h>
#include <numeric>

using namespace simt;

__thread Worker *simt::worker;
__thread Thread *simt::current_thread;

/* ---- What kernels see of the block that an OS thread runs ---- */

__thread Index simt::thread_index __asm__("threadIdx");
__thread uint3 simt::block_index __asm__("blockIdx");
__thread dim3 simt::block_shape __asm__("blockDim") = {0, 0, 0};
__thread dim3 simt::grid_shape __asm__("gridDim");

bool simt::is_builtin(const void *address)
{
    const auto inside = [=](const auto &variable) {
        return uintptr_t(address) - uintptr_t(&variable) < sizeof(uint3);
    };
    return inside(thread_index) || inside(block_index) || inside(block_shape) || inside(grid_shape);
}

constexpr unsigned stacks_at_a_time = 64;

/* A worker keeps this beside Worker, which the checker also knows. */
struct Engine : Worker {
    unsigned usable_stacks;
    unsigned short free_stack[max_block_threads];
    unsigned free_stacks;
    simt_context main;            /* of run_block, while the block runs */
    std::optional<Cluster> alone; /* of a block without others */
    unsigned long long launch;    /* the number of its last launch */
    char signal_stack[64 << 10];  /* for faults, because the thread's own stack may be full */
    Block storage;
};

static Engine &engine() { return *static_cast<Engine *>(worker); }

bool simt::on_thread_stack(const void *address)
{
    return worker && size_t(static_cast<const char *>(address) - worker->stacks) <
                         max_block_threads * worker->stack_stride;
}

bool simt::on_own_stack(const void *address)
{
    if (!current_thread)
        return false;
    const unsigned stack = current_thread->stack; /* 0 as soon as the thread has returned */
    const char *end = worker->stacks + stack * worker->stack_stride;
    return stack && size_t(end - static_cast<const char *>(address)) <= stack_bytes;
}

/* Returns where a stack begins. From one same offset all would share few sets of the caches. */
static void *top_of(const Engine &e, unsigned short stack)
{
    return e.stacks + stack * e.stack_stride - stack % 64 * 64;
}

void simt::wait_until(Borrowed<bool> holds, Site site, Borrowed<std::string> name, Wait kind)
{
    if (holds())
        return;
    const Condition condition = {holds, name};
    Thread &thread = *current_thread;
    thread.site = site;
    thread.wait = kind;
    thread.condition = &condition;
    thread.warp->polling |= 1u << thread.lane;
    suspend(thread);
}

static bool poll_conditions(Block &block)
{
    bool any = false;
    for (unsigned w = 0; w < block.warps; w++) {
        for (unsigned lane : bits(block.warp[w].polling)) {
            Thread &thread = block.thread[w * warp_size + lane];
            if (!thread.condition->holds())
                continue;
            block.warp[w].polling &= ~(1u << lane);
            make_ready(thread);
            any = true;
        }
    }
    return any;
}

bool simt::let_waiters_go_on(Block &block)
{
    return poll_conditions(block) || (block.carry_out && block.carry_out(block));
}

unsigned simt::wait_for_ready(Block &block)
{
    block.cluster->idle = 0; /* a fiber has run just now */
    for (;;) {
        if (!(block.open_barrier && block.open_barrier(block)) && !let_waiters_go_on(block) &&
            !let_cluster_run(block))
            report_deadlock(block);
        if (is_stopped(block))
            abandon_block();
        if (find_ready(block))
            return take_lane(block, *block.running);
    }
}

uint64_t simt::leave_idle_block(Block &block, Thread &self)
{
    const unsigned lane = wait_for_ready(block);
    return switch_to(*block.running, lane, self);
}

/* A fiber calls this next. */
struct Step {
    void (*function)(void *);
    void *argument;
};

static void resume(void *context) { simt_resume(static_cast<const simt_context *>(context)); }

static inline Step first_step(const Block &block)
{
    return Step{block.launch->invoke, block.launch->arguments};
}

/* The running thread has returned. Another one begins on its stack, or continues on its own. */
static inline Step next_step(Engine &e, Block &block)
{
    Thread &thread = *current_thread;
    Warp &warp = *block.running;
    warp.alive &= ~(1u << thread.lane);
    if (checker->armed)
        checker->thread_end(thread);
    else
        warp.missed = warp.alive;
    const unsigned short stack = thread.stack;
    thread.stack = 0;
    block.alive--;
    block.cluster->threads--;
    for (auto *after_return : block.after_return)
        if (after_return)
            after_return(thread);
    if (block.alive == 0) {
        e.free_stack[e.free_stacks++] = stack;
        return Step{resume, &e.main};
    }
    /* This may change block.running. */
    const unsigned lane =
        find_ready(block) ? take_lane(block, *block.running) : wait_for_ready(block);
    Thread &next = activate(*block.running, lane);
    if (next.stack) {
        __builtin_prefetch((&next)[2].context.stack);
        e.free_stack[e.free_stacks++] = stack;
        return Step{resume, &next.context};
    }
    next.stack = stack;
    return first_step(block);
}

/* This is the body of every fiber. It starts threads and resumes others by one call instruction, so
 * the processor's predictor remembers the place to which the kernel of a resumed thread returns. */
static void fiber_main()
{
    Engine &e = engine();
    Block &block = *e.block;
    Step step = first_step(block);
    for (;;) {
        step.function(step.argument);
        step = next_step(e, block);
    }
}

/* No stack is left. The function is separate, so that begin() itself calls nothing that returns. */
__attribute__((noinline)) static uint64_t begin_on_new_stack(Thread &thread, simt_context *from)
{
    Engine &e = engine();
    if (!prepare_stacks(e.stacks, e.usable_stacks, stacks_at_a_time)) {
        report(*e.block->launch, cudaErrorMemoryAllocation,
               "no memory for the stacks of a block of %u threads: each may use %zu KB, and the "
               "system's limit is reached; a smaller SIMT_WORKERS needs less",
               e.block->threads, stack_bytes >> 10);
        if (from == &e.main) /* no thread has begun, so there is nothing to come back from */
            return 0;
        abandon_block();
    }
    for (unsigned i = 0; i < stacks_at_a_time; i++)
        e.free_stack[e.free_stacks++] = uint16_t(++e.usable_stacks);
    return begin(thread, from);
}

uint64_t simt::begin(Thread &thread, simt_context *from)
{
    Engine &e = engine();
    if (e.free_stacks == 0)
        return begin_on_new_stack(thread, from);
    thread.stack = e.free_stack[--e.free_stacks];
    return simt_switch_to_new(from, top_of(e, thread.stack), fiber_main);
}

void simt::abandon_block()
{
    simt_resume(&engine().main);
    __builtin_unreachable();
}

/* This depends only on the block's shape: a worker does it once for many blocks. */
static void lay_out(Engine &e, const Launch &launch)
{
    Block &block = e.storage;
    const dim3 &shape = launch.block;
    if (!memcmp(&block_shape, &shape, sizeof shape))
        return;
    block_shape = shape;
    block.threads = launch.threads;
    block.warps = (block.threads + warp_size - 1) / warp_size;
    for (unsigned t = 0; t < block.threads; t++) {
        Thread &thread = block.thread[t];
        thread.index = Index{t % shape.x, t / shape.x % shape.y, t / shape.x / shape.y};
        thread.stack = 0;
        thread.linear = uint16_t(t);
        thread.lane = uint8_t(t % warp_size);
        thread.warp = &block.warp[t / warp_size];
    }
    for (unsigned w = 0; w < block.warps; w++) {
        unsigned lanes = std::min(warp_size, block.threads - w * warp_size);
        block.warp[w].block = &block;
        block.warp[w].thread = &block.thread[w * warp_size];
        block.warp[w].number = w;
        block.warp[w].present = ~0u >> (warp_size - lanes);
    }
}

static void prepare(Engine &e, Launch &launch, unsigned long long turn)
{
    Block &block = e.storage;
    /* Threads that come to no barrier of a cluster keep out of the cache. */
    if (block.after_return[cluster_after_return])
        for (unsigned t = 0; t < block.threads; t++)
            block.thread[t].cluster_arrivals = block.thread[t].cluster_waits = 0;
    lay_out(e, launch);
    block.launch = &launch;
    block.turn = turn;
    const auto [x, y, z] = block.index = launched_in_turn(launch, turn);
    block.linear = x + launch.grid.x * (y + 1ull * launch.grid.y * z);
    block.alive = block.threads;
    join_cluster(block, turn, e.alone);
    static_cast<BlockProgress &>(block) = BlockProgress();
    if (e.launch != launch.number || launch.order.kind == Order::random) {
        put_in_order(block.warp_at, block.warps, launch.order, 2 * block.linear);
        put_in_order(block.lane_at, warp_size, launch.order, 2 * block.linear + 1);
        for (unsigned w = 0; w < block.warps; w++)
            block.warp_position[block.warp_at[w]] = uint8_t(w);
        for (unsigned l = 0; l < warp_size; l++)
            block.lane_position[block.lane_at[l]] = uint8_t(l);
        e.launch = launch.number; /* its other blocks take the same order */
    }
    block.ready_warps = ~0u >> (max_warps - block.warps);
    block.warp_cursor = 0;
    block.lane_cursor = last_lane;
    block.running = &block.warp[block.warp_at[0]];
    for (unsigned w = 0; w < block.warps; w++) {
        Warp &warp = block.warp[w];
        warp.alive = warp.missed = warp.present;
        warp.ready = in_positions(block, warp.present);
        warp.at_barrier = warp.polling = warp.gathering = 0;
        warp.resume_after = last_lane;
        warp.meetings = 0;
    }
}

/* The pattern is 0x7fff, repeated: NaN for types of two, four and eight bytes. */
static void fill_with_nan(char *begin, size_t bytes)
{
    uint16_t *half = reinterpret_cast<uint16_t *>(begin);
    std::fill(half, half + bytes / 2, uint16_t{0x7fff});
    memset(begin + bytes / 2 * 2, 0x7f, bytes % 2);
}

/* Shared memory begins as NaN of any type: old contents or zeros would hide a missing store. It
 * is not device memory's NaN, so that a NaN in the result says where it is from. */
static void poison_shared_memory(Engine &e, const Launch &launch)
{
    for (const SharedVariable &variable : launch.function.shared)
        fill_with_nan(e.shared_begin + variable.offset, variable.bytes);
    fill_with_nan(e.dynamic_begin - dynamic_shared_offset,
                  dynamic_shared_offset + launch.dynamic_shared);
}

/* An abandoned block leaves threads unfinished: all their stacks are taken back. */
static void take_back_stacks(Engine &e)
{
    for (unsigned t = 0; t < e.storage.threads; t++)
        e.storage.thread[t].stack = 0;
    e.free_stacks = e.usable_stacks;
    std::iota(e.free_stack, e.free_stack + e.free_stacks, uint16_t(1));
}

void simt::run_block(Launch &launch, unsigned long long turn)
{
    Engine &e = engine();
    prepare(e, launch, turn);
    Block &block = e.storage;
    e.block = &block;
    e.dynamic_begin = simt_dynamic_shared;
    e.dynamic_end = e.dynamic_begin + launch.dynamic_shared;
    poison_shared_memory(e, launch);
    block_index = block.index;
    grid_shape = launch.grid;
    checker->block_begin(block);

    /* begin() comes back when the last thread has returned, or from abandon_block() */
    if (enter_cluster(block))
        begin(activate(*block.running, take_lane(block, *block.running)), &e.main);
    current_thread = nullptr;
    if (block.alive)
        take_back_stacks(e);
    else if (block.finish)
        block.finish(block);
    checker->block_end(block);
    leave_cluster(block);
    e.block = nullptr;
}

void simt::become_worker(char *stacks)
{
    Engine *e = new Engine();
    e->stacks = stacks;
    e->stack_stride = stack_stride();
    worker = e;
    /* These are its thread-local variables, including all static __shared__ ones. */
    const auto find = [](struct dl_phdr_info *info, size_t, void *) {
        worker->shared_begin = static_cast<char *>(info->dlpi_tls_data);
        for (int i = 0; i < info->dlpi_phnum; i++)
            if (info->dlpi_phdr[i].p_type == PT_TLS)
                worker->shared_end = worker->shared_begin + info->dlpi_phdr[i].p_memsz;
        return 1; /* the program itself comes first; its libraries do not matter */
    };
    dl_iterate_phdr(find, nullptr);
    e->dynamic_begin = e->dynamic_end = simt_dynamic_shared;
    const stack_t stack = {e->signal_stack, 0, sizeof e->signal_stack};
    sigaltstack(&stack, nullptr);
}

/* This is the largest that a launch can ask for. */
extern "C" {
__thread char simt_dynamic_memory[dynamic_shared_offset + max_shared_per_block]
    __attribute__((aligned(1024)));
}
__asm__(".globl simt_dynamic_shared\n"
        ".set simt_dynamic_shared, simt_dynamic_memory + 16\n"
        ".type simt_dynamic_shared, @tls_object\n");
static_assert(dynamic_shared_offset == 16, "as it says above");

char *simt_aligned_dynamic_shared(void)
{
    Worker &w = *worker;
    if (w.dynamic_begin != simt_dynamic_memory) {
        w.dynamic_end -= w.dynamic_begin - simt_dynamic_memory;
        w.dynamic_begin = simt_dynamic_memory;
    }
    return simt_dynamic_memory;
}
