/* What all asynchronous work has in common: where a block keeps it, and when it is carried out. */
#include "instructions/asynchronous.h"
#include "threads/builtins.h"
#include "host/device.h"
#include "run/engine.h"
#include "run/order.h"
#include <cstring>

namespace simt
{

static __thread BlockWork *of_this_worker;

static int carry_out(void *argument)
{
    BlockWork &work = *static_cast<BlockWork *>(argument);
    if (complete_tensor_load(work) || answer_impatient(work))
        return 1;
    describe_waits(work);
    return 0;
}

static int finish(void *argument)
{
    BlockWork &work = *static_cast<BlockWork *>(argument);
    finish_copies(work);
    finish_tensor_copies(work);
    finish_products(work);
    return 0;
}

static void start_empty(BlockWork &work)
{
    const Block &block = *worker->block;
    work.thread.assign(block.threads, ThreadWork());
    work.mbarriers.clear();
    work.loads.clear();
    work.impatient = work.timeouts = 0;
    work.answers = 0;
    for (Warpgroup &warpgroup : work.warpgroup)
        warpgroup.products.clear();
    for (unsigned &registers : work.registers)
        registers = 0;
    work.free_registers = 0;
    char complaint[200]; /* the launch has read the same environment and found it good */
    if (!read_order(&work.order, complaint, sizeof complaint))
        work.order = Order{Order::in_order, 0};
    work.random = work.order.seed + block.linear;
    simt_on_idle(carry_out, &work);
    simt_at_end(finish, &work);
}

BlockWork &block_work()
{
    bool *begun = static_cast<bool *>(simt_block_storage(3, sizeof(bool)));
    if (!*begun) {
        *begun = true;
        if (!of_this_worker)
            of_this_worker = new BlockWork();
        start_empty(*of_this_worker);
    }
    return *of_this_worker;
}

void report_unfinished(const char *what, Site site, const char *missing)
{
    const Block &block = *worker->block;
    report(block.launch, cudaErrorLaunchFailure,
           "block (%u,%u,%u) ended while %s at %s:%d was under way: %s is missing (kernel %s)",
           block.index.x, block.index.y, block.index.z, what, site.file, site.line, missing,
           kernel_name(*block.launch));
}

char *shared_place(uint32_t address, size_t bytes, size_t alignment, const char *what, Site site)
{
    const Worker &w = *worker;
    char *place = static_cast<char *>(simt_shared_pointer(address)), *end = place + bytes;
    if (address % alignment)
        simt_fail("%s at %s:%d: the shared address 0x%x is not a multiple of %zu", what, site.file,
                  site.line, address, alignment);
    bool inside = place >= w.shared_begin && end <= w.shared_end;
    bool dynamic = end > w.dynamic_begin && place < w.dynamic_begin + max_shared_per_block;
    if (!inside)
        simt_fail("%s at %s:%d: 0x%x is no shared address; shared_address() makes one", what,
                  site.file, site.line, address);
    if (dynamic && end > w.dynamic_end)
        simt_fail("%s at %s:%d: bytes %td to %td of dynamic shared memory, of which the launch "
                  "asked for %td",
                  what, site.file, site.line, place - w.dynamic_begin, end - 1 - w.dynamic_begin,
                  w.dynamic_end - w.dynamic_begin);
    return place;
}

} /* namespace simt */
