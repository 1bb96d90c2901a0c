/*
 * Idea: flash_v1 with its two loops exchanged. Queries are outside: a block owns a tile of them and
 * walks the keys, so m, l and O stay on chip, and O is divided by l once, after the last key.
 *
 *     for each tile i of queries, for each tile j of keys:
 *         S = scale · Q_i·K_jᵀ     m' = max(m, rowmax S)     P = e^(S - m')
 *         l = l·e^(m - m') + rowsum P
 *         O = O · e^(m - m') + P·V_j                         m = m'
 *     after the last j:  O = O / l       LSE = m + ln l
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], all row-major.
 *
 * A block owns Br rows of one head. Its Br·Bc threads own one element each of a tile S [Br][Bc];
 * then one thread a row of it, with the row's m and l in registers; then each thread every Bc-th
 * element of a row of O, in registers, too.
 *
 * Cost, in floats, per head: Q, O and LSE once; K and V once per tile of queries. Shared memory:
 * 4·(Br + 2·Bc)·head_dim + 4·Br·Bc bytes. batch·heads·ceil(seq_q / Br) blocks share nothing.
 *
 * Source: Dao, FlashAttention-2 (arXiv:2307.08691), algorithm 1.
 */
#include "05_step.h"
#include "device/tiles.cuh"

#include <math_constants.h>

static const int MAX_HEAD_DIM = 128;

template <int Br, int Bc>
__global__ void flash_v2_exchanged(const float *Q, const float *K, const float *V, float *O,
                                   float *LSE, const struct attention shape)
{
    const int d = shape.head_dim;
    extern __shared__ float shared[];
    float *Q_tile = shared;          /* [Br][d] */
    float *K_tile = Q_tile + Br * d; /* [Bc][d] */
    float *V_tile = K_tile + Bc * d; /* [Bc][d] */
    __shared__ float S_tile[Br][Bc], rescale[Br], weight[Br];

    const int row = threadIdx.x / Bc; /* of the tile of queries */
    const int col = threadIdx.x % Bc; /* of the tile of keys */

    /* This block's head: a matrix [seq_q, d] of Q and O, [seq_kv, d] of K and V, [seq_q] of LSE;
     * and its tile of queries. */
    const int tiles = ceil_div(shape.seq_q, Br);
    const int head = blockIdx.x / tiles;
    const size_t first_query = (size_t)head * shape.seq_q;
    const size_t first_key = (size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv;

    const int i0 = blockIdx.x % tiles * Br;
    const int queries = min(Br, shape.seq_q - i0);
    const size_t query = first_query + i0 + row;
    for (int e = threadIdx.x; e < queries * d; e += Br * Bc)
        Q_tile[e] = Q[(first_query + i0) * d + e];
    float m = -CUDART_INF_F, l = 0.0f, o[MAX_HEAD_DIM / Bc] = {};

    for (int j0 = 0; j0 < shape.seq_kv; j0 += Bc) {
        const int keys = min(Bc, shape.seq_kv - j0);
        __syncthreads(); /* every thread is done with the previous K, V and P */
        for (int e = threadIdx.x; e < keys * d; e += Br * Bc) {
            K_tile[e] = K[(first_key + j0) * d + e];
            V_tile[e] = V[(first_key + j0) * d + e];
        }
        __syncthreads(); /* the tiles are complete before any score */

        if (row < queries && col < keys) {
            float sum = 0.0f;
            for (int k = 0; k < d; k++)
                sum += Q_tile[row * d + k] * K_tile[col * d + k];
            S_tile[row][col] = shape.scale * sum;
        }
        __syncthreads(); /* every score of a row is there before its first thread reads it */

        if (row < queries && col == 0) {
            float m_new = m, l_tile = 0.0f;
            for (int c = 0; c < keys; c++)
                m_new = fmaxf(m_new, S_tile[row][c]);
            /* While every score is -inf, e^(S - 0) = 0; e^((-inf) - (-inf)) would be NaN. */
            const float top = m_new == -CUDART_INF_F ? 0.0f : m_new;
            for (int c = 0; c < keys; c++) {
                S_tile[row][c] = expf(S_tile[row][c] - top); /* P from here on */
                l_tile += S_tile[row][c];
            }
            rescale[row] = expf(m - top); /* 0 at the first tile: m is -inf */
            l = l * rescale[row] + l_tile;
            m = m_new;
        }
        __syncthreads(); /* P and the factor are there before the row's threads use them */

#pragma unroll
        for (int n = 0; n < MAX_HEAD_DIM / Bc; n++) {
            const int c = n * Bc + col; /* of the row of O */
            if (row < queries && c < d) {
                float sum = 0.0f;
                for (int j = 0; j < keys; j++)
                    sum += S_tile[row][j] * V_tile[j * d + c];
                o[n] = rescale[row] * o[n] + sum;
            }
        }
    }

    if (row < queries && col == 0) {
        weight[row] = l == 0.0f ? 0.0f : 1.0f / l;
        if (LSE != NULL)
            LSE[query] = m + logf(l);
    }
    __syncthreads(); /* the weights are there before the rows' threads use them */
#pragma unroll
    for (int n = 0; n < MAX_HEAD_DIM / Bc; n++)
        if (row < queries && n * Bc + col < d)
            O[query * d + n * Bc + col] = o[n] * weight[row];
}

template <int Br, int Bc>
static cudaError_t launch(const struct attention *call)
{
    static_assert(4 * ((Br + 2 * Bc) * MAX_HEAD_DIM + Br * Bc + 2 * Br) <= 48 * 1024,
                  "fits every device");
    const int blocks = call->batch * call->heads * ceil_div(call->seq_q, Br);
    const size_t shared_bytes = (size_t)(Br + 2 * Bc) * call->head_dim * sizeof(float);
    flash_v2_exchanged<Br, Bc><<<blocks, Br * Bc, shared_bytes, call->stream>>>(
        (const float *)call->Q, (const float *)call->K, (const float *)call->V, (float *)call->O,
        call->LSE, *call);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_flash_v2_exchanged(const struct attention *call)
{
    return launch<16, 16>(call);
}
