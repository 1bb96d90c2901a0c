// needs: sm_75
/*
 * Idea: both products on the tensor cores, by warps, through CUDA's own wmma fragments.
 *
 *     for each tile of Bc keys that some query of the tile sees:
 *         S = scale · log2 e · Q·Kᵀ            m_new = max(m, rowmax S)
 *         P = 2^(S - m_new)                    l     = l · 2^(m - m_new) + rowsum P
 *                                              O     = O · 2^(m - m_new) + P·V
 *     at the end:  O = O / l                   LSE   = (m + log2 l) * ln 2
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], halves; LSE
 * [batch, heads, seq_q], float; row-major. HEAD_DIM is head_dim, a multiple of 8, rounded up to 64
 * or 128, the rest zeros.
 *
 * A block owns Br queries of one head, a warp 16 of them: S, P and O of a warp are its own. A
 * fragment is a 16 x 16 matrix spread over the 32 lanes in an order that wmma does not tell. So
 * whatever needs to know its row goes through shared memory: S is stored as floats, lane i works on
 * half of row i / 2, P is stored as halves and loaded as the left factor of the next product. O
 * stays in fragments. To rescale its rows, the factors are written out as a matrix with equal
 * columns and loaded as a fragment of the same kind: then element i of both is the same row,
 * whichever it is.
 *
 * Cost: global traffic as half's. Shared: per 16 x 16 x 16 product the right factor, 512 bytes, is
 * read by every warp; S, P and the factors make 16 * Bc * 12 + 2048 more bytes per warp and tile.
 *
 * Source: CUDA C++ Programming Guide, "Warp Matrix Functions"; Dao, FlashAttention-2
 * (arXiv:2307.08691), section 3.
 */
#include "06_step.h"
#include "half_problem.cuh"
#include "padded_tile.cuh"
#include "device/warp.cuh"

#include <mma.h>

using namespace nvcuda;

static const int Br = 64;
static const int Bc = 32;
static const int WARPS = Br / 16;
static const int THREADS = WARP * WARPS;
static const int S_COLS = Bc + 4; /* floats: a row of a warp's S */
static const int P_COLS = Bc + 8; /* halves: a row of its P */

template <int HEAD_DIM, bool CAUSAL>
__global__ void __launch_bounds__(THREADS)
    flash_wmma(const __half *Q, const __half *K, const __half *V, __half *O, float *LSE,
               struct attention shape)
{
    __shared__ __align__(32) __half tile_Q[Br][HEAD_DIM + PAD];
    __shared__ __align__(32) __half tile_K[Bc][HEAD_DIM + PAD];
    __shared__ __align__(32) __half tile_V[Bc][HEAD_DIM + PAD];
    __shared__ __align__(32) float warps_S[WARPS][16][S_COLS];
    __shared__ __align__(32) __half warps_P[WARPS][16][P_COLS];

    const int seq_q = shape.seq_q, seq_kv = shape.seq_kv, head_dim = shape.head_dim;
    const int row_tiles = ceil_div(seq_q, Br);
    const int head = blockIdx.x / row_tiles; /* over batch and heads */
    const int kv_head = head / (shape.heads / shape.kv_heads);
    const int row0 = blockIdx.x % row_tiles * Br;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    /* this lane's row, which it shares with the lane beside it */
    const int row = warp * 16 + lane / 2;
    const int half_row = lane % 2;
    float(*S)[S_COLS] = warps_S[warp];
    __half(*P)[P_COLS] = warps_P[warp];

    Q += ((size_t)head * seq_q + row0) * head_dim;
    K += (size_t)kv_head * seq_kv * head_dim;
    V += (size_t)kv_head * seq_kv * head_dim;
    O += ((size_t)head * seq_q + row0) * head_dim;

    const float scale = shape.scale * LOG2_E;
    const int seen_by_all = visible_keys<CAUSAL>(row0, seq_q, seq_kv);
    const int seen_by_any = visible_keys<CAUSAL>(row0 + Br - 1, seq_q, seq_kv);
    const int visible = visible_keys<CAUSAL>(row0 + row, seq_q, seq_kv);
    float m = -CUDART_INF_F, l = 0.0f;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[HEAD_DIM / 16];
    for (int c = 0; c < HEAD_DIM / 16; c++)
        wmma::fill_fragment(acc[c], 0.0f);

    load_tile<Br, HEAD_DIM, THREADS>(tile_Q, Q, seq_q - row0, head_dim);

    for (int k0 = 0; k0 < seen_by_any; k0 += Bc) {
        load_tile<Bc, HEAD_DIM, THREADS>(tile_K, K + (size_t)k0 * head_dim, seq_kv - k0, head_dim);
        load_tile<Bc, HEAD_DIM, THREADS>(tile_V, V + (size_t)k0 * head_dim, seq_kv - k0, head_dim);
        __syncthreads(); /* the tiles are complete before any thread reads them */

        for (int n = 0; n < Bc; n += 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> scores;
            wmma::fill_fragment(scores, 0.0f);
#pragma unroll
            for (int d = 0; d < HEAD_DIM; d += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> q;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major>
                    k; /* Kᵀ: column by column */
                wmma::load_matrix_sync(q, &tile_Q[warp * 16][d], HEAD_DIM + PAD);
                wmma::load_matrix_sync(k, &tile_K[n][d], HEAD_DIM + PAD);
                wmma::mma_sync(scores, q, k, scores);
            }
            wmma::store_matrix_sync(&S[0][n], scores, S_COLS, wmma::mem_row_major);
        }
        __syncwarp(); /* S was stored by all lanes and is read by rows */

        const bool masked = k0 + Bc > seen_by_all;
        float s[Bc / 2], m_new = m;
        for (int j = 0; j < Bc / 2; j++) {
            const int col = half_row * (Bc / 2) + j;
            s[j] = masked && k0 + col >= visible ? -CUDART_INF_F : S[lane / 2][col] * scale;
            m_new = fmaxf(m_new, s[j]);
        }
        m_new = fmaxf(m_new, __shfl_xor_sync(FULL_MASK, m_new, 1));
        __syncwarp(); /* S has been read; its first 16 columns become the matrix of factors */

        const float rescale = exp2f(m - shift_of(m_new));
        m = m_new;
        l *= rescale;
        for (int j = 0; j < Bc / 2; j++) {
            const float p = exp2f(s[j] - shift_of(m_new));
            l += p;
            P[lane / 2][half_row * (Bc / 2) + j] = __float2half_rn(p);
        }
        for (int j = 0; j < 8; j++)
            S[lane / 2][half_row * 8 + j] = rescale;
        __syncwarp(); /* P and the factors are complete before they are loaded as fragments */

        wmma::fragment<wmma::accumulator, 16, 16, 16, float> factor;
        wmma::load_matrix_sync(factor, &S[0][0], S_COLS, wmma::mem_row_major);
        for (int c = 0; c < HEAD_DIM / 16; c++)
            for (int i = 0; i < factor.num_elements; i++)
                acc[c].x[i] *= factor.x[i];

        for (int n = 0; n < Bc; n += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> p;
            wmma::load_matrix_sync(p, &P[0][n], P_COLS);
#pragma unroll
            for (int c = 0; c < HEAD_DIM / 16; c++) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> v;
                wmma::load_matrix_sync(v, &tile_V[n][16 * c], HEAD_DIM + PAD);
                wmma::mma_sync(acc[c], p, v, acc[c]);
            }
        }
        /* all threads are done with K, V, S and P before the next tile overwrites them */
        __syncthreads();
    }

    l += __shfl_xor_sync(FULL_MASK, l, 1);
    const float inverse = l == 0.0f ? 0.0f : 1.0f / l; /* a query that sees no key: 0 */
    if (LSE != NULL && half_row == 0 && row0 + row < seq_q)
        LSE[(size_t)head * seq_q + row0 + row] = (m + log2f(l)) * LN_2;

#pragma unroll
    for (int c = 0; c < HEAD_DIM / 16; c++) {
        wmma::store_matrix_sync(&S[0][0], acc[c], S_COLS, wmma::mem_row_major);
        __syncwarp(); /* 16 columns of O are complete before they are read by rows */
        const int col = 16 * c + half_row * 8;
        if (row0 + row < seq_q && col < head_dim) {
            for (int j = 0; j < 8; j++)
                O[(size_t)row * head_dim + col + j] =
                    __float2half_rn(S[lane / 2][half_row * 8 + j] * inverse);
        }
        __syncwarp(); /* and have been read before the next 16 overwrite them */
    }
}

template <int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention *call)
{
    const int blocks = call->batch * call->heads * ceil_div(call->seq_q, Br);
    flash_wmma<HEAD_DIM, CAUSAL><<<blocks, THREADS, 0, call->stream>>>(
        (const __half *)call->Q, (const __half *)call->K, (const __half *)call->V,
        (__half *)call->O, call->LSE, *call);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_wmma(const struct attention *call)
{
    if (call->head_dim <= 64)
        return call->causal ? launch<64, true>(call) : launch<64, false>(call);
    return call->causal ? launch<128, true>(call) : launch<128, false>(call);
}
