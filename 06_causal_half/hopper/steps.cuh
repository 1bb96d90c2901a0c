/* What a consumer does when products have ended; from producer_warp (09_producer_warp.cu) on. The
 * rung defines shared_tiles. */
#ifndef STEPS_CUH
#define STEPS_CUH

#include "hopper_tile.cuh"

/* The scores become P, as soon as all products have ended. */
template <class Config>
static __device__ __forceinline__ void finish_scores(struct consumer<Config> &c, int block,
                                                     bool masked, float (&rescale)[2])
{
    wgmma_wait<0>();
    wgmma_hold(c.S);
    if (threadIdx.x % WARP == 0)
        mbarrier_arrive(&c.shared->K_empty[c.K_at.stage]);
    advance<Config::STAGES>(c.K_at);
    if (masked)
        mask_scores(c.S, block * Bc, c.visible);
    online_softmax(c.S, c.m, c.l, rescale, c.scale_log2);
}

/* The output is complete up to the block whose P it was started with. */
template <class Config>
static __device__ __forceinline__ void finish_output(struct consumer<Config> &c)
{
    wgmma_wait<0>();
    wgmma_hold(c.O);
    wgmma_hold(c.P);
    if (threadIdx.x % WARP == 0)
        mbarrier_arrive(&c.shared->V_empty[c.V_at.stage]);
    advance<Config::STAGES>(c.V_at);
}

/* CONSUMERS warpgroups of 64 queries each, and the producer. */
template <typename ELEMENT, int D, int CONSUMERS>
struct config {
    typedef ELEMENT T;
    static const int HEAD_DIM = D;
    static const int WARPGROUPS = CONSUMERS;
    static const int Br = WARPGROUPS * WARPGROUP_ROWS;
    static const int THREADS = 128 * (WARPGROUPS + 1);
    static const int STAGES = HEAD_DIM == 64 ? 3 : 2;
};

#endif
