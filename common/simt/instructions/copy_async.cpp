/*
 * cp.async. The global side is read when the copy starts, so that a bad address is found at its own
 * line; shared memory changes only at the wait that covers the copy.
 */
#include "instructions/asynchronous.h"
#include "host/checker.h"
#include "run/engine.h"
#include <cstring>
#include <ptx.cuh>

namespace simt
{

/* A thread's oldest copy stands for all of them. */
void finish_copies(BlockWork &work)
{
    for (const ThreadWork &thread : work.thread)
        if (!thread.copies.empty()) {
            const CopyUnderWay &copy = thread.copies.front();
            report_unfinished("cp.async", copy.site,
                              copy.group < thread.copy_groups ? "cp_async_wait<0>()"
                                                              : "cp_async_commit() and a wait");
            return;
        }
}

} /* namespace simt */

using namespace simt;

void ptx::cp_async(uint32_t shared, const void *global, unsigned bytes, unsigned source_bytes,
                   Site site)
{
    const void *where = __builtin_return_address(0);
    CopyUnderWay copy = {};
    copy.to = shared_place(shared, bytes, bytes, "cp.async", site);
    if (source_bytes > bytes)
        fail_at(site, "cp.async", "reads %u bytes to write %u", source_bytes, bytes);
    if (source_bytes > 0) {
        if (reinterpret_cast<uintptr_t>(global) % bytes)
            fail_at(site, "cp.async", "the global address %p is not a multiple of %u", global,
                    bytes);
        checker->access(global, source_bytes, false, where);
        memcpy(copy.bytes, global, source_bytes);
    }
    checker->counted(copy.to, bytes, true, where);
    checker->asynchronous(copy.to, bytes, copy_begins, where);
    ThreadWork &work = thread_work();
    checker->noted("cp_async", copy.to, work.copy_groups, bytes, where);
    copy.size = bytes;
    copy.group = work.copy_groups;
    copy.where = where;
    copy.site = site;
    work.copies.push_back(copy);
}

void ptx::cp_async_commit(void)
{
    checker->noted("cp_async_commit", nullptr, thread_work().copy_groups++, 0,
                   __builtin_return_address(0));
}

void ptx::cp_async_wait(unsigned pending)
{
    ThreadWork &work = thread_work();
    size_t done = 0;
    while (done < work.copies.size() && work.copies[done].group + pending < work.copy_groups) {
        const CopyUnderWay &copy = work.copies[done++];
        checker->asynchronous(copy.to, copy.size, copy_ends, copy.where);
        memcpy(copy.to, copy.bytes, copy.size);
    }
    checker->noted("cp_async_wait", nullptr, pending, done, __builtin_return_address(0));
    work.copies.erase(work.copies.begin(), work.copies.begin() + ptrdiff_t(done));
}
