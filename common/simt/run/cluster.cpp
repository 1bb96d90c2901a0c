/* Decides which blocks form a cluster, and whose turn it is. */
#include "run/cluster.h"
#include <chrono>
#include <map>

using namespace simt;

static std::mutex mutex;                               /* of the table */
static std::map<unsigned long long, Cluster> clusters; /* of the launch that runs */

void simt::join_cluster(Block &block, unsigned long long turn, std::optional<Cluster> &alone)
{
    const Launch &launch = *block.launch;
    const unsigned long long number = turn / launch.cluster_blocks;
    block.rank = unsigned(turn % launch.cluster_blocks);
    if (launch.cluster_blocks == 1) {
        block.cluster = &alone.emplace(launch, number);
    } else {
        std::lock_guard<std::mutex> lock(mutex);
        block.cluster = &clusters.try_emplace(number, launch, number).first->second;
    }
    block.cluster->member[block.rank] = Member{&block, worker, false};
}

void simt::forget_clusters()
{
    std::lock_guard<std::mutex> lock(mutex);
    for (auto &entry : clusters)
        checker->cluster_end(entry.second);
    clusters.clear();
}

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

bool simt::enter_cluster(Block &block)
{
    Cluster &cluster = *block.cluster;
    if (cluster.blocks == 1)
        return true;
    std::unique_lock<std::mutex> lock(cluster.mutex);
    cluster.joined++;
    cluster.turn.notify_all();
    while (!cluster.turn.wait_for(lock, std::chrono::milliseconds(50),
                                  [&] { return cluster.cancelled || has_turn(block); }))
        if (block.launch->failed && cluster.joined < cluster.blocks)
            cluster.cancelled = true; /* the others may never come */
    return !cluster.cancelled && !block.launch->failed;
}

void simt::leave_cluster(Block &block)
{
    Cluster &cluster = *block.cluster;
    if (cluster.blocks == 1)
        return checker->cluster_end(cluster);
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
    clusters.erase(cluster.number);
}

bool simt::let_cluster_run(Block &block)
{
    Cluster &cluster = *block.cluster;
    if (++cluster.idle >= cluster.blocks - cluster.ended)
        return false;
    yield_to_cluster(block);
    return true;
}

void simt::yield_to_cluster(Block &block)
{
    Cluster &cluster = *block.cluster;
    if (cluster.blocks == 1)
        return;
    std::unique_lock<std::mutex> lock(cluster.mutex);
    pass_turn(cluster);
    cluster.turn.wait(lock, [&] { return has_turn(block); });
}
