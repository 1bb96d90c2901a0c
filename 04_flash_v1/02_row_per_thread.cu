/*
 * Idea: one query, all keys, no matrix of scores. q, m and l are read once per query and stay in
 * registers; O is brought up to date in memory, key by key.
 *
 *     for each key j:   S = scale · q·k_j       m' = max(m, S)       l' = l·e^(m - m') + e^(S - m')
 *                       O = O · l·e^(m - m') / l' + v_j · e^(S - m') / l'        m = m', l = l'
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], all row-major. "Row" counts the queries of all heads.
 *
 * A thread owns one query and all of its head_dim features. The statements carry the numbers of the
 * loop nest in the lesson.
 *
 * Cost, in floats, per query: q once, every key and every value once, O loaded and stored once per
 * key: head_dim·(1 + 3·seq_kv) loads and head_dim·(1 + seq_kv) + 1 stores. Neighbouring threads own
 * neighbouring queries, so what they load of Q and O lies head_dim floats apart.
 */
#include "04_step.h"
#include "device/tiles.cuh"

#include <math_constants.h>

static const int THREADS = 128;
static const int MAX_HEAD_DIM = 128;
static const int ELEMENTS = MAX_HEAD_DIM; /* of a vector, per thread */

__global__ void row_per_thread(const float *Q, const float *K, const float *V, float *O, float *LSE,
                               const struct attention shape, int rows)
{
    const int d = shape.head_dim;
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows)
        return;

    const int head = row / shape.seq_q;
    const size_t first_query = (size_t)row * d;
    const size_t first_key = (size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv * d;

    float q[ELEMENTS];
#pragma unroll
    for (int c = 0; c < ELEMENTS; c++)
        q[c] = c < d ? Q[first_query + c] : 0.0f; /* S1 */
    float m = -CUDART_INF_F, l = 0.0f;            /* S3, S4 */
    for (int c = 0; c < d; c++)
        O[first_query + c] = 0.0f;

    for (int j = 0; j < shape.seq_kv; j++) {
        const float *k = K + first_key + (size_t)j * d; /* S2 */
        const float *v = V + first_key + (size_t)j * d; /* S9 */
        float sum = 0.0f;
#pragma unroll
        for (int c = 0; c < ELEMENTS; c++)
            sum += c < d ? q[c] * k[c] : 0.0f;
        const float S_ij = shape.scale * sum; /* S5 */

        const float m_ij = fmaxf(m, S_ij); /* S6 */
        /* As long as every score is -inf, e^(S - 0) = 0; e^((-inf) - (-inf)) would be NaN. */
        const float top = m_ij == -CUDART_INF_F ? 0.0f : m_ij;
        const float old = l * expf(m - top);
        const float p = expf(S_ij - top);
        const float l_ij = old + p; /* S7 */
        const float weight = l_ij == 0.0f ? 0.0f : 1.0f / l_ij;
        for (int c = 0; c < d; c++) /* S8, S10, S11 */
            O[first_query + c] = O[first_query + c] * (old * weight) + v[c] * (p * weight);
        m = m_ij; /* S12 */
        l = l_ij; /* S13 */
    }

    if (LSE != NULL)
        LSE[row] = m + logf(l);
}

extern "C" cudaError_t attention_row_per_thread(const struct attention *call)
{
    const int rows = (int)attention_query_rows(call);
    const int blocks = ceil_div(rows, THREADS);
    row_per_thread<<<blocks, THREADS, 0, call->stream>>>(
        (const float *)call->Q, (const float *)call->K, (const float *)call->V, (float *)call->O,
        call->LSE, *call, rows);
    return cudaGetLastError();
}
