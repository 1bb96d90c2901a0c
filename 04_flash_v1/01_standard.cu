/*
 * Idea: attention as it is written down: three kernels, the scores as a matrix in global memory.
 *
 *     S = scale · Q·Kᵀ        P = softmax(S), row by row, in place        O = P·V
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], all row-major; S and P share a workspace [batch, heads, seq_q, seq_kv]. "Row"
 * counts the queries of all heads.
 *
 * A thread owns one element of S; then a warp one row of S; then a thread one element of O.
 *
 * Cost: the matrix is stored twice and loaded at least four times. For one head of 16384 queries
 * and keys it is 1 GiB, where Q, K, V and O together are 16 MiB at head_dim 64. The two products
 * read 2·head_dim·seq_q·seq_kv floats each, as the naive matmul does; a tiled one would read fewer,
 * but the matrix would stay.
 */
#include "04_step.h"
#include "harness/refusal.h"
#include "device/tiles.cuh"
#include "device/warp.cuh"

#include <math_constants.h>

static const int THREADS = 256;
static const int WARPS = THREADS / WARP;

/* The first row of the K and V that a row of Q attends to. */
static __device__ size_t first_key(const struct attention *shape, size_t row)
{
    const size_t head = row / shape->seq_q;
    return head / (shape->heads / shape->kv_heads) * shape->seq_kv;
}

__global__ void scores(const float *Q, const float *K, float *S, const struct attention shape,
                       size_t elements)
{
    const size_t element = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (element >= elements)
        return;
    const size_t row = element / shape.seq_kv;
    const size_t key = first_key(&shape, row) + element % shape.seq_kv;

    float sum = 0.0f;
    for (int k = 0; k < shape.head_dim; k++)
        sum += Q[row * shape.head_dim + k] * K[key * shape.head_dim + k];
    S[element] = shape.scale * sum;
}

/* Safe softmax in three sweeps over the row: maximum, sum, quotient. */
__global__ void softmax_rows(float *S, float *LSE, int rows, int seq_kv)
{
    const int row = blockIdx.x * WARPS + threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    if (row >= rows) /* the whole warp leaves */
        return;
    float *S_row = S + (size_t)row * seq_kv;

    float m = -CUDART_INF_F;
    for (int j = lane; j < seq_kv; j += WARP)
        m = fmaxf(m, S_row[j]);
    m = warp_max(m);
    const float top = m == -CUDART_INF_F ? 0.0f : m; /* (-inf) - (-inf) would be NaN */

    float l = 0.0f;
    for (int j = lane; j < seq_kv; j += WARP)
        l += expf(S_row[j] - top);
    l = warp_sum(l);

    for (int j = lane; j < seq_kv; j += WARP)
        S_row[j] = l == 0.0f ? 0.0f : expf(S_row[j] - top) / l; /* every score is -inf: no weight */
    if (LSE != NULL && lane == 0)
        LSE[row] = m + logf(l);
}

__global__ void weighted_values(const float *P, const float *V, float *O,
                                const struct attention shape, size_t elements)
{
    const size_t element = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (element >= elements)
        return;
    const size_t row = element / shape.head_dim;
    const int col = element % shape.head_dim;
    const float *P_row = P + row * shape.seq_kv;
    const float *V_head = V + first_key(&shape, row) * shape.head_dim;

    float sum = 0.0f;
    for (int j = 0; j < shape.seq_kv; j++)
        sum += P_row[j] * V_head[(size_t)j * shape.head_dim + col];
    O[element] = sum;
}

extern "C" cudaError_t attention_standard(const struct attention *call)
{
    const size_t rows = attention_query_rows(call);
    const size_t scores_in_all = rows * call->seq_kv;
    const size_t outputs_in_all = rows * call->head_dim;
    const size_t blocks = scores_in_all / THREADS + (scores_in_all % THREADS != 0);
    const cudaError_t status = require_blocks(blocks);
    if (status != cudaSuccess)
        return status;

    float *S = (float *)call->workspace;
    if (blocks > 0)
        scores<<<(unsigned)blocks, THREADS, 0, call->stream>>>(
            (const float *)call->Q, (const float *)call->K, S, *call, scores_in_all);
    softmax_rows<<<ceil_div((int)rows, WARPS), THREADS, 0, call->stream>>>(S, call->LSE, (int)rows,
                                                                           call->seq_kv);
    weighted_values<<<(unsigned)(outputs_in_all / THREADS + 1), THREADS, 0, call->stream>>>(
        S, (const float *)call->V, (float *)call->O, *call, outputs_in_all);
    return cudaGetLastError();
}
