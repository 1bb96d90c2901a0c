/* A tile's rows out through the warp's staging place, which the tile before used: what resident
 * (15_resident.cu) brings and the rungs after it keep. */
#ifndef STORE_TILE_CUH
#define STORE_TILE_CUH

#include "tma_store.cuh"

/* `staging` is the warp's. */
template <class Config>
static __device__ __forceinline__ void
store_tile(const struct hopper_problem &problem, const CUtensorMap *map,
           typename Config::T *staging, const struct hopper_tile &tile,
           float (&O)[Config::HEAD_DIM / 2], const float (&m)[2], const float (&l)[2])
{
    const int seq_q = problem.call.seq_q;
    const int warp_row = tile.row0 + threadIdx.x / WARP * WARP_ROWS;
    const size_t first = (size_t)tile.head * seq_q; /* the head's first row */
    float *LSE = problem.call.LSE == NULL ? NULL : problem.call.LSE + first;
    finish_rows(O, m, l, LSE, warp_row, seq_q, problem.scale_log2);
    uint32_t packed[Config::HEAD_DIM / 4];
    pack_rows<typename Config::T>(packed, O);
    if (threadIdx.x % WARP == 0)
        tma_store_wait_read<0>(); /* the tile before may still be read from the staging place */
    __syncwarp();
    store_by_tma<Config::HEAD_DIM>(map, staging, packed, warp_row, tile.head);
}

#endif
