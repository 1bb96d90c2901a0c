/*
 * Idea: the keys in parallel inside one block. Its warps see different keys, each as row_parallel
 * does, and what they found is merged on chip: no order, no atomics, no state in global memory.
 *
 *     of warp w alone:   m_w, l_w, o_w by the loop of row_parallel over the keys w, w + WARPS, ...
 *     of all:            M = max over w of m_w                 L = sum over w of l_w·e^(m_w - M)
 *                        O = sum over w of o_w · l_w·e^(m_w - M) / L
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], all row-major. "Row" counts the queries of all heads.
 *
 * A block owns one query, a warp every WARPS-th of its keys. This is the reduction that the
 * grid-wide sums of key_parallel_atomic wanted to be: the same associative merge, over 8 partners
 * that share a memory.
 *
 * Cost: global traffic as row_parallel, but each warp loads q; WARPS·(head_dim + 2) floats through
 * shared memory and one barrier per query.
 */
#include "04_step.h"
#include "device/warp.cuh"

#include <math_constants.h>

static const int WARPS = 8;
static const int MAX_HEAD_DIM = 128;
static const int ELEMENTS = MAX_HEAD_DIM / WARP; /* of a vector, per lane */
static_assert(MAX_HEAD_DIM <= WARPS * WARP, "the merge has a thread for every element of O");

__global__ void key_parallel_block(const float *Q, const float *K, const float *V, float *O,
                                   float *LSE, const struct attention shape)
{
    __shared__ float m_warp[WARPS], l_warp[WARPS], o_warp[WARPS][MAX_HEAD_DIM];
    const int d = shape.head_dim;
    const int lane = threadIdx.x % WARP;
    const int warp = threadIdx.x / WARP;
    const int row = blockIdx.x;

    const int head = row / shape.seq_q;
    const size_t first_query = (size_t)row * d;
    const size_t first_key = (size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv * d;

    float q[ELEMENTS], o[ELEMENTS] = {};
    for (int e = 0, c = lane; e < ELEMENTS; e++, c += WARP)
        q[e] = c < d ? Q[first_query + c] : 0.0f; /* S1 */
    float m = -CUDART_INF_F, l = 0.0f;            /* S3, S4 */

    for (int j = warp; j < shape.seq_kv; j += WARPS) {
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

    for (int e = 0; e < ELEMENTS; e++)
        o_warp[warp][lane + e * WARP] = o[e];
    if (lane == 0) {
        m_warp[warp] = m;
        l_warp[warp] = l;
    }
    __syncthreads(); /* every warp has left its state before any thread merges them */

    m = warp_max(lane < WARPS ? m_warp[lane] : -CUDART_INF_F);
    const float top = m == -CUDART_INF_F ? 0.0f : m;
    /* A warp that saw no key has l = 0 and weighs nothing. */
    l = warp_sum(lane < WARPS ? l_warp[lane] * expf(m_warp[lane] - top) : 0.0f);
    const float weight = l == 0.0f ? 0.0f : 1.0f / l;

    const int c = threadIdx.x;
    float sum = 0.0f;
    for (int w = 0; c < d && w < WARPS; w++)
        sum += o_warp[w][c] * (l_warp[w] * expf(m_warp[w] - top) * weight);
    if (c < d)
        O[first_query + c] = sum; /* S11 */
    if (LSE != NULL && threadIdx.x == 0)
        LSE[row] = m + logf(l);
}

extern "C" cudaError_t attention_key_parallel_block(const struct attention *call)
{
    const int rows = (int)attention_query_rows(call);
    key_parallel_block<<<rows, WARPS * WARP, 0, call->stream>>>(
        (const float *)call->Q, (const float *)call->K, (const float *)call->V, (float *)call->O,
        call->LSE, *call);
    return cudaGetLastError();
}
