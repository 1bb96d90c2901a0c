/* Instructions share checks, and where and when a block carries out asynchronous work. */
#include "instructions/asynchronous.h"
#include "host/errors.h"

using namespace simt;

static void report_unfinished(const Call &call, const char *missing)
{
    const Block &block = *worker->block;
    report(*block.launch, cudaErrorLaunchFailure,
           "block (%u,%u,%u) ended while a %s at %s:%d was under way: %s is missing (kernel %s)",
           block.index.x, block.index.y, block.index.z, call.what, call.site.file, call.site.line,
           missing, kernel_name(*block.launch));
}

/* Stores that were read take effect. Work that no thread waited for is reported. */
static void finish(Block &block)
{
    const auto report_all = [](const auto &groups, const char *wait, const char *commit) {
        for (const auto &one : groups.work)
            report_unfinished(one.call, one.group < groups.closed ? wait : commit);
    };
    for (const TensorLoad &load : block.work->loads)
        report_unfinished(load.call, "a wait for its mbarrier");
    for (ThreadWork &thread : block.work->thread) {
        write_stores(thread, thread.stores_read);
        report_all(thread.copies, "cp_async_wait<0>()", "cp_async_commit() and a wait");
        report_all(thread.stores, "tma_store_wait_read<0>()", "tma_store_commit() and a wait");
        report_all(thread.products, "wgmma_wait<0>()", "wgmma_commit()");
    }
}

/* Each OS thread has one, and uses it again for its next block. */
BlockWork &simt::begin_block_work()
{
    static thread_local BlockWork work;
    Block &block = *worker->block;
    work = BlockWork();
    work.thread.resize(block.threads);
    work.random = block.launch->order.seed + block.linear;
    block.work = &work;
    block.carry_out = [](Block &waiting) {
        return complete_tensor_load(*waiting.work) || answer_impatient(*waiting.work);
    };
    block.finish = finish;
    return work;
}

void simt::require_whole_warp(unsigned lanes)
{
    if (lanes != whole_warp)
        simt_fail("%s is for whole warps; only lanes 0x%08x are there",
                  current_thread->warp->thread[__builtin_ctz(lanes)].what, lanes);
}

void simt::come_together(unsigned mask, const Call &call)
{
    simt_meet(
        mask, nullptr, [](void *const *, unsigned) {}, call.what, 0, call.site);
}

char *simt::shared_place(uint32_t address, size_t bytes, size_t alignment, const Call &call)
{
    const Worker &w = *worker;
    char *place = static_cast<char *>(simt_shared_pointer(address)), *end = place + bytes;
    if (address % alignment)
        fail_at(call, "the shared address 0x%x is not a multiple of %zu", address, alignment);
    bool inside = place >= w.shared_begin && end <= w.shared_end;
    bool dynamic = end > w.dynamic_begin && place < w.dynamic_begin + max_shared_per_block;
    if (!inside)
        fail_at(call, "0x%x is no shared address; shared_address() makes one", address);
    if (dynamic && end > w.dynamic_end)
        fail_at(
            call, "bytes %td to %td of dynamic shared memory, of which the launch asked for %td",
            place - w.dynamic_begin, end - 1 - w.dynamic_begin, w.dynamic_end - w.dynamic_begin);
    return place;
}
