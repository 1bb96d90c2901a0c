/*
 * Idea: FlashAttention-2 with half storage and float arithmetic; a causal mask skips what it hides.
 *
 *     for each tile of Bc keys that some query of the tile sees:
 *         S = scale · log2 e · Q·Kᵀ            m_new = max(m, rowmax S)
 *         P = 2^(S - m_new)                    l     = l · 2^(m - m_new) + rowsum P
 *                                              O     = O · 2^(m - m_new) + P·V
 *     at the end:  O = O / l                   LSE   = (m + log2 l) * ln 2
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], halves; LSE
 * [batch, heads, seq_q], float; row-major. HEAD_DIM is head_dim padded with zeros to 64 or 128.
 *
 * A block owns Br queries of one head. Its 256 threads stand in 16 rows of 16: thread (y, x) has 4
 * queries, 2 keys of each tile and HEAD_DIM / 16 features. Half is what travels and what shared
 * memory holds, P too; the sums S, l, O and the maximum m are floats: a half has 11 bits and ends
 * at 65504, which a sum of thousands of terms outgrows.
 *
 * Causal: query i sees key j when j <= i + seq_kv - seq_q. Tiles that lie wholly above that
 * diagonal are never loaded, about half of all; only tiles that the diagonal, or the end of the
 * keys, cuts through are masked element by element.
 *
 * Cost: per block 2 * keys * head_dim halves of K and V from global memory. Per 2 features of S a
 * thread reads 6 pairs from shared memory for 16 multiply-adds: shared memory and conversions, not
 * arithmetic, set the speed.
 *
 * Source: Lin, "MLsys Note (2): Flash Attention", the walk-through's kernel; Dao, FlashAttention-2
 * (arXiv:2307.08691), section 3.
 */
#include "06_step.h"
#include "half_problem.cuh"
#include "device/warp.cuh"

static const int THREADS = 256;
static const int Br = 64;
static const int Bc = 32;
static const int PAD =
    2; /* halves: a row ends one bank further, so 16 rows read at one column meet 16 banks */

/* Copies rows 0 .. ROWS - 1 of `matrix` into a tile: zeros past `rows` and head_dim. */
template <int ROWS, int HEAD_DIM>
static __device__ __forceinline__ void load_tile(__half tile[ROWS][HEAD_DIM + PAD],
                                                 const __half *matrix, int rows, int head_dim)
{
    for (int i = threadIdx.x; i < ROWS * HEAD_DIM; i += THREADS) {
        const int row = i / HEAD_DIM;
        const int col = i % HEAD_DIM;
        tile[row][col] =
            row < rows && col < head_dim ? matrix[(size_t)row * head_dim + col] : __half(0.0f);
    }
}

static __device__ __forceinline__ float2 load_pair(const __half *pair)
{
    return __half22float2(*(const __half2 *)pair);
}

template <int HEAD_DIM, bool CAUSAL>
__global__ void __launch_bounds__(THREADS)
    flash_half(const __half *Q, const __half *K, const __half *V, __half *O, float *LSE,
               struct attention shape)
{
    constexpr int TR = Br / 16, TC = Bc / 16, TD = HEAD_DIM / 16;
    __shared__ __align__(16) __half tile_Q[Br][HEAD_DIM + PAD];
    __shared__ __align__(16) __half tile_K[Bc][HEAD_DIM + PAD];
    __shared__ __align__(16) __half tile_V[Bc][HEAD_DIM + PAD];
    /* rows 4 apart, of one warp, 8 banks apart */
    __shared__ __align__(16) __half tile_P[Br][Bc + 2 * PAD];

    const int seq_q = shape.seq_q, seq_kv = shape.seq_kv, head_dim = shape.head_dim;
    const int row_tiles = ceil_div(seq_q, Br);
    const int head = blockIdx.x / row_tiles; /* over batch and heads */
    const int kv_head = head / (shape.heads / shape.kv_heads);
    const int row0 = blockIdx.x % row_tiles * Br;
    const int y = threadIdx.x / 16, x = threadIdx.x % 16;

    Q += ((size_t)head * seq_q + row0) * head_dim;
    K += (size_t)kv_head * seq_kv * head_dim;
    V += (size_t)kv_head * seq_kv * head_dim;
    O += ((size_t)head * seq_q + row0) * head_dim;

    const float scale = shape.scale * LOG2_E;
    const int seen_by_all = visible_keys<CAUSAL>(row0, seq_q, seq_kv);
    const int seen_by_any = visible_keys<CAUSAL>(row0 + Br - 1, seq_q, seq_kv);
    int visible[TR];
    float m[TR], l[TR], acc[TR][TD] = {};
    for (int i = 0; i < TR; i++) {
        visible[i] = visible_keys<CAUSAL>(row0 + y * TR + i, seq_q, seq_kv);
        m[i] = -CUDART_INF_F;
        l[i] = 0.0f; /* of this thread's keys; the 16 threads of a row add theirs up at the end */
    }

    load_tile<Br, HEAD_DIM>(tile_Q, Q, seq_q - row0, head_dim);

    for (int k0 = 0; k0 < seen_by_any; k0 += Bc) {
        load_tile<Bc, HEAD_DIM>(tile_K, K + (size_t)k0 * head_dim, seq_kv - k0, head_dim);
        load_tile<Bc, HEAD_DIM>(tile_V, V + (size_t)k0 * head_dim, seq_kv - k0, head_dim);
        __syncthreads(); /* the tiles are complete before any thread reads them */

        float S[TR][TC] = {};
#pragma unroll 8
        for (int d = 0; d < HEAD_DIM; d += 2) {
            float2 q[TR], k[TC];
            for (int i = 0; i < TR; i++)
                q[i] = load_pair(&tile_Q[y * TR + i][d]);
            for (int j = 0; j < TC; j++)
                k[j] = load_pair(&tile_K[x + 16 * j][d]);
            for (int i = 0; i < TR; i++)
                for (int j = 0; j < TC; j++)
                    S[i][j] += q[i].x * k[j].x + q[i].y * k[j].y;
        }

        const bool masked = k0 + Bc > seen_by_all;
        for (int i = 0; i < TR; i++) {
            float m_new = m[i];
            for (int j = 0; j < TC; j++) {
                const int key = k0 + x + 16 * j;
                S[i][j] = masked && key >= visible[i] ? -CUDART_INF_F : S[i][j] * scale;
                m_new = fmaxf(m_new, S[i][j]);
            }
            for (int lanes = 8; lanes > 0; lanes /= 2)
                m_new = fmaxf(m_new, __shfl_xor_sync(FULL_MASK, m_new, lanes));

            const float rescale = exp2f(m[i] - shift_of(m_new));
            m[i] = m_new;
            l[i] *= rescale;
            for (int c = 0; c < TD; c++)
                acc[i][c] *= rescale;
            for (int j = 0; j < TC; j++) {
                const float p = exp2f(S[i][j] - shift_of(m_new));
                l[i] += p;
                tile_P[y * TR + i][x + 16 * j] = __float2half_rn(p);
            }
        }
        __syncwarp(); /* a row of P is written and read by the same 16 lanes */

#pragma unroll 4
        for (int k = 0; k < Bc; k += 2) {
            float2 p[TR];
            for (int i = 0; i < TR; i++)
                p[i] = load_pair(&tile_P[y * TR + i][k]);
            for (int c = 0; c < TD; c += 2) {
                const float2 v0 = load_pair(&tile_V[k][2 * x + 16 * c]);
                const float2 v1 = load_pair(&tile_V[k + 1][2 * x + 16 * c]);
                for (int i = 0; i < TR; i++) {
                    acc[i][c] += p[i].x * v0.x + p[i].y * v1.x;
                    acc[i][c + 1] += p[i].x * v0.y + p[i].y * v1.y;
                }
            }
        }
        __syncthreads(); /* all threads are done with K, V and P, which the next tile overwrites */
    }

    for (int i = 0; i < TR; i++) {
        const int row = y * TR + i;
        for (int lanes = 8; lanes > 0; lanes /= 2)
            l[i] += __shfl_xor_sync(FULL_MASK, l[i], lanes);
        if (row0 + row >= seq_q)
            continue;
        const float inverse = l[i] == 0.0f ? 0.0f : 1.0f / l[i]; /* a query that sees no key: 0 */
        for (int c = 0; c < TD; c++) {
            const int col = 2 * x + 32 * (c / 2) + c % 2;
            if (col < head_dim)
                O[(size_t)row * head_dim + col] = __float2half_rn(acc[i][c] * inverse);
        }
        if (LSE != NULL && x == 0)
            LSE[(size_t)head * seq_q + row0 + row] = (m[i] + log2f(l[i])) * LN_2;
    }
}

template <int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention *call)
{
    const int blocks = call->batch * call->heads * ceil_div(call->seq_q, Br);
    flash_half<HEAD_DIM, CAUSAL><<<blocks, THREADS, 0, call->stream>>>(
        (const __half *)call->Q, (const __half *)call->K, (const __half *)call->V,
        (__half *)call->O, call->LSE, *call);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_half(const struct attention *call)
{
    if (call->head_dim <= 64)
        return call->causal ? launch<64, true>(call) : launch<64, false>(call);
    return call->causal ? launch<128, true>(call) : launch<128, false>(call);
}
