/* The step of a consumer whose maximum may lag: what lazy_rescale (20_lazy_rescale.cu) brings, and
 * drawn_pairs and folded keep. */
#ifndef LAZY_STEP_CUH
#define LAZY_STEP_CUH

#include "06_causal_half/hopper/ping_pong.cuh"

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
