/* This has the barrier of a cluster, and stores into the shared memory of its other blocks. */
#include "instructions/asynchronous.h"
#include "host/errors.h"
#include "run/cluster.h"
#include <ptx.cuh>

using namespace simt;

/* ---- the barrier: its instructions are for whole warps (.aligned) ---- */

static void open(Cluster &cluster)
{
    cluster.phase++;
    cluster.arrived = 0;
    checker->cluster_barrier_completed(cluster);
}

static void after_return_of(Thread &thread)
{
    Cluster &cluster = *thread.warp->block->cluster;
    if (thread.cluster_arrivals > cluster.phase)
        cluster.arrived--;
    if (cluster.arrived > 0 && cluster.arrived == cluster.threads)
        open(cluster);
}

static std::string describe(const Cluster &cluster)
{
    std::string text = "cluster_wait()";
    for (unsigned rank = 0; rank < cluster.blocks; rank++) {
        const Block &block = *cluster.member[rank].block;
        unsigned missing = 0;
        for (unsigned t = 0; t < block.threads; t++)
            missing += (block.warp[t / warp_size].alive >> t % warp_size & 1) &&
                       block.thread[t].cluster_arrivals == cluster.phase;
        if (missing > 0)
            text += format(" (the cluster's block %u: %u of %u have not arrived)", rank, missing,
                           block.threads);
    }
    return text;
}

void ptx::cluster_arrive(bool relaxed, Site site)
{
    const Call call("cluster_arrive()", site);
    Thread &thread = *current_thread;
    Cluster &cluster = *worker->block->cluster;
    come_together(thread.warp->present, call);
    if (thread.cluster_arrivals > thread.cluster_waits)
        fail_at(call, "the thread has arrived already; cluster_wait() comes first");
    checker->cluster_arrived(relaxed);
    thread.cluster_arrivals++;
    if (cluster.arrived++ == 0)
        for (unsigned rank = 0; rank < cluster.blocks; rank++)
            cluster.member[rank].block->after_return[cluster_after_return] = after_return_of;
    if (cluster.arrived == cluster.threads)
        open(cluster);
}

void ptx::cluster_wait(Site site)
{
    const Call call("cluster_wait()", site);
    Thread &thread = *current_thread;
    come_together(thread.warp->present, call);
    if (thread.cluster_arrivals == thread.cluster_waits)
        fail_at(call, "the thread has not arrived; cluster_arrive() comes first");
    const Cluster &cluster = *worker->block->cluster;
    wait_until([&] { return cluster.phase >= thread.cluster_arrivals; }, site,
               [&] { return describe(cluster); }, Wait::cluster);
    thread.cluster_waits++;
    checker->cluster_waited();
}

/* cluster_address() puts the rank, from 1, above the 28 bits of a shared-window address. */
constexpr unsigned rank_shift = 28;

int ptx::cluster_rank(void) { return int(worker->block->rank); }
int ptx::cluster_blocks(void) { return int(worker->block->cluster->blocks); }

uint32_t ptx::cluster_address(uint32_t shared, int rank, Site site)
{
    const Call call("cluster_address()", site);
    if (rank < 0 || rank >= ptx::cluster_blocks())
        fail_at(call, "block %d of a cluster of %d", rank, ptx::cluster_blocks());
    if (shared >> rank_shift)
        fail_at(call, "0x%x is no shared address; shared_address() makes one", shared);
    return shared | uint32_t(rank + 1) << rank_shift;
}

ClusterPlace simt::cluster_place(uint32_t address, size_t bytes, const Call &call)
{
    Block &block = *worker->block;
    const Cluster &cluster = *block.cluster;
    const unsigned rank = address >> rank_shift ? (address >> rank_shift) - 1 : block.rank;
    if (rank >= cluster.blocks)
        fail_at(call, "0x%x is no address in the cluster; cluster_address() makes one", address);
    char *own = shared_place(address & ((1u << rank_shift) - 1), bytes, bytes, call);
    const Member &home = cluster.member[rank];
    if (home.ended)
        fail_at(call,
                "block %u of the cluster has ended; a cluster_arrive() and a cluster_wait() after "
                "the last store would keep it",
                rank);
    return {home.block, home.worker->shared_begin + (own - worker->shared_begin)};
}

void ptx::cluster_store(uint32_t address, const void *value, unsigned bytes, Site site)
{
    const Call call("cluster_store()", site);
    const ClusterPlace to = cluster_place(address, bytes, call);
    checker->access(value, bytes, plain_read, call.where); /* it need not be a register */
    checker->cluster_store(*to.home, to.place, bytes, call.where);
    memcpy(to.place, value, bytes);
}
