/* What all asynchronous work has in common: where a block keeps it, and when it is carried out. */
#include "instructions/asynchronous.h"
#include "run/engine.h"
#include <cstring>

namespace simt
{

static bool carry_out(Block &block)
{
    return complete_tensor_load(*block.work) || answer_impatient(*block.work);
}

static void finish(Block &block)
{
    finish_copies(*block.work);
    finish_tensor_copies(*block.work);
    finish_products(*block.work);
}

/* One for each OS thread, used again for its next block. */
BlockWork &begin_block_work()
{
    static thread_local BlockWork of_this_worker;
    BlockWork &work = of_this_worker;
    Block &block = *worker->block;
    work.thread.assign(block.threads, ThreadWork());
    work.mbarriers.clear();
    work.loads.clear();
    work.impatient = work.timeouts = 0;
    work.answers = 0;
    for (std::vector<SharedProduct> &products : work.warpgroup)
        products.clear();
    memset(work.registers, 0, sizeof work.registers);
    work.free_registers = 0;
    work.random = block.launch->order.seed + block.linear;
    block.work = &work;
    block.carry_out = carry_out;
    block.finish = finish;
    return work;
}

void report_unfinished(const char *what, Site site, const char *missing)
{
    const Block &block = *worker->block;
    report(*block.launch, cudaErrorLaunchFailure,
           "block (%u,%u,%u) ended while %s at %s:%d was under way: %s is missing (kernel %s)",
           block.index.x, block.index.y, block.index.z, what, site.file, site.line, missing,
           kernel_name(*block.launch));
}

char *shared_place(uint32_t address, size_t bytes, size_t alignment, const char *what, Site site)
{
    const Worker &w = *worker;
    char *place = static_cast<char *>(simt_shared_pointer(address)), *end = place + bytes;
    if (address % alignment)
        fail_at(site, what, "the shared address 0x%x is not a multiple of %zu", address, alignment);
    bool inside = place >= w.shared_begin && end <= w.shared_end;
    bool dynamic = end > w.dynamic_begin && place < w.dynamic_begin + max_shared_per_block;
    if (!inside)
        fail_at(site, what, "0x%x is no shared address; shared_address() makes one", address);
    if (dynamic && end > w.dynamic_end)
        fail_at(site, what,
                "bytes %td to %td of dynamic shared memory, of which the launch asked for %td",
                place - w.dynamic_begin, end - 1 - w.dynamic_begin,
                w.dynamic_end - w.dynamic_begin);
    return place;
}

} /* namespace simt */
