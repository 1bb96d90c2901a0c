/*
 * Idea: the keys split over blocks. A block attends to one run of them and leaves a partial result,
 * (O, LSE); a second kernel merges the runs, a thread per row.
 *
 *     run s of the keys:   O_s, LSE_s = attention(Q, K_s, V_s), by the loop of flash_v2
 *     merged:      LSE = ln sum over s of e^(LSE_s)       O = sum over s of e^(LSE_s - LSE) · O_s
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], row-major. Workspace: O_s [runs, batch, heads, seq_q, head_dim], then LSE_s [runs,
 * batch, heads, seq_q].
 *
 * Blocks and threads own what they do in flash_v2, for a run of the keys; then a thread owns a row.
 *
 * Cost, in floats, per head: as flash_v2, but Q and the partial O and LSE once per run; and the
 * merge, which loads the partial O once and the partial LSE three times, and stores O and LSE.
 * Where the queries alone fill the device there is one run and nothing to gain.
 *
 * Source: Flash-Decoding (Dao, Haziza, Massa, Sizov, 2023).
 */
#include "05_flash_v2/05_step.h"
#include "7_split_kv_naive.h"
#include "device/tiles.cuh"
#include "device/warp.cuh"

#include <math_constants.h>

static const int MAX_HEAD_DIM = 128;

template <int Br, int Bc>
__global__ void split_kv_naive(const float *Q, const float *K, const float *V, float *O, float *LSE,
                               const struct attention shape, const struct split_kv_naive_plan plan)
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
     * its tile of queries and its run of keys. */
    const struct split_kv_naive_part part = split_kv_naive_part_of(&plan, blockIdx.x, Br);
    const int head = part.head, first = part.first_key, i0 = part.row0;
    const size_t first_query = (size_t)head * shape.seq_q;
    const size_t first_key = (size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv;
    const int end = first + min(plan.run_keys, shape.seq_kv - first);

    const int queries = min(Br, shape.seq_q - i0);
    const size_t query = first_query + i0 + row;
    for (int e = threadIdx.x; e < Br * d; e += Br * Bc) /* zeros past the last query */
        Q_tile[e / d][e % d] = e < queries * d ? Q[(first_query + i0) * d + e] : 0.0f;
    float m = -CUDART_INF_F, l = 0.0f, o[MAX_HEAD_DIM / Bc] = {};

    for (int j0 = first; j0 < end; j0 += Bc) {
        const int keys = min(Bc, end - j0);
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

    /* The results of run s lie s · batch · heads · seq_q rows behind those of run 0. */
    const size_t result = query + (size_t)part.run * shape.batch * shape.heads * shape.seq_q;
    const float weight = l == 0.0f ? 0.0f : 1.0f / l;
    if (row < queries && col == 0 && LSE != NULL)
        LSE[result] = m + logf(l);
#pragma unroll
    for (int n = 0; n < MAX_HEAD_DIM / Bc; n++)
        if (row < queries && n * Bc + col < d)
            O[result * d + n * Bc + col] = o[n] * weight;
}

/* O and LSE of a row from those of its runs, which lie `rows` rows apart. A block is a warp. */
__global__ void merge_runs(const float *O_runs, const float *LSE_runs, float *O, float *LSE, int d,
                           size_t rows, int runs)
{
    const size_t row = (size_t)blockIdx.x * WARP + threadIdx.x, end = (size_t)runs * rows;
    if (row >= rows)
        return;
    float m = -CUDART_INF_F, l = 0.0f;
    for (size_t result = row; result < end; result += rows)
        m = fmaxf(m, LSE_runs[result]);
    const float top = m == -CUDART_INF_F ? 0.0f : m;
    for (size_t result = row; result < end; result += rows)
        l += expf(LSE_runs[result] - top);
    for (int c = 0; c < d; c++) {
        float sum = 0.0f;
        for (size_t result = row; result < end; result += rows)
            sum += expf(LSE_runs[result] - top) * O_runs[result * d + c];
        O[row * d + c] = l == 0.0f ? 0.0f : sum / l;
    }
    if (LSE != NULL)
        LSE[row] = m + logf(l);
}

template <int Br, int Bc>
static cudaError_t launch(const struct attention *call)
{
    const struct split_kv_naive_plan plan = split_kv_naive_plan_of(call, Br);
    float *O_runs = plan.runs > 1 ? (float *)call->workspace : (float *)call->O;
    float *LSE_runs =
        plan.runs > 1 ? O_runs + (size_t)plan.runs * plan.rows * call->head_dim : call->LSE;
    split_kv_naive<Br, Bc><<<plan.blocks, Br * Bc, 0, call->stream>>>(
        (const float *)call->Q, (const float *)call->K, (const float *)call->V, O_runs, LSE_runs,
        *call, plan);
    if (plan.merge_blocks > 0 && cudaPeekAtLastError() == cudaSuccess)
        merge_runs<<<plan.merge_blocks, WARP, 0, call->stream>>>(
            O_runs, LSE_runs, (float *)call->O, call->LSE, call->head_dim, plan.rows, plan.runs);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_split_kv_naive(const struct attention *call)
{
    return launch<SPLIT_KV_NAIVE_BR, 16>(call);
}
