/*
 * One query in the registers of one warp: the statements S1 .. S13 of the loop nest (README.md),
 * once for all kernels of this step that go key by key.
 *
 * Lane `lane` owns the elements c = lane, lane + 32, lane + 64, lane + 96 of every vector of
 * head_dim elements, as far as they exist: neighbouring lanes read neighbouring addresses. That is
 * the loop over d, run in parallel. The score S_ij is the one thing that all d share, so the lanes
 * sum it up together.
 */
#ifndef STEP_04_ROW_STATE_CUH
#define STEP_04_ROW_STATE_CUH

#include "attention.h"

#include <math_constants.h>

static const int LANES = 32;
static const unsigned ALL_LANES = 0xffffffffu;
static const int MAX_HEAD_DIM = 128;
static const int ELEMENTS = MAX_HEAD_DIM / LANES; /* of a vector, per lane */

/* What a query has seen so far. o is the softmax-weighted mean of the values seen: normalised at
 * every step. */
struct row_state {
    float m;           /* the largest score */
    float l;           /* the sum of e^(score - m) */
    float o[ELEMENTS]; /* this lane's elements of O */
};

static inline __device__ struct row_state row_empty(void)
{
    struct row_state state = {-CUDART_INF_F, 0.0f, {}};
    return state;
}

/* This lane's elements of a vector; zeros where the vector has none. */
static inline __device__ void row_load(float element[ELEMENTS], const float *vector, int head_dim,
                                       int lane)
{
    for (int e = 0; e < ELEMENTS; e++)
        element[e] = lane + e * LANES < head_dim ? vector[lane + e * LANES] : 0.0f;
}

static inline __device__ void row_store(float *vector, const float element[ELEMENTS], int head_dim,
                                        int lane)
{
    for (int e = 0; e < ELEMENTS; e++)
        if (lane + e * LANES < head_dim)
            vector[lane + e * LANES] = element[e];
}

/* S5: scale · q·k, the same in every lane. */
static inline __device__ float row_score(const float q[ELEMENTS], const float *k_row, int head_dim,
                                         float scale, int lane)
{
    float k[ELEMENTS];
    row_load(k, k_row, head_dim, lane);

    float sum = 0.0f;
    for (int e = 0; e < ELEMENTS; e++)
        sum += q[e] * k[e];
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(ALL_LANES, sum, distance);
    return scale * sum;
}

/* S6, S7, S10 and, since the state is in registers, S11 to S13: the query sees one more key, of
 * score S_ij. */
static inline __device__ void row_see(struct row_state *state, float S_ij, const float *v_row,
                                      int head_dim, int lane)
{
    float v[ELEMENTS];
    row_load(v, v_row, head_dim, lane);

    const float m_ij = fmaxf(state->m, S_ij);
    const float old = state->l * expf(state->m - m_ij); /* 0 for the first key: e^(-inf) */
    const float p = expf(S_ij - m_ij);
    const float l_ij = old + p;
    for (int e = 0; e < ELEMENTS; e++)
        state->o[e] = state->o[e] * (old / l_ij) + (p / l_ij) * v[e];
    state->m = m_ij;
    state->l = l_ij;
}

#endif
