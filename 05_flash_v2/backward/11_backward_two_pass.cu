/*
 * Idea: no atomics. A second kernel has tiles of queries and passes over the keys, flash_v2's order
 * of loops: there dQ is the sum that stays on chip. Both kernels make P and dS, so there are seven
 * products in place of five; but every sum has one order, and the same inputs give the same bits.
 *
 *     a block per tile of keys:     for each tile i of queries: dV += Pᵀ·dO_i, dK += scale ·
 * dSᵀ·Q_i a block per tile of queries:  for each tile j of keys:    dQ += scale · dS·K_j in both P
 * = e^(scale · Q·Kᵀ - LSE), dS = P∘(dO·Vᵀ - D)
 *
 * Q, O, dO, dQ [batch, heads, seq_q, head_dim], K, V, dK, dV [batch, kv_heads, seq_kv, head_dim],
 * LSE [batch, heads, seq_q], all row-major. Workspace: D = rowsum(dO∘O) [batch, heads, seq_q].
 *
 * The first kernel is backward_recompute without dQ. In the second, a block of Br·Bc threads owns
 * Br queries of one head; thread (row, col) has the elements col, col + Bc, ... of a row of dQ.
 *
 * Cost, in floats, per key/value head: the first kernel loads K and V once, Q and dO once per tile
 * of keys; the second loads Q and dO once, K and V once per tile of queries. No atomics.
 */
#include "05_flash_v2/05_step.h"
#include "device/tiles.cuh"

#include <math_constants.h>

static const int MAX_HEAD_DIM = 128;

/* Copies `rows` rows [rows, d] into a tile, with zeros past the last. */
template <int ROWS, int THREADS>
static __device__ void copy_rows(float tile[ROWS][MAX_HEAD_DIM + 1], const float *from, int rows,
                                 int d)
{
    for (int e = threadIdx.x; e < ROWS * d; e += THREADS)
        tile[e / d][e % d] = e < rows * d ? from[e] : 0.0f;
}

/* P and dS of one pair: of a row of Q and dO and a row of K and V in shared memory. */
static __device__ void score(const float *q, const float *dO, const float *k, const float *v,
                             float LSE, float D, const struct attention_backward *call, float *P,
                             float *dS)
{
    float S = 0.0f, dP = 0.0f;
    for (int c = 0; c < call->head_dim; c++) {
        S += q[c] * k[c];
        dP += dO[c] * v[c];
    }
    /* A query that sees no key has no weight; e^((-inf) - (-inf)) would be NaN. */
    *P = LSE == -CUDART_INF_F ? 0.0f : expf(call->scale * S - LSE);
    *dS = *P * (dP - D);
}

template <int Br, int Bc>
__global__ void two_pass_keys(const float *Q, const float *K, const float *V, const float *dO,
                              const float *D, float *dK, float *dV,
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

    copy_rows<Bc, Br * Bc>(K_tile, K + first_key * d, keys, d);
    copy_rows<Bc, Br * Bc>(V_tile, V + first_key * d, keys, d);
    float dk[MAX_HEAD_DIM / Bc] = {}, dv[MAX_HEAD_DIM / Bc] = {};

    for (int i0 = 0; i0 < all_queries; i0 += Br) {
        const int queries = min(Br, all_queries - i0);
        const size_t query = first_query + i0 + row;
        __syncthreads(); /* every thread is done with the previous Q, dO, P and dS */
        copy_rows<Br, Br * Bc>(Q_tile, Q + (first_query + i0) * d, queries, d);
        copy_rows<Br, Br * Bc>(dO_tile, dO + (first_query + i0) * d, queries, d);
        __syncthreads(); /* the tiles are complete before any score */

        const bool inside = row < queries && col < keys;
        score(Q_tile[row], dO_tile[row], K_tile[col], V_tile[col],
              inside ? call.LSE[query] : -CUDART_INF_F, inside ? D[query] : 0.0f, &call,
              &P_tile[row][col], &dS_tile[row][col]);
        __syncthreads(); /* P and dS are complete before a thread reads their columns */

#pragma unroll
        for (int n = 0; n < MAX_HEAD_DIM / Bc; n++) {
            const int c = n * Bc + col;
            for (int t = 0; c < d && t < Br; t++) {
                dv[n] += P_tile[t][row] * dO_tile[t][c];
                dk[n] += dS_tile[t][row] * Q_tile[t][c];
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
__global__ void two_pass_queries(const float *Q, const float *K, const float *V, const float *dO,
                                 const float *D, float *dQ, const struct attention_backward call)
{
    const int d = call.head_dim;
    __shared__ float Q_tile[Br][MAX_HEAD_DIM + 1], dO_tile[Br][MAX_HEAD_DIM + 1];
    __shared__ float K_tile[Bc][MAX_HEAD_DIM + 1], V_tile[Bc][MAX_HEAD_DIM + 1];
    __shared__ float dS_tile[Br][Bc];

    const int row = threadIdx.x / Bc; /* of the tile of queries */
    const int col = threadIdx.x % Bc; /* of the tile of keys */

    /* This block's queries, and their head's keys. */
    const int tiles = ceil_div(call.seq_q, Br);
    const int head = blockIdx.x / tiles;
    const int i0 = blockIdx.x % tiles * Br;
    const int queries = min(Br, call.seq_q - i0);
    const size_t first_query = (size_t)head * call.seq_q + i0, query = first_query + row;
    const size_t first_key = (size_t)(head / (call.heads / call.kv_heads)) * call.seq_kv;

    copy_rows<Br, Br * Bc>(Q_tile, Q + first_query * d, queries, d);
    copy_rows<Br, Br * Bc>(dO_tile, dO + first_query * d, queries, d);
    const float LSE = row < queries ? call.LSE[query] : -CUDART_INF_F;
    const float D_row = row < queries ? D[query] : 0.0f;
    float dq[MAX_HEAD_DIM / Bc] = {};

    for (int j0 = 0; j0 < call.seq_kv; j0 += Bc) {
        const int keys = min(Bc, call.seq_kv - j0);
        __syncthreads(); /* every thread is done with the previous K, V and dS */
        copy_rows<Bc, Br * Bc>(K_tile, K + (first_key + j0) * d, keys, d);
        copy_rows<Bc, Br * Bc>(V_tile, V + (first_key + j0) * d, keys, d);
        __syncthreads(); /* the tiles are complete before any score */

        float P;
        score(Q_tile[row], dO_tile[row], K_tile[col], V_tile[col], col < keys ? LSE : -CUDART_INF_F,
              D_row, &call, &P, &dS_tile[row][col]);
        __syncthreads(); /* dS is complete before a thread reads its row */

#pragma unroll
        for (int n = 0; n < MAX_HEAD_DIM / Bc; n++) {
            const int c = n * Bc + col;
            for (int t = 0; c < d && t < Bc; t++)
                dq[n] += dS_tile[row][t] * K_tile[t][c];
        }
    }

#pragma unroll
    for (int n = 0; n < MAX_HEAD_DIM / Bc; n++)
        if (row < queries && n * Bc + col < d)
            dQ[query * d + n * Bc + col] = call.scale * dq[n];
}

template <int Br, int Bc>
static cudaError_t launch(const struct attention_backward *call)
{
    const float *Q = (const float *)call->Q, *K = (const float *)call->K,
                *V = (const float *)call->V, *dO = (const float *)call->dO;
    float *D = (float *)call->workspace;
    const cudaError_t status = attention_backward_row_dots(call, D);
    if (status != cudaSuccess)
        return status;

    const int key_tiles = call->batch * call->kv_heads * ceil_div(call->seq_kv, Bc);
    const int query_tiles = call->batch * call->heads * ceil_div(call->seq_q, Br);
    two_pass_keys<Br, Bc><<<key_tiles, Br * Bc, 0, call->stream>>>(
        Q, K, V, dO, D, (float *)call->dK, (float *)call->dV, *call);
    two_pass_queries<Br, Bc>
        <<<query_tiles, Br * Bc, 0, call->stream>>>(Q, K, V, dO, D, (float *)call->dQ, *call);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_backward_two_pass(const struct attention_backward *call)
{
    return launch<16, 16>(call);
}
