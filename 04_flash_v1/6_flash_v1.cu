/*
 * Idea: FlashAttention. Tiles of keys and values stay on chip while all queries come by; a query's
 * O, l and m wait in global memory between one tile of keys and the next. The scores never leave
 * the chip.
 *
 *     for each tile j of keys, for each tile i of queries:
 *         S = scale · Q_i·K_jᵀ     m~ = rowmax S     P = e^(S - m~)     l~ = rowsum P
 *         m' = max(m, m~)          l' = l·e^(m - m') + l~·e^(m~ - m')
 *         O  = O · l·e^(m - m') / l' + P·V_j · e^(m~ - m') / l'         m = m', l = l'
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], all row-major. Workspace: l and m, one each per query.
 *
 * A block owns one head, all of it. Its Br·Bc threads own one element each of a tile S [Br][Bc];
 * then one thread a row of it; then each every Bc-th element of a row of O.
 *
 * Cost, in floats, per head: K and V once; Q once per tile of keys; O, l and m loaded and stored
 * once per tile of keys (and stored once at the beginning). 4·(Br + 2·Bc)·head_dim + 4·Br·Bc bytes
 * of shared memory. Two blocks of one head would overwrite each other's O, so there are only
 * batch·heads blocks.
 *
 * Source: Dao et al., FlashAttention (arXiv:2205.14135), algorithm 1.
 */
#include "04_step.h"
#include "tiles.cuh"

#include <math_constants.h>

static const int MAX_HEAD_DIM = 128;

template <int Br, int Bc>
__global__ void flash_v1(const float *Q, const float *K, const float *V, float *O, float *LSE,
                         float *l, float *m, const struct attention shape)
{
    const int d = shape.head_dim;
    extern __shared__ float shared[];
    float *Q_tile = shared;          /* [Br][d] */
    float *K_tile = Q_tile + Br * d; /* [Bc][d] */
    float *V_tile = K_tile + Bc * d; /* [Bc][d] */
    __shared__ float S_tile[Br][Bc], factor_old[Br], factor_new[Br];

    const int row = threadIdx.x / Bc; /* of the tile of queries */
    const int col = threadIdx.x % Bc; /* of the tile of keys */

    /* This block's head: a matrix [seq_q, d] of Q and O, [seq_kv, d] of K and V, [seq_q] of l, m
     * and LSE. */
    const int head = blockIdx.x;
    const size_t first_query = (size_t)head * shape.seq_q;
    const size_t first_key = (size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv;

    for (int j0 = 0; j0 < shape.seq_kv; j0 += Bc) {
        const int keys = min(Bc, shape.seq_kv - j0);
        const bool last = j0 + keys == shape.seq_kv;
        /* every thread is done with the previous K and V tile before it is overwritten */
        __syncthreads();
        for (int e = threadIdx.x; e < keys * d; e += Br * Bc) {
            K_tile[e] = K[(first_key + j0) * d + e];
            V_tile[e] = V[(first_key + j0) * d + e];
        }

        for (int i0 = 0; i0 < shape.seq_q; i0 += Br) {
            const int queries = min(Br, shape.seq_q - i0);
            const size_t query = first_query + i0 + row;
            for (int e = threadIdx.x; e < queries * d; e += Br * Bc)
                Q_tile[e] = Q[(first_query + i0) * d + e];
            /* the tiles are complete before any score; P of the previous Q tile was used */
            __syncthreads();

            if (row < queries && col < keys) {
                float sum = 0.0f;
                for (int k = 0; k < d; k++)
                    sum += Q_tile[row * d + k] * K_tile[col * d + k];
                S_tile[row][col] = shape.scale * sum;
            }
            /* every score of a row is there before its first thread looks at them */
            __syncthreads();

            if (row < queries && col == 0) {
                float m_tile = -CUDART_INF_F, l_tile = 0.0f;
                for (int c = 0; c < keys; c++)
                    m_tile = fmaxf(m_tile, S_tile[row][c]);
                for (int c = 0; c < keys; c++) {
                    S_tile[row][c] = expf(S_tile[row][c] - m_tile); /* P from here on */
                    l_tile += S_tile[row][c];
                }
                const float m_old = m[query], l_old = l[query];
                const float m_new = fmaxf(m_old, m_tile);
                const float old = l_old * expf(m_old - m_new); /* 0 at the first tile: l is 0 */
                const float l_new = old + l_tile * expf(m_tile - m_new);
                factor_old[row] = old / l_new;
                factor_new[row] = expf(m_tile - m_new) / l_new;
                l[query] = l_new;
                m[query] = m_new;
                if (last && LSE != NULL)
                    LSE[query] = m_new + logf(l_new);
            }
            __syncthreads(); /* P and the factors are there before the row's threads use them */

            for (int c = col; row < queries && c < d; c += Bc) {
                float sum = 0.0f;
                for (int j = 0; j < keys; j++)
                    sum += S_tile[row][j] * V_tile[j * d + c];
                O[query * d + c] = factor_old[row] * O[query * d + c] + factor_new[row] * sum;
            }
        }
    }
}

template <int Br, int Bc>
static cudaError_t launch(const struct attention *call)
{
    static_assert(4 * ((Br + 2 * Bc) * MAX_HEAD_DIM + Br * Bc + 2 * Br) <= 48 * 1024,
                  "fits every device");
    float *l = (float *)call->workspace;
    float *m = l + attention_query_rows(call);
    const cudaError_t status = attention_initial_state(call, l, m);
    if (status != cudaSuccess)
        return status;
    const size_t shared_bytes = (size_t)(Br + 2 * Bc) * call->head_dim * sizeof(float);
    flash_v1<Br, Bc><<<call->batch * call->heads, Br * Bc, shared_bytes, call->stream>>>(
        (const float *)call->Q, (const float *)call->K, (const float *)call->V, (float *)call->O,
        call->LSE, l, m, *call);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_flash_v1(const struct attention *call)
{
    return launch<16, 16>(call);
}
