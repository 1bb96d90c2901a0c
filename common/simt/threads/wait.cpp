/* simt_wait, simt_on_idle, simt_yield, and the storage of blocks and threads: see simt/warp.h. */
#include "threads/wait.h"
#include "run/cluster.h"
#include "run/scheduling.h"
#include <cstdlib>
#include <sched.h>

namespace simt
{

constexpr unsigned max_idle = 16;
constexpr unsigned max_slots = 4;

struct Idle {
    simt_idle *run;
    void *argument;
};

/* One per OS thread, like the block it belongs to. */
struct Outstanding {
    Idle idle[max_idle], final[max_idle];
    unsigned idles, finals;
    void *block[max_slots];
    char *threads[max_slots]; /* one piece per thread of the block */
};
static __thread Outstanding outstanding;

bool run_idle_work()
{
    for (unsigned i = 0; i < outstanding.idles; i++)
        if (outstanding.idle[i].run(outstanding.idle[i].argument))
            return true;
    return false;
}

void run_final_work()
{
    for (unsigned i = 0; i < outstanding.finals; i++)
        outstanding.final[i].run(outstanding.final[i].argument);
}

void clear_storage()
{
    outstanding.idles = outstanding.finals = 0;
    for (unsigned slot = 0; slot < max_slots; slot++) {
        free(outstanding.block[slot]);
        free(outstanding.threads[slot]);
        outstanding.block[slot] = outstanding.threads[slot] = nullptr;
    }
}

static void *allocate_storage(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);
    if (!memory)
        simt_fail("no memory for %zu bytes of a block's own storage", count * bytes);
    return memory;
}

} /* namespace simt */

using namespace simt;

extern "C" void *simt_block_storage(unsigned slot, size_t bytes)
{
    if (!outstanding.block[slot])
        outstanding.block[slot] = allocate_storage(1, bytes);
    return outstanding.block[slot];
}

extern "C" void *simt_thread_storage(unsigned slot, size_t bytes)
{
    if (!outstanding.threads[slot])
        outstanding.threads[slot] =
            static_cast<char *>(allocate_storage(worker->block->threads, bytes));
    return outstanding.threads[slot] + self().linear * bytes;
}

static void add(Idle *list, unsigned *count, simt_idle *run, void *argument)
{
    for (unsigned i = 0; i < *count; i++)
        if (list[i].run == run && list[i].argument == argument)
            return;
    if (*count == max_idle)
        simt_fail("a block has more than %u kinds of asynchronous work", max_idle);
    list[(*count)++] = Idle{run, argument};
}

extern "C" void simt_on_idle(simt_idle *idle, void *argument)
{
    add(outstanding.idle, &outstanding.idles, idle, argument);
}

extern "C" void simt_at_end(simt_idle *finish, void *argument)
{
    add(outstanding.final, &outstanding.finals, finish, argument);
}

extern "C" void simt_wait(simt_condition *condition, void *argument, const char *what, int line,
                          const char *file)
{
    if (condition(argument))
        return;
    Thread &thread = self();
    Fiber &fiber = *thread.fiber;
    fiber.wait = Wait::condition;
    fiber.file = file;
    fiber.line = line;
    thread.condition = condition;
    thread.condition_argument = argument;
    thread.what = what;
    thread.warp->polling |= 1u << thread.lane;
    suspend(thread);
}

/* Other warps first: two lanes of one warp that both poll must not keep the rest from running. */
extern "C" void simt_yield(void)
{
    Thread &thread = self();
    Block &block = *thread.warp->block;
    bool alone = !block.ready_warps;
    make_ready(thread);
    next_warp(block);
    suspend(thread);
    if (alone) /* what it waits for must come from another block, on another OS thread */
        sched_yield();
    static __thread unsigned
        yields; /* several threads of the block may poll for another one of its cluster */
    if (alone || ++yields % 64 == 0)
        yield_to_cluster(block);
}
