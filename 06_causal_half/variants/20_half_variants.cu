/*
 * Idea: what real models change in attention: a window, a cap, a bias, lengths. Four short
 * functions beside the loop of `half`.
 *
 *     for each tile of Bc keys from the first that some query of the tile sees to the last:
 *         S = log2 e · score(scale · Q·Kᵀ)     and the rest as in half
 *
 *     lengths          sequence b has lengths[b] keys: they replace seq_kv, the mask's too
 *     sliding window   a causal query sees the last `window` of the keys that it saw before
 *     soft cap         s = cap · tanh(s / cap)
 *     ALiBi            s = s - slope · |distance|, slope = 2^(-8·(h + 1) / heads) of head h
 *
 * Arrays, tiles and threads are those of half (01_half.cu); lengths is [batch]. K and V past a
 * sequence's length are never read: they may hold anything.
 *
 * A window does for keys that are long gone what the mask does for those to come: tiles that it
 * hides are not loaded. With a window of W keys a tile of queries loads at most W + Br + 2·Bc keys,
 * however long the sequence is. A cap and a bias change the score of a pair and nothing else.
 *
 * Cost: as half's; with a window per block 2 · (W + Br) · head_dim halves, to the next whole tile.
 *
 * Source: Beltagy, Peters and Cohan, Longformer (arXiv:2004.05150); Press, Smith and Lewis, ALiBi
 * (arXiv:2108.12409); Gemma 2 (arXiv:2408.00118), section 2, for the cap.
 */
#include "06_causal_half/06_step.h"
#include "06_causal_half/half_problem.cuh"
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

/* The keys of a sequence. */
static __device__ __forceinline__ int keys_of(const struct attention &shape, int batch)
{
    return shape.lengths != NULL ? shape.lengths[batch] : shape.seq_kv;
}

/* A query that would see keys 0 .. visible - 1 sees none before this one. */
static __device__ __forceinline__ int first_key(const struct attention &shape, int visible)
{
    return shape.window > 0 ? max(visible - shape.window, 0) : 0;
}

/* The first key of the first tile of which some query sees something. Later queries see later keys,
 * so the tile's first query decides. */
static __device__ __forceinline__ int first_tile(const struct attention &shape, int visible)
{
    return first_key(shape, visible) / Bc * Bc;
}

/* `s`, `cap` and `slope` are in units of log2 e: the exponentials have base 2. */
static __device__ __forceinline__ float score(float s, float cap, float slope, int distance)
{
    if (cap > 0.0f)
        s = cap * tanhf(s / cap);
    return s - slope * abs(distance);
}

template <int HEAD_DIM, bool CAUSAL>
__global__ void __launch_bounds__(THREADS)
    flash_half_variants(const __half *Q, const __half *K, const __half *V, __half *O, float *LSE,
                        struct attention shape)
{
    constexpr int TR = Br / 16, TC = Bc / 16, TD = HEAD_DIM / 16;
    __shared__ __align__(16) __half tile_Q[Br][HEAD_DIM + PAD];
    __shared__ __align__(16) __half tile_K[Bc][HEAD_DIM + PAD];
    __shared__ __align__(16) __half tile_V[Bc][HEAD_DIM + PAD];
    /* rows 4 apart, of one warp, 8 banks apart */
    __shared__ __align__(16) __half tile_P[Br][Bc + 2 * PAD];

    const int seq_q = shape.seq_q, head_dim = shape.head_dim;
    const int row_tiles = ceil_div(seq_q, Br);
    const int head = blockIdx.x / row_tiles; /* over batch and heads */
    const int keys = keys_of(shape, head / shape.heads);
    const int kv_head = head / (shape.heads / shape.kv_heads);
    const int row0 = blockIdx.x % row_tiles * Br;
    const int y = threadIdx.x / 16, x = threadIdx.x % 16;

    Q += ((size_t)head * seq_q + row0) * head_dim;
    K += (size_t)kv_head * shape.seq_kv * head_dim;
    V += (size_t)kv_head * shape.seq_kv * head_dim;
    O += ((size_t)head * seq_q + row0) * head_dim;

    const float scale = shape.scale * LOG2_E, cap = shape.soft_cap * LOG2_E;
    const float slope =
        shape.alibi ? exp2f(-8.0f * (head % shape.heads + 1) / shape.heads) * LOG2_E : 0.0f;
    const int seen_by_first = visible_keys<CAUSAL>(row0, seq_q, keys);
    const int seen_by_any = visible_keys<CAUSAL>(row0 + Br - 1, seq_q, keys);
    const int seen_by_all = shape.window > 0 ? 0 : seen_by_first;
    int first[TR], visible[TR];
    float m[TR], l[TR], acc[TR][TD] = {};
    for (int i = 0; i < TR; i++) {
        visible[i] = visible_keys<CAUSAL>(row0 + y * TR + i, seq_q, keys);
        first[i] = first_key(shape, visible[i]);
        m[i] = -CUDART_INF_F;
        l[i] = 0.0f; /* of this thread's keys; the 16 threads of a row add theirs up at the end */
    }

    load_tile<Br, HEAD_DIM>(tile_Q, Q, seq_q - row0, head_dim);

    for (int k0 = first_tile(shape, seen_by_first); k0 < seen_by_any; k0 += Bc) {
        load_tile<Bc, HEAD_DIM>(tile_K, K + (size_t)k0 * head_dim, keys - k0, head_dim);
        load_tile<Bc, HEAD_DIM>(tile_V, V + (size_t)k0 * head_dim, keys - k0, head_dim);
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
                const int distance = row0 + y * TR + i + keys - seq_q - key;
                S[i][j] = masked && (key < first[i] || key >= visible[i])
                              ? -CUDART_INF_F
                              : score(S[i][j] * scale, cap, slope, distance);
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
    flash_half_variants<HEAD_DIM, CAUSAL><<<blocks, THREADS, 0, call->stream>>>(
        (const __half *)call->Q, (const __half *)call->K, (const __half *)call->V,
        (__half *)call->O, call->LSE, *call);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_half_variants(const struct attention *call)
{
    if (call->head_dim <= 64)
        return call->causal ? launch<64, true>(call) : launch<64, false>(call);
    return call->causal ? launch<128, true>(call) : launch<128, false>(call);
}
