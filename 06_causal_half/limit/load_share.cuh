/* The loads of a pair of blocks: what 15_multicast.cu brings and the next three rungs keep. */
#ifndef LOAD_SHARE_CUH
#define LOAD_SHARE_CUH

#include "device/clusters.cuh"
#include "06_causal_half/hopper/hopper_tile.cuh"

/*
 * This thread block's half of a block of keys, or of values, into both thread blocks of the pair;
 * the other one loads the rest. `full` expects all of it. The kernel needs no barrier of the
 * cluster at its end: before a thread block ends it has waited for all that the other one sends it,
 * arrivals at `agreed` and bytes.
 */
template <class Config>
static __device__ __forceinline__ void load_share(typename Config::T *stage, const CUtensorMap *map,
                                                  int block, int kv_head, uint64_t *full,
                                                  uint64_t *agreed, int phase)
{
    mbarrier_arrive_expect(full, Bc * Config::HEAD_DIM * sizeof *stage);
    for (int rank = 0; rank < PAIR; rank++)
        cluster_mbarrier_arrive(cluster_address(shared_address(agreed), rank));
    mbarrier_wait(agreed, phase);
    const int row = cluster_rank() * (Bc / PAIR);
#pragma unroll
    for (int col = 0; col < Config::HEAD_DIM; col += PANEL_COLS)
        tma_load_multicast(shared_address(stage + col * Bc + row * PANEL_COLS), map, col,
                           block * Bc + row, kv_head, full, (1 << PAIR) - 1);
}

#endif
