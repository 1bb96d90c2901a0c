/*
 * Idea: queries and features in parallel, keys in order, and what the order carries in registers.
 *
 *     for each key j:   S = scale · q·k_j       m' = max(m, S)       l' = l·e^(m - m') + e^(S - m')
 *                       o = o · l·e^(m - m') / l' + v_j · e^(S - m') / l'        m = m', l = l'
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], all row-major. "Row" counts the queries of all heads.
 *
 * A warp owns one query. Lane `lane` owns the features c = lane, lane + 32, lane + 64, lane + 96 of
 * every vector, as far as they exist, so neighbouring lanes load neighbours. The score is the one
 * thing that all features share: the lanes add it up with shuffles.
 *
 * Cost, in floats, per query: q once, every key and every value once, head_dim·(1 + 2·seq_kv) loads
 * and head_dim + 1 stores. What is left is that queries share no load of K and V.
 */
#include "04_step.h"
#include "device/tiles.cuh"
#include "device/warp.cuh"

#include <math_constants.h>

static const int WARPS = 4;
static const int MAX_HEAD_DIM = 128;
static const int ELEMENTS = MAX_HEAD_DIM / WARP; /* of a vector, per lane */

__global__ void row_parallel(const float *Q, const float *K, const float *V, float *O, float *LSE,
                             const struct attention shape, int rows)
{
    const int d = shape.head_dim;
    const int lane = threadIdx.x % WARP;
    const int row = blockIdx.x * WARPS + threadIdx.x / WARP;
    if (row >= rows) /* the whole warp leaves */
        return;

    const int head = row / shape.seq_q;
    const size_t first_query = (size_t)row * d;
    const size_t first_key = (size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv * d;

    float q[ELEMENTS], o[ELEMENTS] = {};
    for (int e = 0, c = lane; e < ELEMENTS; e++, c += WARP)
        q[e] = c < d ? Q[first_query + c] : 0.0f; /* S1 */
    float m = -CUDART_INF_F, l = 0.0f;            /* S3, S4 */

    for (int j = 0; j < shape.seq_kv; j++) {
        const float *k = K + first_key + (size_t)j * d; /* S2 */
        const float *v = V + first_key + (size_t)j * d; /* S9 */
        float sum = 0.0f;
        for (int e = 0, c = lane; e < ELEMENTS; e++, c += WARP)
            sum += c < d ? q[e] * k[c] : 0.0f;
        const float S_ij = shape.scale * warp_sum(sum); /* S5 */

        const float m_ij = fmaxf(m, S_ij); /* S6 */
        /* As long as every score is -inf, e^(S - 0) = 0; e^((-inf) - (-inf)) would be NaN. */
        const float top = m_ij == -CUDART_INF_F ? 0.0f : m_ij;
        const float old = l * expf(m - top);
        const float p = expf(S_ij - top);
        const float l_ij = old + p; /* S7 */
        const float weight = l_ij == 0.0f ? 0.0f : 1.0f / l_ij;
        for (int e = 0, c = lane; e < ELEMENTS; e++, c += WARP) /* S10 */
            o[e] = o[e] * (old * weight) + (c < d ? v[c] : 0.0f) * (p * weight);
        m = m_ij;
        l = l_ij;
    }

    for (int e = 0, c = lane; e < ELEMENTS; e++, c += WARP)
        if (c < d)
            O[first_query + c] = o[e]; /* S11 */
    if (LSE != NULL && lane == 0)
        LSE[row] = m + logf(l);
}

extern "C" cudaError_t attention_row_parallel(const struct attention *call)
{
    const int rows = (int)attention_query_rows(call);
    const int blocks = ceil_div(rows, WARPS);
    row_parallel<<<blocks, WARPS * WARP, 0, call->stream>>>(
        (const float *)call->Q, (const float *)call->K, (const float *)call->V, (float *)call->O,
        call->LSE, *call, rows);
    return cudaGetLastError();
}
