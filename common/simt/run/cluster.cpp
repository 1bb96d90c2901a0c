/* Clusters: which blocks are one, and whose turn it is. */
#include "run/cluster.h"
#include "run/engine.h"
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <numeric>

namespace simt
{

/* How often a block that waits for its cluster looks whether the launch has failed. */
constexpr auto look_again = std::chrono::milliseconds(50);

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

unsigned long long launched_in_turn(const Launch &launch, unsigned long long turn)
{
    const unsigned members = launch.cluster_blocks;
    const unsigned long long cluster =
        block_in_turn(launch.order, turn / members, launch.blocks / members);
    const unsigned rank = unsigned(turn % members);
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

/* The state is that of a cluster that no block has joined. */
static void start(Cluster &cluster, const Launch &launch, unsigned long long number)
{
    const Order &order = launch.order;
    cluster.blocks = launch.cluster_blocks;
    cluster.joined = cluster.ended = cluster.left = cluster.running = cluster.idle = 0;
    cluster.cancelled = false;
    cluster.phase = 0;
    cluster.threads = cluster.blocks * launch.block.x * launch.block.y * launch.block.z;
    cluster.arrived = 0;
    std::iota(cluster.rank_at, cluster.rank_at + cluster.blocks, uint8_t(0));
    if (order.kind == Order::reversed)
        std::reverse(cluster.rank_at, cluster.rank_at + cluster.blocks);
    else if (order.kind == Order::random)
        shuffle(cluster.rank_at, cluster.blocks, order.seed + number);
}

void join_cluster(Block &block, Cluster &alone)
{
    const Launch &launch = *block.launch;
    if (launch.cluster_blocks == 1) {
        block.cluster = &alone;
        block.rank = 0;
        start(alone, launch, 0);
    } else {
        const Place place = place_of(launch, block.index);
        std::lock_guard<std::mutex> lock(mutex);
        std::unique_ptr<Cluster> &cluster = clusters[place.cluster];
        if (!cluster) {
            cluster = std::make_unique<Cluster>();
            start(*cluster, launch, place.cluster);
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
        checker->cluster_end(*entry.second);
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
    while (!cluster.turn.wait_for(lock, look_again,
                                  [&] { return cluster.cancelled || has_turn(block); }))
        if (block.launch->failed && cluster.joined < cluster.blocks)
            cluster.cancelled = true; /* the others may never come */
    return !cluster.cancelled && !block.launch->failed;
}

void leave_cluster(Block &block)
{
    Cluster &cluster = *block.cluster;
    if (cluster.blocks == 1) {
        checker->cluster_end(cluster);
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
    checker->cluster_end(cluster);
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

} /* namespace simt */
