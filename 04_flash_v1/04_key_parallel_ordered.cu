/*
 * Idea: the keys in parallel as well. Every chunk of keys has its own warp, and a query's warps
 * take turns, in the chunks' order, to merge their results into m, l and O in global memory.
 *
 *     of a chunk alone:   m, l, o by the loop of row_parallel
 *     at its turn:        M = max(m, m')        L = l·e^(m - M) + l'·e^(m' - M)
 *                         O = o · l·e^(m - M) / L + O' · l'·e^(m' - M) / L      then the next turn
 *
 * where m', l' and O' are what the chunks before it left in memory.
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], all row-major. Workspace: m, l and turn of each query, and the ticket counter.
 *
 * Waiting for another block is safe only when that block is sure to be running. Blocks start in no
 * promised order and not all at once, so a warp does not take its work from its block number: it
 * draws a ticket when it starts. Whoever holds ticket t knows that the tickets below t were drawn
 * by warps that already run, and its turn depends on those alone. Tickets go through all queries
 * before the next chunk, so the warp that one waits for started long ago.
 *
 * Cost: K and V once per query, as row_parallel; O, l and m stored by every chunk and loaded by
 * every chunk but the first; and time spent waiting.
 */
#include "04_step.h"
#include "harness/refusal.h"
#include "device/tiles.cuh"
#include "device/warp.cuh"

#include <math_constants.h>

static const int WARPS = 4;
static const int CHUNK = 32; /* keys */
static const int MAX_HEAD_DIM = 128;
static const int ELEMENTS = MAX_HEAD_DIM / WARP; /* of a vector, per lane */

__global__ void key_parallel_ordered(const float *Q, const float *K, const float *V, float *O,
                                     float *LSE, const struct attention shape, int rows)
{
    int *tickets = (int *)shape.workspace, *turn = tickets + 1;
    float *all_m = (float *)(turn + rows), *all_l = all_m + rows;
    const int d = shape.head_dim;
    const int lane = threadIdx.x % WARP;
    const int ticket = __shfl_sync(FULL_MASK, lane == 0 ? atomicAdd(tickets, 1) : 0, 0);
    const int row = ticket % rows, chunk = ticket / rows;
    const int first = chunk * CHUNK, end = min(first + CHUNK, shape.seq_kv);
    if (chunk > 0 && first >= shape.seq_kv) /* the whole warp leaves */
        return;

    const int head = row / shape.seq_q;
    const size_t first_query = (size_t)row * d;
    const size_t first_key = (size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv * d;

    float q[ELEMENTS], o[ELEMENTS] = {};
    for (int e = 0, c = lane; e < ELEMENTS; e++, c += WARP)
        q[e] = c < d ? Q[first_query + c] : 0.0f; /* S1 */
    float m = -CUDART_INF_F, l = 0.0f;            /* S3, S4 */

    for (int j = first; j < end; j++) {
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

    if (chunk > 0) {
        /* One lane asks: lanes that each wait for a turn of their own may wait for one another. */
        while (lane == 0 && atomicAdd(&turn[row], 0) != chunk)
            __nanosleep(100);
        __threadfence(); /* acquire: O, l and m are not read before the turn was seen */
        __syncwarp();    /* no lane reads them before lane 0 has seen the turn */

        const float m_old = all_m[row], m_new = fmaxf(m, m_old);
        const float top = m_new == -CUDART_INF_F ? 0.0f : m_new;
        const float old = all_l[row] * expf(m_old - top);
        const float here = l * expf(m - top);
        l = old + here;
        m = m_new;
        const float weight = l == 0.0f ? 0.0f : 1.0f / l;
        for (int e = 0, c = lane; e < ELEMENTS; e++, c += WARP)
            o[e] = o[e] * (here * weight) + (c < d ? O[first_query + c] : 0.0f) * (old * weight);
    }
    __syncwarp(); /* every lane has read m and l before lane 0 replaces them */

    for (int e = 0, c = lane; e < ELEMENTS; e++, c += WARP)
        if (c < d)
            O[first_query + c] = o[e]; /* S11 */
    if (lane == 0) {
        all_m[row] = m; /* S12 */
        all_l[row] = l; /* S13 */
    }
    if (LSE != NULL && lane == 0)
        LSE[row] = m + logf(l);
    __syncwarp();    /* all lanes have stored their part of O before lane 0 passes the turn on */
    __threadfence(); /* release: whoever sees the new turn sees O, l and m as they are now */
    if (lane == 0)
        atomicExch(&turn[row], chunk + 1);
}

extern "C" cudaError_t attention_key_parallel_ordered(const struct attention *call)
{
    const int rows = (int)attention_query_rows(call);
    const size_t warps = (size_t)rows * max(ceil_div(call->seq_kv, CHUNK), 1);
    const int blocks = (int)(warps / WARPS + 1);
    cudaError_t status = require_blocks(warps + 2 * WARPS); /* tickets are counted with an int */
    if (status == cudaSuccess) /* no ticket is drawn, and it is the first chunk's turn */
        status = cudaMemsetAsync(call->workspace, 0, (rows + 1) * sizeof(int), call->stream);
    if (status != cudaSuccess)
        return status;
    key_parallel_ordered<<<blocks, WARPS * WARP, 0, call->stream>>>(
        (const float *)call->Q, (const float *)call->K, (const float *)call->V, (float *)call->O,
        call->LSE, *call, rows);
    return cudaGetLastError();
}
