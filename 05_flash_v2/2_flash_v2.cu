/*
 * Idea: flash_v2_exchanged without its idle threads and bank conflicts. K lies transposed in shared
 * memory, and the Bc threads of a row find its maximum and sum together, by shuffles.
 *
 *     for each tile j of Bc keys:  S = scale · Q·K_jᵀ        m' = max(m, rowmax S)
 *                                  P = e^(S - m')            l  = l · e^(m - m') + rowsum P
 *                                                            O  = O · e^(m - m') + P·V_j
 *     at the end:                  O = O / l                 LSE = m + ln l
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], row-major.
 *
 * A block owns Br rows of O of one head and has Br·Bc threads. Thread (row, col) computes the score
 * of key col, and the elements col, col + Bc, ... of the row of O. The Bc threads of a row sit in
 * one warp, so m and l live in a register of each and no barrier is needed around them. Of K,
 * neighbouring threads hold neighbouring keys: transposed, these are neighbouring floats. Rows of K
 * and Q are padded by one float: a warp that stores a column of K, or reads one of several rows of
 * Q, meets no bank twice (for a head_dim that is a multiple of 32).
 *
 * Cost, in floats, per head: Q, O and LSE once; K and V once per tile of queries. Every
 * multiply-add reads two operands from shared memory. Shared memory at Br = Bc = 16: 26 KB.
 *
 * Source: Dao, FlashAttention-2 (arXiv:2307.08691), algorithm 1.
 */
#include "05_step.h"
#include "device/tiles.cuh"
#include "device/warp.cuh"

#include <math_constants.h>

static const int MAX_HEAD_DIM = 128;

template <int Br, int Bc>
__global__ void flash_v2(const float *Q, const float *K, const float *V, float *O, float *LSE,
                         const struct attention shape)
{
    static_assert(WARP % Bc == 0 && Br * Bc % WARP == 0, "a row lies inside one full warp");
    const int d = shape.head_dim;
    __shared__ float Q_tile[Br][MAX_HEAD_DIM + 1];
    __shared__ float K_transposed[MAX_HEAD_DIM][Bc + 1];
    __shared__ float V_tile[Bc][MAX_HEAD_DIM];
    __shared__ float P_tile[Br][Bc];

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
    for (int e = threadIdx.x; e < Br * d; e += Br * Bc) /* zeros past the last query */
        Q_tile[e / d][e % d] = e < queries * d ? Q[(first_query + i0) * d + e] : 0.0f;
    float m = -CUDART_INF_F, l = 0.0f, o[MAX_HEAD_DIM / Bc] = {};

    for (int j0 = 0; j0 < shape.seq_kv; j0 += Bc) {
        const int keys = min(Bc, shape.seq_kv - j0);
        __syncthreads(); /* every thread is done with the previous K and V */
        for (int e = threadIdx.x; e < Bc * d; e += Br * Bc) { /* zeros past the last key */
            K_transposed[e % d][e / d] = e < keys * d ? K[(first_key + j0) * d + e] : 0.0f;
            V_tile[e / d][e % d] = e < keys * d ? V[(first_key + j0) * d + e] : 0.0f;
        }
        __syncthreads(); /* the tiles are complete before any score */

        float sum = 0.0f;
        for (int k = 0; k < d; k++)
            sum += Q_tile[row][k] * K_transposed[k][col];
        const float S = col < keys ? shape.scale * sum : -CUDART_INF_F; /* no key, no weight */

        const float m_new = fmaxf(m, warp_max(S, Bc));
        /* While every score is -inf, e^(S - 0) = 0; e^((-inf) - (-inf)) would be NaN. */
        const float top = m_new == -CUDART_INF_F ? 0.0f : m_new;
        const float p = expf(S - top);
        const float rescale = expf(m - top); /* 0 at the first tile: m is -inf */
        l = l * rescale + warp_sum(p, Bc);
        m = m_new;
        P_tile[row][col] = p;
        __syncwarp(); /* the warp has stored its rows of P before it reads them */

#pragma unroll
        for (int n = 0; n < MAX_HEAD_DIM / Bc; n++) {
            const int c = n * Bc + col; /* of the row of O */
            if (c < d) {
                float sum = 0.0f;
                for (int j = 0; j < Bc; j++)
                    sum += P_tile[row][j] * V_tile[j][c];
                o[n] = rescale * o[n] + sum;
            }
        }
    }

    const float weight = l == 0.0f ? 0.0f : 1.0f / l;
    if (row < queries && col == 0 && LSE != NULL)
        LSE[query] = m + logf(l);
#pragma unroll
    for (int n = 0; n < MAX_HEAD_DIM / Bc; n++)
        if (row < queries && n * Bc + col < d)
            O[query * d + n * Bc + col] = o[n] * weight;
}

template <int Br, int Bc>
static cudaError_t launch(const struct attention *call)
{
    const int blocks = call->batch * call->heads * ceil_div(call->seq_q, Br);
    flash_v2<Br, Bc><<<blocks, Br * Bc, 0, call->stream>>>(
        (const float *)call->Q, (const float *)call->K, (const float *)call->V, (float *)call->O,
        call->LSE, *call);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_flash_v2(const struct attention *call)
{
    return launch<16, 16>(call);
}
