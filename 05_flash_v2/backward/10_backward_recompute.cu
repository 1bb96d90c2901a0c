/*
 * Idea: no matrix in memory. A block has a tile of keys and passes over all queries that see it:
 * flash_v1's order of loops. P is made again, from Q, K and LSE, so the sums dK and dV stay on
 * chip. dQ sums over keys, and the keys are spread over blocks: each block adds its part by
 * atomics.
 *
 *     for each tile i of queries:  P = e^(scale · Q_i·Kᵀ - LSE_i)    dS = P∘(dO_i·Vᵀ - D_i)
 *                                  dV += Pᵀ·dO_i                      dK += scale · dSᵀ·Q_i
 *                                  dQ_i += scale · dS·K               (atomically)
 *
 * Q, O, dO, dQ [batch, heads, seq_q, head_dim], K, V, dK, dV [batch, kv_heads, seq_kv, head_dim],
 * LSE [batch, heads, seq_q], all row-major. Workspace: D = rowsum(dO∘O) [batch, heads, seq_q].
 *
 * A block of Br·Bc threads owns Bc keys of one key/value head, and takes the queries of all heads
 * that share it, which are one list in memory. Thread (row, col) has one element of the tile of P
 * and of dS; then the elements col, col + Bc, ... of row `row` of dK and dV, and of dQ. Rows of the
 * tiles are padded by one float, so a warp that reads a column of K meets no bank twice.
 *
 * Cost, in floats, per key/value head: K, V, dK and dV once; Q and dO of its queries once per tile
 * of keys, and as many atomics as Q has floats. Shared memory at Br = Bc = 16: 35 KB.
 *
 * Source: Dao et al., FlashAttention (arXiv:2205.14135), algorithm 4, with D of appendix B.2.
 */
#include "05_flash_v2/05_step.h"
#include "device/tiles.cuh"

#include <math_constants.h>

static const int MAX_HEAD_DIM = 128;

template <int Br, int Bc>
__global__ void backward_recompute(const float *Q, const float *K, const float *V, const float *dO,
                                   const float *D, float *dQ, float *dK, float *dV,
                                   const struct attention_backward call)
{
    static_assert(Br == Bc, "a thread has a row of the keys' tile and one of the queries'");
    const int d = call.head_dim;
    __shared__ float Q_tile[Br][MAX_HEAD_DIM + 1], dO_tile[Br][MAX_HEAD_DIM + 1];
    __shared__ float K_tile[Bc][MAX_HEAD_DIM + 1], V_tile[Bc][MAX_HEAD_DIM + 1];
    __shared__ float P_tile[Br][Bc], dS_tile[Br][Bc];

    const int row = threadIdx.x / Bc; /* of the tile of queries, and of dK and dV */
    const int col = threadIdx.x % Bc; /* of the tile of keys */

    /* This block's keys, and the queries of its group of heads. */
    const int tiles = ceil_div(call.seq_kv, Bc);
    const int kv_head = blockIdx.x / tiles;
    const int j0 = blockIdx.x % tiles * Bc;
    const int keys = min(Bc, call.seq_kv - j0);
    const size_t first_key = (size_t)kv_head * call.seq_kv + j0;
    const int all_queries = call.heads / call.kv_heads * call.seq_q;
    const size_t first_query = (size_t)kv_head * all_queries;

    for (int e = threadIdx.x; e < Bc * d; e += Br * Bc) { /* zeros past the last key */
        K_tile[e / d][e % d] = e < keys * d ? K[first_key * d + e] : 0.0f;
        V_tile[e / d][e % d] = e < keys * d ? V[first_key * d + e] : 0.0f;
    }
    float dk[MAX_HEAD_DIM / Bc] = {}, dv[MAX_HEAD_DIM / Bc] = {};

    for (int i0 = 0; i0 < all_queries; i0 += Br) {
        const int queries = min(Br, all_queries - i0);
        const size_t query = first_query + i0 + row;
        __syncthreads(); /* every thread is done with the previous Q, dO, P and dS */
        for (int e = threadIdx.x; e < Br * d; e += Br * Bc) { /* zeros past the last query */
            const size_t from = (first_query + i0) * d + e;
            Q_tile[e / d][e % d] = e < queries * d ? Q[from] : 0.0f;
            dO_tile[e / d][e % d] = e < queries * d ? dO[from] : 0.0f;
        }
        __syncthreads(); /* the tiles are complete before any score */

        float S = 0.0f, dP = 0.0f;
        for (int k = 0; k < d; k++) {
            S += Q_tile[row][k] * K_tile[col][k];
            dP += dO_tile[row][k] * V_tile[col][k];
        }
        const bool inside = row < queries && col < keys;
        const float LSE = inside ? call.LSE[query] : -CUDART_INF_F;
        /* A query that sees no key has no weight; e^((-inf) - (-inf)) would be NaN. */
        const float P = LSE == -CUDART_INF_F ? 0.0f : expf(call.scale * S - LSE);
        P_tile[row][col] = P;
        dS_tile[row][col] = inside ? P * (dP - D[query]) : 0.0f;
        __syncthreads(); /* P and dS are complete before a thread reads their columns */

#pragma unroll
        for (int n = 0; n < MAX_HEAD_DIM / Bc; n++) {
            const int c = n * Bc + col;
            if (c < d) {
                float dq = 0.0f;
                for (int t = 0; t < Br; t++) {
                    dv[n] += P_tile[t][row] * dO_tile[t][c];
                    dk[n] += dS_tile[t][row] * Q_tile[t][c];
                    dq += dS_tile[row][t] * K_tile[t][c];
                }
                if (row < queries)
                    atomicAdd(&dQ[query * d + c], call.scale * dq);
            }
        }
    }

#pragma unroll
    for (int n = 0; n < MAX_HEAD_DIM / Bc; n++)
        if (row < keys && n * Bc + col < d) {
            dV[(first_key + row) * d + n * Bc + col] = dv[n];
            dK[(first_key + row) * d + n * Bc + col] = call.scale * dk[n];
        }
}

template <int Br, int Bc>
static cudaError_t launch(const struct attention_backward *call)
{
    float *D = (float *)call->workspace, *dQ = (float *)call->dQ;
    const size_t bytes_Q = attention_backward_query_rows(call) * call->head_dim * sizeof(float);
    cudaError_t status = attention_backward_row_dots(call, D);
    if (status == cudaSuccess) /* what atomics add to begins at 0 */
        status = cudaMemsetAsync(dQ, 0, bytes_Q, call->stream);
    if (status != cudaSuccess)
        return status;

    const int blocks = call->batch * call->kv_heads * ceil_div(call->seq_kv, Bc);
    backward_recompute<Br, Bc><<<blocks, Br * Bc, 0, call->stream>>>(
        (const float *)call->Q, (const float *)call->K, (const float *)call->V,
        (const float *)call->dO, D, dQ, (float *)call->dK, (float *)call->dV, *call);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_backward_recompute(const struct attention_backward *call)
{
    return launch<16, 16>(call);
}
