/* The steps of a consumer that takes turns with the others: ping_pong (13_ping_pong.cu) brings
 * them, the rungs after it keep them (from lazy_rescale on with another step, lazy_step.cuh). The
 * rung defines shared_tiles. */
#ifndef PING_PONG_CUH
#define PING_PONG_CUH

#include "steps.cuh"

/*
 * Each warpgroup has a named barrier. Its 128 threads wait there for their turn, until the 128 of
 * its predecessor have arrived.
 */
template <class Config>
static __device__ __forceinline__ void take_turn(const struct consumer<Config> &c)
{
    named_barrier_sync(1 + c.warpgroup, 256);
}

template <class Config>
static __device__ __forceinline__ void pass_turn(const struct consumer<Config> &c)
{
    named_barrier_arrive(1 + (c.warpgroup + 1) % Config::WARPGROUPS, 256);
}

/* The scores of one block, while the output of the block before is under way. */
template <class Config>
static __device__ __forceinline__ void next_scores(struct consumer<Config> &c, int block,
                                                   bool masked)
{
    mbarrier_wait(&c.shared->K_full[c.K_at.stage], c.K_at.phase);
    take_turn(c);
    start_scores(c, c.shared->K[c.K_at.stage]);
    mbarrier_wait(&c.shared->V_full[c.V_at.stage], c.V_at.phase);
    start_output(c, c.shared->V[c.V_at.stage]);
    pass_turn(c);
    wgmma_wait<1>();
    wgmma_hold(c.S);
    if (threadIdx.x % WARP == 0)
        mbarrier_arrive(&c.shared->K_empty[c.K_at.stage]);
    advance<Config::STAGES>(c.K_at);
    if (masked)
        mask_scores(c.S, block * Bc, c.visible);
}

/*
 * The scores and softmax of one block, and the output of the block before. Then O is complete up to
 * the block before, and `rescale` is the factor that it needs because of the new block.
 *
 * The border keeps the wait for O behind the maxima. Without it ptxas waits first of all and
 * multiplies O at the very end, where nothing runs beside that. With it, the exponentials (an
 * eighth as fast as multiplications) begin before the wait, and O is multiplied between the others.
 */
template <class Config>
static __device__ __forceinline__ void both_products(struct consumer<Config> &c, int block,
                                                     bool masked, float (&rescale)[2])
{
    float shift[2];
    next_scores(c, block, masked);
    new_maximum(c.S, c.m, shift, rescale, c.scale_log2);
    scheduling_border(isnan(c.scale_log2));
    finish_output(c);
    exponentials(c.S, c.l, shift, rescale, c.scale_log2);
}

/* The same, ready for the next. */
template <class Config>
static __device__ __forceinline__ void step(struct consumer<Config> &c, int block, bool masked)
{
    float rescale[2];
    both_products(c, block, masked, rescale);
    scale_rows(c.O, rescale);
    pack_rows<typename Config::T>(c.P, c.S);
}

#endif
