/* Decides in which order blocks, warps and lanes run, and how a cluster's blocks take turns. */
#include "run/cluster.h"
#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>

using namespace simt;

/* This is one step of the splitmix64 generator. */
uint64_t simt::scramble(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Returns the block, or cluster, that runs as number `turn` of `blocks`. */
static uint64_t in_turn(const Order &order, uint64_t turn, uint64_t blocks)
{
    if (order.kind == Order::in_order || order.kind == Order::overlap)
        return turn;
    if (order.kind == Order::reversed)
        return blocks - 1 - turn;
    /* A stride without a common factor visits every block once, and needs no table. */
    uint64_t stride = scramble(order.seed) % blocks;
    while (std::gcd(stride, blocks) != 1)
        stride++;
    const uint64_t offset = scramble(order.seed + 1) % blocks;
    return uint64_t((static_cast<unsigned __int128>(turn) * stride + offset) % blocks);
}

uint3 simt::launched_in_turn(const Launch &launch, unsigned long long turn)
{
    const unsigned members = launch.cluster_blocks;
    const uint64_t cluster = in_turn(launch.order, turn / members, launch.blocks / members);
    const unsigned rank = unsigned(turn % members);
    const dim3 &size = launch.cluster, &grid = launch.grid;
    const unsigned across = grid.x / size.x, down = grid.y / size.y;
    return {unsigned(cluster % across * size.x + rank % size.x),
            unsigned(cluster / across % down * size.y + rank / size.x % size.y),
            unsigned(cluster / across / down * size.z + rank / size.x / size.y)};
}

void simt::put_in_order(unsigned char *numbers, unsigned count, const Order &order, uint64_t salt)
{
    std::iota(numbers, numbers + count, uint8_t(0));
    if (order.kind == Order::reversed)
        std::reverse(numbers, numbers + count);
    if (order.kind != Order::random)
        return;
    uint64_t seed = order.seed + salt;
    for (unsigned i = count; i > 1; i--) {
        seed = scramble(seed);
        std::swap(numbers[i - 1], numbers[seed % i]);
    }
}

/* ---- clusters: who is there, and whose turn it is ---- */

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
