/* The runtime tells the checker this. The rooms above the host's call these functions, whether or
 * not anybody listens: by default they do nothing. Kernels that were compiled to be watched
 * (check/flags) bring the checker of check/ into the program, which puts itself here before main().
 *
 * Who adds to the runtime follows these rules, because the checker watches kernels:
 * - memory that a kernel touches is arguments, stack, shared, device, constant or read-only memory;
 * - make atomic operations through atomic_access() here, out of the compiler's sight, not with
 *   __atomic built-ins; one with release or acq_rel order is thread_fence() and the atomic. */
#pragma once

#include <cstddef>
#include <cstdint>

struct counters;
struct description;

namespace simt
{

struct Allocation;
struct Block;
struct Cluster;
struct Launch;
struct Meeting;
struct TensorMap;
struct Thread;
struct Warp;

/* The checker keeps these for each of them. */
namespace check
{
struct BlockState;
struct ClusterState;
struct LaunchState;
struct Region;
struct ThreadState;
} /* namespace check */

/* Memory is touched in these ways; odd kinds write. */
enum AccessKind : unsigned {
    plain_read,
    plain_write,
    volatile_read,
    volatile_write,
    atomic_read,
    atomic_write,      /* a store or an exchange */
    atomic_update = 7, /* reads and writes */
    /* From here on work is asynchronous: bounds and order are checked, nothing is counted. A
     * write is pending from start to end. Meanwhile no thread may touch what it writes. */
    proxy_read, /* by the asynchronous proxy: an operand of wgmma, the source of a TMA store */
    proxy_write,
    proxy_write_pending = 11,
    copy_write = 13, /* of cp.async, which does not belong to the asynchronous proxy */
    copy_pending = 15
};

/* One instruction of one thread copies a box between global and shared memory. */
struct BoxCopy {
    bool load; /* from global memory */
    const TensorMap *map;
    const int *coordinates;
    const void *shared;
    size_t bytes, sectors; /* in global memory: less than a box at the edge of an array */
    size_t wavefronts;
    unsigned ranks; /* multicast: bit r is set when block r of the cluster gets it; else 0 */
};

/* clang-format off */
struct Checker {
    /* Says whether anybody listens. If so, lanes that returned are missed at a barrier that other
     * lanes of their warp reach, and in a warp operation that names them: since Volta the hardware
     * lets both pass, and so does the fast build. Whole warps that returned are never missed. */
    bool armed = false;

    virtual void launch_begin(Launch &) {}
    virtual void launch_end(Launch &) {} /* all blocks are done or abandoned */
    virtual void block_begin(Block &) {} /* on the worker, before its first thread */
    virtual void block_end(Block &) {}   /* also when the block was abandoned */
    virtual void thread_end(Thread &) {}

    /* All threads of the block passed __syncthreads (or its count, and, or forms). */
    virtual void barrier_completed(Block &) {}
    /* It is complete. released() and acquired() tell who is ordered with whom. */
    virtual void named_barrier_completed(Block &, unsigned /* id */) {}
    /* The running thread publishes what it and those it synchronised with did so far (released), or
     * sees what others published on the same object (acquired): an address that stands for a named
     * barrier, an mbarrier, or whatever else orders memory. `home` is the block that waits there. */
    virtual void released(const void *, const Block & /* home */) {}
    virtual void acquired(const void *) {}
    virtual void warp_met(Warp &, const Meeting &) {} /* all lanes that it waits for are there */
    /* Once per block: all its threads have arrived at grid.sync(); and when all blocks have. */
    virtual void grid_arrived(Block &) {}
    virtual void grid_synchronised(Block &) {}

    /* The running thread arrives at its cluster's barrier. Relaxed: without publishing. */
    virtual void cluster_arrived(bool /* relaxed */) {}
    virtual void cluster_barrier_completed(Cluster &) {} /* it opens: once for the cluster */
    virtual void cluster_waited() {}                     /* the running thread goes on after it */
    /* The running thread writes shared memory of a block of its cluster that has not ended. */
    virtual void cluster_store(Block &, const void *, size_t, const void * /* where */) {}
    virtual void cluster_end(Cluster &) {}

    /* Announces the running thread's next atomic operation; no other on this address comes between.
     * Nothing is kept of host code's operations (cuda::atomic, std::atomic) and fences. */
    virtual void atomic_access(const void *, size_t, AccessKind, const void * /* where */, int /* scope: see simt_scope */) {}
    /* A compare-and-swap would have noticed if a plain read of the same place had seen an old value. */
    virtual void atomic_done(const void * /* compared: or null */ = nullptr, size_t = 0) {}
    virtual void thread_fence(int /* scope */) {} /* __threadfence_block, __threadfence, __threadfence_system */
    virtual void proxy_fence() {}  /* fence.proxy.async: that proxy sees what the running thread knows of */
    /* A runtime function touches memory in the running thread's name. `home` is the block of the
     * cluster in whose shared memory it lies, if that is not the running one; it has not ended. */
    virtual void access(const void *, size_t, AccessKind, const void * /* where */, const Block * /* home */ = nullptr) {}
    /* An access of up to 16 bytes to shared memory is counted, together with the other lanes'. */
    virtual void counted(const void *, size_t, bool /* writes */, const void * /* where */) {}
    /* The running thread adds this much to a counter. */
    virtual void added(unsigned long long ::counters::*, unsigned long long) {}
    /* The running thread's loads from shared memory since its warp first asked, where counted. */
    virtual unsigned long long shared_loads() { return 0; }
    /* A copy starts. It is counted as one load of one memory and one store to the other. */
    virtual void copied(const BoxCopy &, const void * /* where */) {}
    /* For the trace: the running thread did something that is no access. README.md says what
     * object, value and size mean for each; the names live as long as the program. */
    virtual void noted(const char *, const void * /* object */, unsigned long long /* value */,
                       unsigned long long /* size */, const void * /* where */) {}

    virtual void allocated(Allocation &) {}
    virtual void freed(Allocation &) {}
    virtual void written(const void *, size_t) {} /* by the host, in a copy or a fill */
    virtual void described(const void *, size_t, const struct ::description &) {} /* backend_describe() */
    virtual void fenced(const void *, size_t) {}                                  /* backend_fence() */
    virtual void reported(const char *) {}
    virtual bool counters(struct ::counters *) { return false; } /* nothing is counted */
    virtual void counters_reset() {}
};
/* clang-format on */

extern Checker *checker; /* never null */

} /* namespace simt */
