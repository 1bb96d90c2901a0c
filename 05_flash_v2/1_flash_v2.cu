/*
 * Idea: FlashAttention-1 with its two loops exchanged. A block owns Br queries for good and walks
 * the keys, so m, l and O never leave the chip, and O is kept without its division by l until the
 * last key has been seen.
 *
 *     for each tile j of Bc keys:  S = scale · Q·K_jᵀ        m_new = max(m, rowmax S)
 *                                  P = exp(S - m_new)        l     = l · exp(m - m_new) + rowsum P
 *                                                            O     = O · exp(m - m_new) + P·V_j
 *     at the end:                  O = O / l                 LSE   = m + ln l
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], row-major.
 *
 * A block owns Br rows of O of one head and has Br × Bc threads. Thread (row, col) computes the
 * score of key col, and the features col, col + Bc, ... of O. The Bc threads of a row sit in one
 * warp: the row's maximum and sum pass between them by shuffles, and m and l live in a register of
 * each. K is stored transposed: neighbouring threads hold neighbouring keys, so they read
 * neighbouring floats. Rows of K and Q are padded by one float: a warp that writes down a column of
 * K, or reads one of several rows of Q, meets no bank twice (for a head_dim that is a multiple of
 * 32).
 *
 * Cost: global traffic in elements, per head: Q once, O and LSE once, K and V once per block:
 *     2·seq_q·head_dim + seq_q + ceil(seq_q / Br) · 2·seq_kv·head_dim
 * Every multiply-add reads two operands from shared memory. Shared memory at Br = Bc = 16: 26 KB.
 *
 * Source: Dao, FlashAttention-2 (arXiv:2307.08691), algorithm 1.
 */
#include "05_step.h"
#include "tiles.cuh"

#include <math_constants.h>

static const int MAX_HEAD_DIM = 128;

template <int Br, int Bc>
__global__ void flash_v2(const float *Q, const float *K, const float *V, float *O, float *LSE,
                         const struct attention shape)
{
    static_assert(32 % Bc == 0 && Br * Bc % 32 == 0,
                  "a row exchanges m, l and P inside one full warp");

    __shared__ float Q_tile[Br][MAX_HEAD_DIM + 1];
    __shared__ float K_transposed[MAX_HEAD_DIM][Bc + 1];
    __shared__ float V_tile[Bc][MAX_HEAD_DIM];
    __shared__ float P_tile[Br][Bc];

    const int d = shape.head_dim;
    const int row = threadIdx.x / Bc;
    const int col = threadIdx.x % Bc;

    /* Heads are counted through the whole batch; heads / kv_heads neighbours share a key/value
     * head. */
    const int q_tiles = ceil_div(shape.seq_q, Br);
    const int head = blockIdx.x / q_tiles;
    const int q0 = blockIdx.x % q_tiles * Br;
    const int q_rows = min(Br, shape.seq_q - q0);
    const size_t q_row0 = (size_t)head * shape.seq_q + q0;
    const size_t kv_row0 = (size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv;

    /* Whole rows lie one after another: a tile is one run of memory. Past the last query come
     * zeros. */
    for (int i = threadIdx.x; i < Br * d; i += Br * Bc)
        Q_tile[i / d][i % d] = i < q_rows * d ? Q[q_row0 * d + i] : 0.0f;

    float m = -CUDART_INF_F;
    float l = 0.0f;
    /* features col, col + Bc, ... of the row, not yet divided by l */
    float O_row[MAX_HEAD_DIM / Bc] = {};

    for (int k0 = 0; k0 < shape.seq_kv; k0 += Bc) {
        const int k_rows = min(Bc, shape.seq_kv - k0);
        const size_t tile = (kv_row0 + k0) * d;
        for (int i = threadIdx.x; i < Bc * d; i += Br * Bc) {
            K_transposed[i % d][i / d] = i < k_rows * d ? K[tile + i] : 0.0f;
            V_tile[i / d][i % d] = i < k_rows * d ? V[tile + i] : 0.0f;
        }
        /* K, V and, the first time, Q are written by all before anyone reads them */
        __syncthreads();

        float s = 0.0f;
        for (int k = 0; k < d; k++)
            s += Q_tile[row][k] * K_transposed[k][col];
        s = col < k_rows ? s * shape.scale : -CUDART_INF_F; /* a key past the end gets no weight */

        float m_new = s;
        for (int distance = Bc / 2; distance > 0; distance /= 2)
            m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, distance));
        m_new = fmaxf(m_new, m);

        const float p = expf(s - m_new);
        float p_sum = p;
        for (int distance = Bc / 2; distance > 0; distance /= 2)
            p_sum += __shfl_xor_sync(0xffffffff, p_sum, distance);

        const float rescale = expf(m - m_new); /* 0 at the first tile, where m is still -inf */
        l = l * rescale + p_sum;
        m = m_new;

        P_tile[row][col] = p;
        __syncwarp(); /* a row of P is written by its warp before the same warp reads it */

#pragma unroll
        for (int n = 0; n < MAX_HEAD_DIM / Bc; n++) {
            if (n * Bc + col < d) {
                float sum = 0.0f;
                for (int j = 0; j < Bc; j++)
                    sum += P_tile[row][j] * V_tile[j][n * Bc + col];
                O_row[n] = O_row[n] * rescale + sum;
            }
        }
        __syncthreads(); /* everyone is done with K and V before the next tile overwrites them */
    }

    if (row < q_rows) {
        const float weight = l > 0.0f ? 1.0f / l : 0.0f; /* no keys at all: O = 0 */
#pragma unroll
        for (int n = 0; n < MAX_HEAD_DIM / Bc; n++)
            if (n * Bc + col < d)
                O[(q_row0 + row) * d + n * Bc + col] = O_row[n] * weight;
        if (LSE != NULL && col == 0)
            LSE[q_row0 + row] = m + logf(l);
    }
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
