/*
 * Idea: the gradients as they are written down: P and dS are matrices in global memory, and each
 * product is a kernel.
 *
 *     P = e^(scale · Q·Kᵀ - LSE)     D = rowsum(dO∘O)     dS = P∘(dO·Vᵀ - D)
 *     dV = Pᵀ·dO                     dK = scale · dSᵀ·Q    dQ = scale · dS·K
 *
 * Q, O, dO, dQ [batch, heads, seq_q, head_dim], K, V, dK, dV [batch, kv_heads, seq_kv, head_dim],
 * LSE [batch, heads, seq_q], all row-major. The workspace has P and dS, [batch, heads, seq_q,
 * seq_kv] each, and D [batch, heads, seq_q]. "Row" counts the queries of all heads.
 *
 * A thread owns one element of P; then of dS; then of dK and of dV, over all queries of all heads
 * that share the key; then of dQ.
 *
 * Cost: both matrices are stored once and loaded head_dim times. For one head of 16384 queries and
 * keys they are 2 GiB, where all other arrays together are 32 MiB at head_dim 64. The five products
 * read 10·head_dim·seq_q·seq_kv floats.
 */
#include "05_flash_v2/05_step.h"
#include "device/tiles.cuh"
#include "harness/refusal.h"

#include <math_constants.h>

static const int THREADS = 256;

/* The first row of the K and V that a row of Q attends to. */
static __device__ size_t first_key(const struct attention_backward *call, size_t row)
{
    const size_t head = row / call->seq_q;
    return head / (call->heads / call->kv_heads) * call->seq_kv;
}

/* A row of one matrix times a row of another. */
static __device__ float dot(const float *a, const float *b, int d)
{
    float sum = 0.0f;
    for (int k = 0; k < d; k++)
        sum += a[k] * b[k];
    return sum;
}

__global__ void probabilities(const float *Q, const float *K, float *P,
                              const struct attention_backward call, size_t elements)
{
    const size_t element = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (element >= elements)
        return;
    const int d = call.head_dim;
    const size_t row = element / call.seq_kv;
    const size_t key = first_key(&call, row) + element % call.seq_kv;
    const float S = call.scale * dot(Q + row * d, K + key * d, d), LSE = call.LSE[row];
    /* A query that sees no key has no weight; e^((-inf) - (-inf)) would be NaN. */
    P[element] = LSE == -CUDART_INF_F ? 0.0f : expf(S - LSE);
}

__global__ void score_gradients(const float *dO, const float *V, const float *P, const float *D,
                                float *dS, const struct attention_backward call, size_t elements)
{
    const size_t element = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (element >= elements)
        return;
    const int d = call.head_dim;
    const size_t row = element / call.seq_kv;
    const size_t key = first_key(&call, row) + element % call.seq_kv;
    const float dP = dot(dO + row * d, V + key * d, d);
    dS[element] = P[element] * (dP - D[row]);
}

/* The queries of a group of heads are neighbours in memory: one column of P and of dS. */
__global__ void key_gradients(const float *Q, const float *dO, const float *P, const float *dS,
                              float *dK, float *dV, const struct attention_backward call,
                              size_t elements)
{
    const size_t element = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (element >= elements)
        return;
    const int d = call.head_dim, c = element % d;
    const size_t key = element / d, kv_head = key / call.seq_kv, j = key % call.seq_kv;
    const size_t queries = (size_t)(call.heads / call.kv_heads) * call.seq_q;

    float sum_K = 0.0f, sum_V = 0.0f;
    for (size_t row = kv_head * queries; row < (kv_head + 1) * queries; row++) {
        sum_V += P[row * call.seq_kv + j] * dO[row * d + c];
        sum_K += dS[row * call.seq_kv + j] * Q[row * d + c];
    }
    dV[element] = sum_V;
    dK[element] = call.scale * sum_K;
}

__global__ void query_gradients(const float *K, const float *dS, float *dQ,
                                const struct attention_backward call, size_t elements)
{
    const size_t element = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (element >= elements)
        return;
    const int d = call.head_dim, c = element % d;
    const size_t row = element / d;
    const float *dS_row = dS + row * call.seq_kv;
    const float *K_head = K + first_key(&call, row) * d;

    float sum = 0.0f;
    for (int j = 0; j < call.seq_kv; j++)
        sum += dS_row[j] * K_head[(size_t)j * d + c];
    dQ[element] = call.scale * sum;
}

static unsigned blocks_for(size_t elements)
{
    return (unsigned)(elements / THREADS + (elements % THREADS != 0));
}

extern "C" cudaError_t attention_backward_standard(const struct attention_backward *call)
{
    const float *Q = (const float *)call->Q, *K = (const float *)call->K,
                *V = (const float *)call->V, *dO = (const float *)call->dO;
    const size_t rows = attention_backward_query_rows(call), scores = rows * call->seq_kv;
    const size_t elements_Q = rows * call->head_dim;
    const size_t elements_K = attention_backward_key_rows(call) * call->head_dim;
    cudaError_t status = require_blocks(scores / THREADS + 1);
    if (status != cudaSuccess)
        return status;

    float *P = (float *)call->workspace, *dS = P + scores, *D = dS + scores;
    if ((status = attention_backward_row_dots(call, D)) != cudaSuccess)
        return status;
    probabilities<<<blocks_for(scores), THREADS, 0, call->stream>>>(Q, K, P, *call, scores);
    score_gradients<<<blocks_for(scores), THREADS, 0, call->stream>>>(dO, V, P, D, dS, *call,
                                                                      scores);
    key_gradients<<<blocks_for(elements_K), THREADS, 0, call->stream>>>(
        Q, dO, P, dS, (float *)call->dK, (float *)call->dV, *call, elements_K);
    query_gradients<<<blocks_for(elements_Q), THREADS, 0, call->stream>>>(K, dS, (float *)call->dQ,
                                                                          *call, elements_Q);
    return cudaGetLastError();
}
