/*
 * Idea: the keys in parallel as well. Every chunk of keys has a warp of its own, and the warps of a
 * query take turns, in the order of the chunks, to merge what they found into m, l and O in global
 * memory.
 *
 *     of a chunk alone:   m', l', o' by the loop of row_parallel
 *     when it is its turn:   M = max(m, m')     L = l·e^(m - M) + l'·e^(m' - M)
 *                            O = O · l·e^(m - M) / L + o' · l'·e^(m' - M) / L  m = M, l = L, next
 *                                                                              turn
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], all row-major. Workspace: m, l and turn, one each per query, and the counter of
 * tickets.
 *
 * Waiting for another block is safe only when that block is sure to be running. Blocks start in no
 * promised order and not all at once, so a warp does not take its work from its block number: it
 * draws a ticket when it starts. Whoever holds ticket t knows that the tickets below t were drawn
 * by warps that already run, and its turn depends on those alone. Tickets go through all queries
 * before the next chunk, so that whom one waits for started long ago.
 *
 * Cost: K and V once per query, as row_parallel; O, l and m stored by every chunk and loaded by
 * every chunk but the first; and time spent waiting.
 */
#include "04_step.h"
#include "refusal.h"
#include "row_state.cuh"
#include "tiles.cuh"

static const int WARPS = 4;
static const int CHUNK = 32; /* keys */

/* At least one, so that a query without keys gets its O = 0 and LSE = -inf from somebody. */
static int chunks_of(int seq_kv)
{
    return seq_kv > 0 ? ceil_div(seq_kv, CHUNK) : 1;
}

__global__ void key_parallel_ordered(const float *Q, const float *K, const float *V, float *O,
                                     float *LSE, float *l, float *m, int *turn, int *tickets,
                                     const struct attention shape, int rows, int chunks)
{
    const int d = shape.head_dim;
    const int lane = threadIdx.x % LANES;

    int ticket = 0;
    if (lane == 0)
        ticket = atomicAdd(tickets, 1);
    ticket = __shfl_sync(ALL_LANES, ticket, 0);
    if (ticket / rows >= chunks) /* the whole warp leaves */
        return;
    const int row = ticket % rows;
    const int chunk = ticket / rows;

    const int head = row / shape.seq_q;
    const size_t first_key = (size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv;

    float q[ELEMENTS];
    row_load(q, Q + (size_t)row * d, d, lane);
    struct row_state state = row_empty();
    for (int j = chunk * CHUNK; j < min((chunk + 1) * CHUNK, shape.seq_kv); j++) {
        const float S_ij = row_score(q, K + (first_key + j) * d, d, shape.scale, lane);
        row_see(&state, S_ij, V + (first_key + j) * d, d, lane);
    }

    if (chunk > 0) {
        /* One lane asks: lanes that each wait for a turn of their own may wait for one another. */
        if (lane == 0) {
            while (atomicAdd(&turn[row], 0) != chunk)
                __nanosleep(100);
            __threadfence(); /* acquire: O, l and m are not read before the turn was seen */
        }
        __syncwarp(); /* no lane reads them before lane 0 has seen the turn */

        float o[ELEMENTS];
        row_load(o, O + (size_t)row * d, d, lane);
        const float m_before = m[row], l_before = l[row];
        const float M = fmaxf(m_before, state.m);
        const float before = l_before * expf(m_before - M);
        const float here = state.l * expf(state.m - M);
        const float L = before + here;
        for (int e = 0; e < ELEMENTS; e++)
            state.o[e] = o[e] * (before / L) + state.o[e] * (here / L);
        state.m = M;
        state.l = L;
    }
    __syncwarp(); /* every lane has read m and l before lane 0 replaces them */

    row_store(O + (size_t)row * d, state.o, d, lane);
    if (lane == 0) {
        m[row] = state.m;
        l[row] = state.l;
        if (LSE != NULL && chunk == chunks - 1)
            LSE[row] = state.m + logf(state.l);
    }
    __syncwarp(); /* all lanes have stored their part of O before lane 0 passes the turn on */
    if (lane == 0) {
        __threadfence(); /* release: whoever sees the new turn sees O, l and m as they are now */
        atomicExch(&turn[row], chunk + 1);
    }
}

extern "C" cudaError_t attention_key_parallel_ordered(const struct attention *call)
{
    const int rows = (int)attention_query_rows(call);
    const int chunks = chunks_of(call->seq_kv);
    const size_t warps = (size_t)rows * chunks;
    cudaError_t status = require_blocks(warps + WARPS); /* tickets are counted with an int */
    if (status != cudaSuccess)
        return status;

    float *l = (float *)call->workspace;
    float *m = l + rows;
    int *turn = (int *)(m + rows);
    int *tickets = turn + rows;
    if ((status = cudaMemsetAsync(turn, 0, ((size_t)rows + 1) * sizeof(int), call->stream)) !=
        cudaSuccess)
        return status;
    key_parallel_ordered<<<ceil_div((int)warps, WARPS), WARPS * LANES, 0, call->stream>>>(
        (const float *)call->Q, (const float *)call->K, (const float *)call->V, (float *)call->O,
        call->LSE, l, m, turn, tickets, *call, rows, chunks);
    return cudaGetLastError();
}
