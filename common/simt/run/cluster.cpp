/* Clusters: who joins which, whose turn it is, their barrier, and stores into each other's shared
 * memory. */
#include "run/cluster.h"
#include "instructions/asynchronous.h"
#include "check/checker_cluster.h"
#include "run/engine.h"
#include "run/order.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <simt/instructions.h>

namespace simt
{

constexpr auto patience = std::chrono::milliseconds(50);

/* ---- which blocks are a cluster ---- */

/* A block's cluster, and its rank there. */
struct Place {
    unsigned long long cluster;
    unsigned rank;
};

static Place place_of(const Launch &launch, const uint3 &block)
{
    const dim3 &size = launch.cluster;
    const unsigned long long across = launch.grid.x / size.x, down = launch.grid.y / size.y;
    return Place{block.x / size.x + across * (block.y / size.y + down * (block.z / size.z)),
                 block.x % size.x + size.x * (block.y % size.y + size.y * (block.z % size.z))};
}

unsigned long long launched_in_turn(const Launch &launch, const Order &order,
                                    unsigned long long turn)
{
    const unsigned members = launch.cluster_blocks;
    const unsigned long long cluster =
        block_in_turn(order, turn / members, launch.blocks / members);
    const unsigned rank = static_cast<unsigned>(turn % members);
    const dim3 &size = launch.cluster, &grid = launch.grid;
    const unsigned long long across = grid.x / size.x, down = grid.y / size.y;
    const unsigned long long x = cluster % across * size.x + rank % size.x;
    const unsigned long long y = cluster / across % down * size.y + rank / size.x % size.y;
    const unsigned long long z = cluster / across / down * size.z + rank / size.x / size.y;
    return x + grid.x * (y + grid.y * z);
}

/* ---- who is there ---- */

static std::mutex mutex; /* of the table */
/* of the launch that runs */
static std::map<unsigned long long, std::unique_ptr<Cluster>> clusters;

/* The state is that of a cluster that nobody has joined. */
static void start(Cluster &cluster, const Launch &launch, unsigned long long number,
                  const Order &order)
{
    cluster.blocks = launch.cluster_blocks;
    cluster.joined = cluster.ended = cluster.left = cluster.running = cluster.idle = 0;
    cluster.cancelled = false;
    cluster.phase = 0;
    cluster.threads = cluster.blocks * launch.block.x * launch.block.y * launch.block.z;
    cluster.arrived = 0;
    snprintf(cluster.state, sizeof cluster.state, "cluster_wait()");
    std::iota(cluster.rank_at, cluster.rank_at + cluster.blocks, static_cast<unsigned char>(0));
    if (order.kind == Order::reversed)
        std::reverse(cluster.rank_at, cluster.rank_at + cluster.blocks);
    else if (order.kind == Order::random)
        shuffle(cluster.rank_at, cluster.blocks, order.seed + number);
}

void join_cluster(Block &block, Cluster &alone, const Order &order)
{
    const Launch &launch = *block.launch;
    if (launch.cluster_blocks == 1) {
        block.cluster = &alone;
        block.rank = 0;
        start(alone, launch, 0, order);
    } else {
        const Place place = place_of(launch, block.index);
        std::lock_guard<std::mutex> lock(mutex);
        std::unique_ptr<Cluster> &cluster = clusters[place.cluster];
        if (!cluster) {
            cluster = std::make_unique<Cluster>();
            start(*cluster, launch, place.cluster, order);
        }
        block.cluster = cluster.get();
        block.rank = place.rank;
    }
    block.cluster->member[block.rank] = Member{&block, worker, false};
}

void forget_clusters()
{
    std::lock_guard<std::mutex> lock(mutex);
    for (auto &entry : clusters)
        checker::cluster_end(*entry.second);
    clusters.clear();
}

/* ---- whose turn it is ---- */

static bool has_turn(const Block &block)
{
    const Cluster &cluster = *block.cluster;
    return cluster.joined == cluster.blocks && cluster.rank_at[cluster.running] == block.rank;
}

static void pass_turn(Cluster &cluster)
{
    do
        cluster.running = (cluster.running + 1) % cluster.blocks;
    while (cluster.member[cluster.rank_at[cluster.running]].ended &&
           cluster.ended < cluster.blocks);
    cluster.turn.notify_all();
}

bool enter_cluster(Block &block)
{
    Cluster &cluster = *block.cluster;
    if (cluster.blocks == 1)
        return true;
    std::unique_lock<std::mutex> lock(cluster.mutex);
    cluster.joined++;
    cluster.turn.notify_all();
    while (!cluster.turn.wait_for(lock, patience,
                                  [&] { return cluster.cancelled || has_turn(block); }))
        if (block.launch->failed && cluster.joined < cluster.blocks)
            cluster.cancelled = true; /* the others may never come */
    return !cluster.cancelled && !block.launch->failed;
}

void leave_cluster(Block &block)
{
    Cluster &cluster = *block.cluster;
    if (cluster.blocks == 1) {
        checker::cluster_end(cluster);
        return;
    }
    std::unique_lock<std::mutex> lock(cluster.mutex);
    cluster.member[block.rank].ended = true;
    cluster.ended++;
    cluster.idle = 0;
    pass_turn(cluster);
    cluster.turn.wait(lock, [&] { return cluster.cancelled || cluster.ended == cluster.blocks; });
    if (++cluster.left < cluster.blocks || cluster.cancelled)
        return;
    lock.unlock();
    std::lock_guard<std::mutex> table(mutex);
    checker::cluster_end(cluster);
    clusters.erase(place_of(*block.launch, block.index).cluster);
}

bool let_cluster_run(Block &block)
{
    Cluster &cluster = *block.cluster;
    if (++cluster.idle >= cluster.blocks - cluster.ended)
        return false;
    yield_to_cluster(block);
    return true;
}

void yield_to_cluster(Block &block)
{
    Cluster &cluster = *block.cluster;
    if (cluster.blocks == 1)
        return;
    std::unique_lock<std::mutex> lock(cluster.mutex);
    pass_turn(cluster);
    cluster.turn.wait(lock, [&] { return has_turn(block); });
}

/* ---- the barrier: its instructions are for whole warps (.aligned) ---- */

static void arrive_together(void *const *, unsigned)
{
}

static void wait_together(void *const *, unsigned)
{
}

static void open(Cluster &cluster)
{
    cluster.phase++;
    cluster.arrived = 0;
    checker::cluster_barrier_completed(cluster);
}

void cluster_after_return(Thread &thread)
{
    Cluster &cluster = *thread.warp->block->cluster;
    cluster.threads--;
    if (thread.cluster_arrivals > cluster.phase)
        cluster.arrived--;
    if (cluster.arrived > 0 && cluster.arrived == cluster.threads)
        open(cluster);
}

static int has_opened(void *argument)
{
    const Thread &thread = *static_cast<const Thread *>(argument);
    return thread.warp->block->cluster->phase >= thread.cluster_arrivals;
}

void describe_cluster_barrier(Cluster &cluster)
{
    size_t length =
        static_cast<size_t>(snprintf(cluster.state, sizeof cluster.state, "cluster_wait()"));
    for (unsigned rank = 0; rank < cluster.blocks; rank++) {
        const Block &block = *cluster.member[rank].block;
        unsigned missing = 0;
        for (unsigned t = 0; t < block.threads; t++)
            missing += (block.warp[t / warp_size].alive >> t % warp_size & 1) &&
                       block.thread[t].cluster_arrivals == cluster.phase;
        if (missing > 0)
            length +=
                static_cast<size_t>(snprintf(cluster.state + length, sizeof cluster.state - length,
                                             " (the cluster's block %u: %u of %u have not arrived)",
                                             rank, missing, block.threads));
        if (length >= sizeof cluster.state)
            return;
    }
}

/* ---- addresses in other blocks ---- */

/* What cluster_address() puts above the 28 bits of a shared-window address: the rank, counted from
 * 1. */
constexpr unsigned rank_shift = 28;

} /* namespace simt */

using namespace simt;

extern "C" int simt_cluster_rank(void)
{
    return static_cast<int>(worker->block->rank);
}

extern "C" int simt_cluster_blocks(void)
{
    return static_cast<int>(worker->block->cluster->blocks);
}

extern "C" void simt_cluster_arrive(int relaxed, int line, const char *file)
{
    Thread &thread = self();
    Cluster &cluster = *worker->block->cluster;
    simt_meet(thread.warp->present, nullptr, arrive_together, "cluster_arrive()", 0, line, file);
    if (thread.cluster_arrivals > thread.cluster_waits)
        simt_fail(
            "cluster_arrive() at %s:%d: the thread has arrived already; cluster_wait() comes first",
            file, line);
    checker::cluster_arrived(relaxed != 0);
    thread.cluster_arrivals++;
    if (++cluster.arrived == cluster.threads)
        open(cluster);
}

extern "C" void simt_cluster_wait(int line, const char *file)
{
    Thread &thread = self();
    simt_meet(thread.warp->present, nullptr, wait_together, "cluster_wait()", 0, line, file);
    if (thread.cluster_arrivals == thread.cluster_waits)
        simt_fail(
            "cluster_wait() at %s:%d: the thread has not arrived; cluster_arrive() comes first",
            file, line);
    simt_wait(has_opened, &thread, worker->block->cluster->state, line, file);
    thread.cluster_waits++;
    checker::cluster_waited();
}

extern "C" uint32_t simt_cluster_address(uint32_t shared, int rank, int line, const char *file)
{
    if (rank < 0 || rank >= simt_cluster_blocks())
        simt_fail("cluster_address() at %s:%d: block %d of a cluster of %d", file, line, rank,
                  simt_cluster_blocks());
    if (shared >> rank_shift)
        simt_fail(
            "cluster_address() at %s:%d: 0x%x is no shared address; shared_address() makes one",
            file, line, shared);
    return shared | static_cast<uint32_t>(rank + 1) << rank_shift;
}

extern "C" void simt_cluster_store(uint32_t address, const void *value, unsigned bytes, int line,
                                   const char *file)
{
    Block &block = *worker->block;
    const Cluster &cluster = *block.cluster;
    const unsigned rank = address >> rank_shift ? (address >> rank_shift) - 1 : block.rank;
    if (rank >= cluster.blocks)
        simt_fail("cluster_store() at %s:%d: 0x%x is no address in the cluster; cluster_address() "
                  "makes one",
                  file, line, address);
    char *own = shared_place(address & ((1u << rank_shift) - 1), bytes, bytes, "cluster_store()",
                             Site{file, line});
    const Member &home = cluster.member[rank];
    if (home.ended)
        simt_fail(
            "cluster_store() at %s:%d: block %u of the cluster has ended; a cluster_arrive() and a "
            "cluster_wait() after the last store would keep it",
            file, line, rank);
    char *place = home.worker->shared_begin + (own - worker->shared_begin);
    checker::cluster_access(*home.block, place, bytes, true, __builtin_return_address(0));
    memcpy(place, value, bytes);
}
