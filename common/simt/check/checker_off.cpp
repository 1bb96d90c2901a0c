/* The fast build has no checker. */
#include "check/checker_async.h"
#include "check/checker_cluster.h"

namespace simt
{
namespace checker
{

const char *const build_name = "cpu";
const bool returned_threads_must_arrive = false;

void launch_begin(Launch &)
{
}

void launch_end(Launch &)
{
}

void block_begin(Block &)
{
}

void block_end(Block &)
{
}

void thread_end(Thread &)
{
}

void barrier_completed(Block &)
{
}

void named_barrier_completed(Block &, unsigned)
{
}

void released(const void *)
{
}

void acquired(const void *)
{
}

void warp_met(Warp &, uint32_t, uint32_t, const char *, bool)
{
}

void grid_arrived(Block &)
{
}

void grid_synchronised(Block &)
{
}

void atomic_access(const void *, size_t, bool, bool, const void *)
{
}

void atomic_done()
{
}

void thread_fence(const void *)
{
}

void access(const void *, size_t, bool, const void *)
{
}

void allocated(Allocation &)
{
}

void freed(Allocation &)
{
}

void fenced(const void *, size_t)
{
}

void host_wrote(const void *, size_t)
{
}

void host_read(const void *, size_t)
{
}

void device_reset()
{
}

void reported(const char *)
{
}

bool counters(struct ::counters *)
{
    return false;
}

void counters_reset()
{
}

void asynchronous(const void *, size_t, Asynchronous, const void *)
{
}

void counted(const void *, size_t, bool, const void *)
{
}

void counted_bulk(bool, bool, size_t, size_t)
{
}

void proxy_fence()
{
}

void cluster_arrived(bool)
{
}

void cluster_barrier_completed(Cluster &)
{
}

void cluster_waited()
{
}

void cluster_access(Block &, const void *, size_t, bool, const void *)
{
}

void cluster_end(Cluster &)
{
}

} /* namespace checker */
} /* namespace simt */
