/* This has the pool of workers, and the barrier between the blocks of a cooperative launch. */
#include "run/cluster.h"
#include "host/errors.h"
#include <algorithm>
#include <chrono>
#include <pthread.h>

using namespace simt;

/* When no block ends for so long, more begin. No trace may depend on how busy the machine is. */
constexpr std::chrono::milliseconds stall(50), stall_of_a_trace(3000);
/* This is address space; it also holds the thread-local variables. */
constexpr size_t worker_stack_bytes = 16 << 20;

struct Pool {
    std::mutex mutex;
    std::condition_variable wake, idle;
    Launch *launch;
    unsigned long long generation; /* launches so far */
    unsigned wanted;               /* workers that may take part */
    unsigned working;              /* workers that do */
    unsigned threads;              /* workers that exist, ... */
    unsigned ready;                /* ... and those of them that have a number */

    /* These belong to the grid barrier. */
    std::condition_variable grid_wake;
    unsigned long long grid_arrived, grid_passed;
};

/* The pool is never destroyed, because workers may be waiting on it while the program ends. */
static Pool *pool;

/* A child process has the memory of its parent, but not its threads, so it starts afresh. */
static void start_afresh() { pool = new Pool(); }

static void take_part(Pool &p, Launch &launch)
{
    for (;;) {
        unsigned long long turn = launch.next_block;
        while (turn < launch.stop_at && !launch.next_block.compare_exchange_weak(turn, turn + 1)) {
        }
        if (turn >= launch.stop_at || launch.failed)
            return;
        run_block(launch, turn);
        launch.finished_blocks++;
        if (launch.cooperative) {
            std::lock_guard<std::mutex> lock(p.mutex); /* a block that waits must not miss this */
            p.grid_wake.notify_all();
        }
    }
}

static void *work(void *stacks)
{
    Pool &p = *pool;
    unsigned long long seen = 0;
    become_worker(static_cast<char *>(stacks));
    std::unique_lock<std::mutex> lock(p.mutex);
    const unsigned number = p.ready++;
    for (;;) {
        p.wake.wait(lock, [&] { return p.launch && p.generation != seen && number < p.wanted; });
        seen = p.generation;
        p.working++;
        Launch &launch = *p.launch;
        lock.unlock();
        take_part(p, launch);
        lock.lock();
        if (--p.working == 0)
            p.idle.notify_one();
    }
    return nullptr;
}

/* Lets `count` workers take part, or as many as the system has threads and addresses for. */
static void want(Pool &p, unsigned count)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, worker_stack_bytes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    while (p.threads < count) {
        pthread_t thread;
        char *stacks = reserve_stacks();
        if (!stacks)
            break;
        if (pthread_create(&thread, &attributes, work, stacks) != 0) {
            release_stacks(stacks);
            break;
        }
        p.threads++;
    }
    pthread_attr_destroy(&attributes);
    p.wanted = std::min(count, p.threads);
    p.wake.notify_all();
}

cudaError_t simt::run_on_workers(Launch &launch, unsigned workers, unsigned long long resident,
                                 bool traced)
{
    [[maybe_unused]] static const int begun =
        (start_afresh(), pthread_atfork(nullptr, nullptr, start_afresh));
    Pool &p = *pool;
    std::unique_lock<std::mutex> lock(p.mutex);
    const unsigned long long affordable = affordable_blocks(launch.threads);
    const auto limit =
        std::min({launch.blocks, affordable, std::max<unsigned long long>(resident, workers)});
    /* Of the blocks of a cluster one runs at a time, and each has an OS thread. */
    unsigned count =
        unsigned(launch.cooperative
                     ? launch.blocks
                     : std::min({1ull * workers * launch.cluster_blocks, launch.blocks,
                                 std::max<unsigned long long>(affordable, launch.cluster_blocks)}));
    if (launch.cooperative && launch.blocks > affordable)
        return refuse(cudaErrorLaunchOutOfResources,
                      "memory is enough for the stacks of %llu blocks of %u threads at a time, and "
                      "this cooperative launch has %llu",
                      affordable, launch.threads, launch.blocks);
    p.launch = &launch;
    p.generation++;
    p.grid_arrived = p.grid_passed = 0;
    want(p, count);
    if (p.wanted < (launch.cooperative ? count : launch.cluster_blocks)) {
        p.launch = nullptr;
        return refuse(cudaErrorLaunchOutOfResources,
                      "the system gives %u OS threads with stacks for %u blocks (the limits on "
                      "processes and address space: ulimit -u, -v)",
                      p.wanted, count);
    }
    unsigned long long finished = 0;
    const auto over = [&] {
        return p.working == 0 && (launch.failed || launch.next_block >= launch.stop_at);
    };
    while (!p.idle.wait_for(lock, traced ? stall_of_a_trace : stall, over)) {
        if (finished == launch.finished_blocks && launch.next_block < launch.blocks &&
            p.wanted < limit) {
            launch.stop_at = launch.blocks;
            want(p, unsigned(std::min<unsigned long long>(2ull * p.wanted, limit)));
        }
        finished = launch.finished_blocks;
    }
    p.launch = nullptr;
    forget_clusters();
    return cudaSuccess;
}

void simt::wait_for_grid(Block &block, Site site)
{
    Pool &p = *pool;
    Launch &launch = *block.launch;
    checker->grid_arrived(block);
    std::unique_lock<std::mutex> lock(p.mutex);
    const unsigned long long turn = p.grid_passed;
    if (++p.grid_arrived == launch.blocks) {
        p.grid_arrived = 0;
        p.grid_passed++;
        p.grid_wake.notify_all();
    }
    while (p.grid_passed == turn && !launch.failed) {
        if (p.grid_arrived + launch.finished_blocks == launch.blocks)
            report(launch, cudaErrorLaunchFailure,
                   "grid.sync() at %s:%d in kernel %s: %llu of %llu blocks wait there, the others "
                   "have ended",
                   site.file, site.line, kernel_name(launch), p.grid_arrived, launch.blocks);
        else
            p.grid_wake.wait_for(lock, stall);
    }
    lock.unlock();
    if (launch.failed)
        abandon_block();
    checker->grid_synchronised(block);
}
