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
 * Cost: global traffic as row_parallel; WARPS·(head_dim + 2) floats through shared memory and one
 * barrier per query.
 */
#include "04_step.h"
#include "row_state.cuh"

static const int WARPS = 8;
static const int THREADS = WARPS * LANES;
static_assert(MAX_HEAD_DIM <= THREADS, "the merge has a thread for every element of O");

__global__ void key_parallel_block(const float *Q, const float *K, const float *V, float *O,
                                   float *LSE, const struct attention shape)
{
    __shared__ float m_warp[WARPS], l_warp[WARPS], o_warp[WARPS][MAX_HEAD_DIM];

    const int d = shape.head_dim;
    const int lane = threadIdx.x % LANES;
    const int warp = threadIdx.x / LANES;
    const int row = blockIdx.x;

    const int head = row / shape.seq_q;
    const size_t first_key = (size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv;

    float q[ELEMENTS];
    row_load(q, Q + (size_t)row * d, d, lane);
    struct row_state state = row_empty();
    for (int j = warp; j < shape.seq_kv; j += WARPS) {
        const float S_ij = row_score(q, K + (first_key + j) * d, d, shape.scale, lane);
        row_see(&state, S_ij, V + (first_key + j) * d, d, lane);
    }

    row_store(o_warp[warp], state.o, d, lane);
    if (lane == 0) {
        m_warp[warp] = state.m;
        l_warp[warp] = state.l;
    }
    __syncthreads(); /* every warp has left its state before any thread merges them */

    float M = -CUDART_INF_F;
    for (int w = 0; w < WARPS; w++)
        M = fmaxf(M, m_warp[w]);

    /* A warp that saw no key has l = 0 and m = -inf; it weighs nothing, also when no warp saw one
     * and M is -inf. */
    float weight[WARPS], L = 0.0f;
    for (int w = 0; w < WARPS; w++) {
        weight[w] = l_warp[w] > 0.0f ? l_warp[w] * expf(m_warp[w] - M) : 0.0f;
        L += weight[w];
    }

    const int c = threadIdx.x;
    if (c < d) {
        float o = 0.0f;
        for (int w = 0; w < WARPS; w++)
            o += weight[w] > 0.0f ? o_warp[w][c] * (weight[w] / L) : 0.0f;
        O[(size_t)row * d + c] = o;
    }
    if (LSE != NULL && threadIdx.x == 0)
        LSE[row] = M + logf(L);
}

extern "C" cudaError_t attention_key_parallel_block(const struct attention *call)
{
    const int rows = (int)attention_query_rows(call);
    key_parallel_block<<<rows, THREADS, 0, call->stream>>>(
        (const float *)call->Q, (const float *)call->K, (const float *)call->V, (float *)call->O,
        call->LSE, *call);
    return cudaGetLastError();
}
