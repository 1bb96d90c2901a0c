/* Decides in which order blocks, warps and lanes run. */
#include "run/engine.h"
#include <algorithm>
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
