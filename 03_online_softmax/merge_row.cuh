/* The states of the threads that own a row, merged between lanes and between warps. */
#ifndef MERGE_ROW_CUH
#define MERGE_ROW_CUH

#include "running_softmax.cuh"
#include "device/warp.cuh"

/*
 * The merged state of each group of LANES lanes, the same in all of them to the last bit. Every
 * lane of the warp takes part.
 */
template <int LANES>
static __device__ struct running_softmax merge_lanes(struct running_softmax state)
{
    const float m = warp_max(state.m, LANES);
    const float l = warp_sum(state.l * __expf(state.m - running_softmax_shift(m)), LANES);
    const struct running_softmax merged = {m, l};
    return merged;
}

/*
 * The merged state of the LANES threads of a block, the same in all of them. Called once a launch:
 * its shared cells are not reused.
 */
template <int LANES>
static __device__ struct running_softmax merge_row(struct running_softmax state)
{
    __shared__ struct running_softmax of_warp[WARP];
    const int lane = threadIdx.x % WARP;
    state = merge_lanes<WARP>(state);
    if (lane == 0)
        of_warp[threadIdx.x / WARP] = state;
    __syncthreads(); /* every warp's state is in shared memory before any warp reads them all */
    return merge_lanes<WARP>(lane < LANES / WARP ? of_warp[lane] : running_softmax_empty());
}

#endif
