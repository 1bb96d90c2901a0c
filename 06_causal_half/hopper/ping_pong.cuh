/* The steps of a consumer that takes turns with the others: ping_pong (11_ping_pong.cu) brings
 * them, the rungs after it keep them, from lazy_rescale on with another step. The rung defines
 * shared_tiles. */
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

/* ---- a maximum that may lag, from lazy_rescale on ---- */

/* m follows when the maximum exceeds it by more than LAG / scale_log2. So P is at most 2^LAG; half
 * holds numbers up to 65504. */
static const float LAG = 8.0f;

/* As new_maximum, but m stays where the maximum exceeds it by no more; then rescale is 1. */
template <int COUNT>
static __device__ __forceinline__ void follow_maximum(const float (&S)[COUNT], float (&m)[2],
                                                      float (&shift)[2], float (&rescale)[2],
                                                      float scale_log2)
{
    float chain[4];
    start_maximum(S, chain);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float m_new = fmaxf(m[r], warp_max(fmaxf(chain[2 * r], chain[2 * r + 1]), ROW_LANES));
        if ((m_new - m[r]) * scale_log2 <= LAG)
            m_new = m[r];
        shift[r] = shift_of(m_new * scale_log2);
        /* exactly 1: the exponent would be the rounding error of shift, not 0 */
        rescale[r] = m_new == m[r] ? 1.0f : exp2_approximate(m[r] * scale_log2 - shift[r]);
        m[r] = m_new;
    }
}

/* As step. A tile's first block goes to finish_scores or both_products: m follows there anyway. */
template <class Config>
static __device__ __forceinline__ void lazy_step(struct consumer<Config> &c, int block, bool masked)
{
    float shift[2], rescale[2];
    next_scores(c, block, masked);
    follow_maximum(c.S, c.m, shift, rescale, c.scale_log2);
    scheduling_border(isnan(c.scale_log2));
    finish_output(c);
    exponentials(c.S, c.l, shift, rescale, c.scale_log2);
#pragma unroll
    for (int i = 0; i < Config::HEAD_DIM / 2; i++)
        c.O[i] = multiply_unless_one(c.O[i], rescale[i / 2 % 2]);
    pack_rows<typename Config::T>(c.P, c.S);
}

#endif
