/*
 * Idea: FlashAttention. Tiles of keys and values stay on chip while all queries pass; a query's O,
 * l and m wait in global memory between two tiles of keys. Scores never leave the chip.
 *
 *     for each tile j of keys, for each tile i of queries:
 *         S = scale · Q_i·K_jᵀ     m' = max(m, rowmax S)     P = e^(S - m')
 *         l' = l·e^(m - m') + rowsum P
 *         O  = O · l·e^(m - m') / l' + P·V_j / l'            m = m', l = l'
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], all row-major. Workspace: l and m, one each per query.
 *
 * A block of Br·Bc threads owns one whole head. Each thread owns one element of a tile S [Br][Bc];
 * then Br threads own a row of it each; then each thread owns every Bc-th element of a row of O.
 *
 * Cost, in floats, per head: K and V once; Q once per tile of keys; O, l and m loaded and stored
 * once per tile of keys (and stored once at the beginning). 4·(Br + 2·Bc)·head_dim + 4·Br·Bc bytes
 * of shared memory. Two blocks of one head would overwrite each other's O, so there are only
 * batch·heads blocks.
 *
 * Source: Dao et al., FlashAttention (arXiv:2205.14135), algorithm 1.
 */
#include "04_step.h"
#include "device/tiles.cuh"

#include <math_constants.h>

static const int MAX_HEAD_DIM = 128;

template <int Br, int Bc>
__global__ void flash_v1(const float *Q, const float *K, const float *V, float *O, float *LSE,
                         const struct attention shape)
{
    const int d = shape.head_dim;
    extern __shared__ float shared[];
    float *Q_tile = shared;          /* [Br][d] */
    float *K_tile = Q_tile + Br * d; /* [Bc][d] */
    float *V_tile = K_tile + Bc * d; /* [Bc][d] */
    __shared__ float S_tile[Br][Bc], rescale[Br], weight[Br];

    const int row = threadIdx.x / Bc; /* of the tile of queries */
    const int col = threadIdx.x % Bc; /* of the tile of keys */

    /* This block's head: [seq_q, d] of Q and O, [seq_kv, d] of K and V, [seq_q] of l, m and LSE. */
    const int head = blockIdx.x;
    const size_t first_query = (size_t)head * shape.seq_q;
    const size_t first_key = (size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv;
    float *l = (float *)shape.workspace;
    float *m = l + (size_t)gridDim.x * shape.seq_q;

    for (int j0 = 0; j0 < shape.seq_kv; j0 += Bc) {
        const int keys = min(Bc, shape.seq_kv - j0);
        const bool last = j0 + keys == shape.seq_kv;
        __syncthreads(); /* every thread is done with the previous K and V */
        for (int e = threadIdx.x; e < keys * d; e += Br * Bc) {
            K_tile[e] = K[(first_key + j0) * d + e];
            V_tile[e] = V[(first_key + j0) * d + e];
        }

        for (int i0 = 0; i0 < shape.seq_q; i0 += Br) {
            const int queries = min(Br, shape.seq_q - i0);
            const size_t query = first_query + i0 + row;
            for (int e = threadIdx.x; e < queries * d; e += Br * Bc)
                Q_tile[e] = Q[(first_query + i0) * d + e];
            __syncthreads(); /* the tiles are complete before any score; the previous P was used */

            if (row < queries && col < keys) {
                float sum = 0.0f;
                for (int k = 0; k < d; k++)
                    sum += Q_tile[row * d + k] * K_tile[col * d + k];
                S_tile[row][col] = shape.scale * sum;
            }
            __syncthreads(); /* every score of a row is there before its first thread reads it */

            if (row < queries && col == 0) {
                const float m_old = m[query], l_old = l[query];
                float m_new = m_old, l_tile = 0.0f;
                for (int c = 0; c < keys; c++)
                    m_new = fmaxf(m_new, S_tile[row][c]);
                /* While every score is -inf, e^(S - 0) = 0; e^((-inf) - (-inf)) would be NaN. */
                const float top = m_new == -CUDART_INF_F ? 0.0f : m_new;
                for (int c = 0; c < keys; c++) {
                    S_tile[row][c] = expf(S_tile[row][c] - top); /* P from here on */
                    l_tile += S_tile[row][c];
                }
                const float l_kept = l_old * expf(m_old - top); /* 0 at the first tile: l is 0 */
                const float l_new = l_kept + l_tile;
                weight[row] = l_new == 0.0f ? 0.0f : 1.0f / l_new;
                rescale[row] = l_kept * weight[row];
                l[query] = l_new;
                m[query] = m_new;
                if (last && LSE != NULL)
                    LSE[query] = m_new + logf(l_new);
            }
            __syncthreads(); /* P and the factors are there before the row's threads use them */

#pragma unroll
            for (int n = 0; n < MAX_HEAD_DIM / Bc; n++) {
                const int c = n * Bc + col; /* of the row of O */
                if (row < queries && c < d) {
                    float sum = 0.0f;
                    for (int j = 0; j < keys; j++)
                        sum += S_tile[row][j] * V_tile[j * d + c];
                    O[query * d + c] = rescale[row] * O[query * d + c] + weight[row] * sum;
                }
            }
        }
    }
}

template <int Br, int Bc>
static cudaError_t launch(const struct attention *call)
{
    static_assert(4 * ((Br + 2 * Bc) * MAX_HEAD_DIM + Br * Bc + 2 * Br) <= 48 * 1024,
                  "fits every device");
    const int blocks = call->batch * call->heads;
    const size_t shared_bytes = (size_t)(Br + 2 * Bc) * call->head_dim * sizeof(float);
    flash_v1<Br, Bc><<<blocks, Br * Bc, shared_bytes, call->stream>>>(
        (const float *)call->Q, (const float *)call->K, (const float *)call->V, (float *)call->O,
        call->LSE, *call);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_flash_v1(const struct attention *call)
{
    const cudaError_t status = attention_initial_state(call);
    return status == cudaSuccess ? launch<16, 16>(call) : status;
}
