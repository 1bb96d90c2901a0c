/*
 * Idea: queries and the elements of d in parallel, keys in order, and everything that the order
 * carries in registers.
 *
 *     for each key j:   S = scale · q·k_j       m' = max(m, S)       l' = l·e^(m - m') + e^(S - m')
 *                       o = o · l·e^(m - m') / l' + v_j · e^(S - m') / l'        m = m', l = l'
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], all row-major. "Row" counts the queries of all heads.
 *
 * A warp owns one query, a lane up to four of its head_dim elements (row_state.cuh). No block-wide
 * barrier, no shared memory, no score in global memory.
 *
 * Cost: q once, every key and every value once per query: head_dim·(1 + 2·seq_kv) loads per query.
 * The matrix of scores is gone; what is left is that queries share no load of K and V.
 */
#include "04_step.h"
#include "row_state.cuh"
#include "tiles.cuh"

static const int WARPS = 4;

__global__ void row_parallel(const float *Q, const float *K, const float *V, float *O, float *LSE,
                             const struct attention shape, int rows)
{
    const int d = shape.head_dim;
    const int lane = threadIdx.x % LANES;
    const int row = blockIdx.x * WARPS + threadIdx.x / LANES;
    if (row >= rows) /* the whole warp leaves, so the shuffles of the others miss nobody */
        return;

    const int head = row / shape.seq_q;
    const size_t first_key = (size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv;

    float q[ELEMENTS];
    row_load(q, Q + (size_t)row * d, d, lane);
    struct row_state state = row_empty();
    for (int j = 0; j < shape.seq_kv; j++) {
        const float S_ij = row_score(q, K + (first_key + j) * d, d, shape.scale, lane);
        row_see(&state, S_ij, V + (first_key + j) * d, d, lane);
    }

    row_store(O + (size_t)row * d, state.o, d, lane);
    if (LSE != NULL && lane == 0)
        LSE[row] = state.m + logf(state.l);
}

extern "C" cudaError_t attention_row_parallel(const struct attention *call)
{
    const int rows = (int)attention_query_rows(call);
    row_parallel<<<ceil_div(rows, WARPS), WARPS * LANES, 0, call->stream>>>(
        (const float *)call->Q, (const float *)call->K, (const float *)call->V, (float *)call->O,
        call->LSE, *call, rows);
    return cudaGetLastError();
}
