/* These kernels use cooperative groups. */
#include "features.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

template <class Tile>
__device__ int sum_of_tile(const Tile &tile, int value)
{
    for (int delta = tile.size() / 2; delta > 0; delta /= 2)
        value += tile.shfl_down(value, delta);
    return tile.shfl(value, 0);
}

__global__ void tiles(int *out)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    auto quad = cg::tiled_partition<4>(warp);
    __shared__ int total;
    if (block.thread_rank() == 0)
        total = 0;
    block.sync();
    int *mine = out + 5 * block.thread_rank();
    mine[0] = sum_of_tile(warp, 1) * 100 + sum_of_tile(quad, 1);
    mine[1] = warp.meta_group_rank() * 1000 + quad.meta_group_rank() * 10 + quad.thread_rank();
    mine[2] =
        static_cast<int>(quad.ballot(quad.thread_rank() == 2)) + quad.any(threadIdx.y == 1) * 100;
    mine[3] = quad.shfl_xor(static_cast<int>(quad.thread_rank()), 1) + quad.shfl_up(7, 1);
    if (quad.thread_rank() == 0)
        atomicAdd(&total, 1);
    cg::sync(block);
    mine[4] = total + block.size() * 1000 + block.group_dim().x * 1000000;
}

FEATURE(block_and_tiles)
{
    int *out = shared_array<int>(5 * 96);
    tiles<<<1, dim3(48, 2)>>>(out);
    return wrong_results(96, [&](int t) {
        const int *mine = out + 5 * t;
        return (mine[0] != 3204) + (mine[1] != t / 32 * 1000 + t % 32 / 4 * 10 + t % 4) +
               (mine[2] != 4 + (t / 48 == 1) * 100) + (mine[3] != (t % 4 ^ 1) + 7) +
               (mine[4] != 48096024);
    });
}

__global__ void coalesced(int *count, int *out)
{
    if (threadIdx.x % 5 == 2) {
        cg::coalesced_group active = cg::coalesced_threads();
        int base = 0;
        if (active.thread_rank() == 0)
            base = atomicAdd(count, static_cast<int>(active.size()));
        out[active.shfl(base, 0) + active.thread_rank()] = threadIdx.x;
    }
}

FEATURE(coalesced_group)
{
    enum { THREADS = 256 };
    int *count = shared_array<int>(1), *out = shared_array<int>(THREADS), seen[THREADS] = {0};
    coalesced<<<1, THREADS>>>(count, out);
    int wrong = wait_for_kernel();
    if (wrong < 0)
        return wrong;
    for (int i = 0; i < *count; i++)
        seen[out[i]]++;
    for (int t = 0; t < THREADS; t++)
        wrong += seen[t] != (t % 5 == 2);
    return wrong;
}

__global__ void collectives(int *out)
{
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int value = tile.thread_rank() + 1, *mine = out + 5 * threadIdx.x;
    mine[0] = cg::reduce(tile, value, cg::plus<int>());
    mine[1] = cg::reduce(tile, value, cg::greater<int>());
    mine[2] = cg::inclusive_scan(tile, value);
    mine[3] = cg::exclusive_scan(tile, value);
    auto same = cg::labeled_partition(tile, value % 3);
    mine[4] = same.size();
}

FEATURE(group_collectives)
{
    int *out = shared_array<int>(5 * 64);
    collectives<<<1, 64>>>(out);
    return wrong_results(64, [&](int t) {
        const int n = t % 16 + 1, *mine = out + 5 * t;
        return (mine[0] != 136) + (mine[1] != 16) + (mine[2] != n * (n + 1) / 2) +
               (mine[3] != n * (n - 1) / 2) + (mine[4] != (n % 3 == 1 ? 6 : 5));
    });
}

/* Each phase reads what another block wrote in the phase before. */
__global__ void relay(int *data, int phases)
{
    cg::grid_group grid = cg::this_grid();
    const unsigned n = static_cast<unsigned>(grid.size()),
                   me = static_cast<unsigned>(grid.thread_rank());
    data[me] = me;
    for (int phase = 0; phase < phases; phase++) {
        grid.sync();
        int *from = data + phase % 2 * n, *to = data + (phase + 1) % 2 * n;
        to[me] = from[(me + 65) % n] + 1;
    }
}

FEATURE(grid_sync)
{
    enum { BLOCKS = 6, THREADS = 64, N = BLOCKS * THREADS };
    int *data = shared_array<int>(2 * N), phases = 9;
    void *arguments[] = {&data, &phases};
    cudaError_t error =
        cudaLaunchCooperativeKernel((void *)relay, BLOCKS, THREADS, arguments, 0, nullptr);
    if (error != cudaSuccess)
        return -(int)error;
    return wrong_results(
        N, [&](int i) { return data[phases % 2 * N + i] != (i + 65 * phases) % N + phases; });
}
