/* cp.async reads global memory when it starts, and finds bad addresses. It writes at the wait. */
#include "instructions/asynchronous.h"
#include "device/backend.h"
#include <ptx.cuh>

using namespace simt;

void ptx::cp_async(uint32_t shared, const void *global, unsigned bytes, unsigned given, Site site)
{
    const Call call("cp.async", site);
    Groups<CopyUnderWay> &copies = thread_work().copies;
    char *const to = shared_place(shared, bytes, bytes, call);
    CopyUnderWay copy = {{call, copies.closed}, to, {}, bytes, 0};
    if (given > bytes)
        fail_at(call, "reads %u bytes to write %u", given, bytes);
    if (given > 0) {
        if (reinterpret_cast<uintptr_t>(global) % bytes)
            fail_at(call, "the global address %p is not a multiple of %u", global, bytes);
        checker->access(global, given, plain_read, call.where);
        memcpy(copy.bytes, global, given);
    }
    checker->counted(to, bytes, true, call.where);
    checker->access(to, bytes, copy_pending, call.where);
    checker->noted("cp_async", to, copy.group, bytes, call.where);
    copies.work.push_back(copy);
}

void ptx::cp_async_commit(void)
{
    Groups<CopyUnderWay> &copies = thread_work().copies;
    const unsigned long long loads = checker->shared_loads();
    for (CopyUnderWay &copy : copies.work)
        if (copy.group == copies.closed)
            copy.committed = loads;
    copies.commit("cp_async_commit");
}

void ptx::cp_async_wait(unsigned pending)
{
    Groups<CopyUnderWay> &copies = thread_work().copies;
    const size_t done = copies.covered(pending);
    const unsigned long long loads = done > 0 ? checker->shared_loads() : 0;
    checker->added(&counters::copies_in_flight, copies.work.size() - done);
    for (size_t i = 0; i < done; i++) {
        const CopyUnderWay &copy = copies.work[i];
        checker->added(&counters::copies_ahead, copy.committed < loads);
        checker->access(copy.to, copy.size, copy_write, copy.call.where);
        memcpy(copy.to, copy.bytes, copy.size);
    }
    checker->noted("cp_async_wait", nullptr, pending, done, __builtin_return_address(0));
    copies.forget(done);
}
