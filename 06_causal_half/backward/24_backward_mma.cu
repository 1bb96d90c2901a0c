// needs: sm_80
/*
 * Idea: the five products of the gradients on tensor cores. S and dP are made transposed, a warp's
 * keys as rows: then Pᵀ and dSᵀ lie in the registers that dV and dK want their left factors in.
 *
 *     Sᵀ = K·Qᵀ      dPᵀ = V·dOᵀ      Pᵀ = 2^(c · Sᵀ - LSE · log2 e)      dSᵀ = Pᵀ∘(dPᵀ - D)
 *     dV += Pᵀ·dO    dK += dSᵀ·Q      dQ += dS·K                          c = scale · log2 e
 *
 * Q, O, dO, dQ [batch, heads, seq_q, head_dim], K, V, dK, dV [batch, kv_heads, seq_kv, head_dim],
 * elements of type T; LSE [batch, heads, seq_q], float; row-major. The workspace has dQ as floats,
 * [batch, heads, seq_q, head_dim], and D = rowsum(dO∘O). HEAD_DIM is head_dim, a multiple of 8,
 * rounded up to 64 or 128, the rest zeros.
 *
 * A block owns Bc keys of one key/value head, a warp 16 of them, and all queries of the group's
 * heads pass by that see one of the keys. dK and dV stay in registers, in float. Of the five left
 * factors K and V are read as they lie, Pᵀ and dSᵀ never leave the registers, and only dS passes
 * through shared memory: there the other warps' keys are wanted. Of the right factors Qᵀ and dOᵀ
 * are read row by row, dO, Q and K transposed by ldmatrix. P and dS are rounded to T, as P was
 * forward; all sums are floats. Parts of dQ are added to the workspace by atomics and converted at
 * the end.
 *
 * Cost: per block K and V once, Q and dO once for each tile of queries that it visits, and an
 * atomic for each of its elements of dQ. Shared: 46 KB at HEAD_DIM 64, 78 KB at 128.
 *
 * Source: Dao, FlashAttention-2 (arXiv:2307.08691), algorithm 2; the transposed scores are those of
 * FlashAttention-3 (arXiv:2407.08608).
 */
#include "06_causal_half/06_step.h"
#include "06_causal_half/padded_tile.cuh"
#include "backward_plan.h"
#include "row_dots.cuh"

static const int Br = BACKWARD_QUERIES;
static const int Bc = BACKWARD_KEYS;
static const int CHUNK = 32; /* queries whose scores a warp has in registers at once */
static const int WARP_KEYS = 16;
static const int THREADS = Bc / WARP_KEYS * WARP;

template <typename T, int HEAD_DIM>
struct shared_tiles {
    T Q[Br][HEAD_DIM + PAD], dO[Br][HEAD_DIM + PAD];
    T K[Bc][HEAD_DIM + PAD], V[Bc][HEAD_DIM + PAD];
    T dS[Bc][Br + PAD]; /* transposed */
    float LSE[Br], D[Br];
};

/* dQ from the floats in the workspace, eight elements a thread. */
template <typename T>
__global__ void backward_convert(T *dQ, const float *sums, float scale, size_t eights)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= eights)
        return;
    const float4 low = ((const float4 *)sums)[2 * i], high = ((const float4 *)sums)[2 * i + 1];
    ((uint4 *)dQ)[i] = make_uint4(
        pack_pair<T>(scale * low.x, scale * low.y), pack_pair<T>(scale * low.z, scale * low.w),
        pack_pair<T>(scale * high.x, scale * high.y), pack_pair<T>(scale * high.z, scale * high.w));
}

/* x += A · B: A are the warp's 16 rows of a tile, B COLS rows of another, both along features. */
template <int HEAD_DIM, int COLS, typename T>
static __device__ __forceinline__ void
multiply_rows(float (&x)[COLS / 2], const T A[][HEAD_DIM + PAD], const T B[][HEAD_DIM + PAD])
{
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 16) {
        uint32_t a[4];
        ldmatrix_x4(a, shared_address(&A[lane % 16][d + lane / 16 * 8]));
#pragma unroll
        for (int n = 0; n < COLS; n += 16) {
            uint32_t b[4];
            ldmatrix_x4(b, shared_address(&B[n + lane / 16 * 8 + lane % 8][d + lane / 8 % 2 * 8]));
            mma_m16n16k16<T>(&x[n / 2], a, b);
        }
    }
}

/* x += A · B: A is in registers, 16 columns; B are 16 rows of a tile, along which x's columns lie.
 */
template <int HEAD_DIM, typename T>
static __device__ __forceinline__ void
multiply_columns(float (&x)[HEAD_DIM / 2], const uint32_t a[4], const T B[][HEAD_DIM + PAD])
{
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 16) {
        uint32_t b[4];
        ldmatrix_x4_transposed(b, shared_address(&B[lane % 16][d + lane / 16 * 8]));
        mma_m16n16k16<T>(&x[d / 2], a, b);
    }
}

template <typename T, int HEAD_DIM, bool CAUSAL>
__global__ void __launch_bounds__(THREADS, 2)
    backward_mma(const T *Q, const T *K, const T *V, const T *dO, const float *D, float *dQ, T *dK,
                 T *dV, const struct attention_backward call)
{
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<T, HEAD_DIM> &tiles = *(struct shared_tiles<T, HEAD_DIM> *)shared_memory;

    const int seq_q = call.seq_q, seq_kv = call.seq_kv, head_dim = call.head_dim;
    const int key_tiles = ceil_div(seq_kv, Bc), group = call.heads / call.kv_heads;
    const int kv_head = blockIdx.x / key_tiles; /* over batch and heads */
    const int key0 = blockIdx.x % key_tiles * Bc;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int warp_key = warp * WARP_KEYS, g = lane / ROW_LANES, t = lane % ROW_LANES;
    const float scale_log2 = call.scale * LOG2_E;

    K += (size_t)kv_head * seq_kv * head_dim;
    V += (size_t)kv_head * seq_kv * head_dim;
    load_tile<Bc, HEAD_DIM, THREADS>(tiles.K, K + (size_t)key0 * head_dim, seq_kv - key0, head_dim);
    load_tile<Bc, HEAD_DIM, THREADS>(tiles.V, V + (size_t)key0 * head_dim, seq_kv - key0, head_dim);
    float acc_K[HEAD_DIM / 2] = {}, acc_V[HEAD_DIM / 2] = {};

    const int first_row = backward_first_query(CAUSAL, key0, seq_q, seq_kv, Br);
    for (int head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int row0 = first_row; row0 < seq_q; row0 += Br) {
            const size_t query = (size_t)head * seq_q + row0;
            const int queries = seq_q - row0; /* that are left */
            load_tile<Br, HEAD_DIM, THREADS>(tiles.Q, Q + query * head_dim, queries, head_dim);
            load_tile<Br, HEAD_DIM, THREADS>(tiles.dO, dO + query * head_dim, queries, head_dim);
            for (int i = threadIdx.x; i < Br; i += THREADS) {
                const float LSE = i < queries ? call.LSE[query + i] : -CUDART_INF_F;
                /* A query that sees no key, or is none, has no weight: 2^(S - inf) = 0. */
                tiles.LSE[i] = LSE == -CUDART_INF_F ? CUDART_INF_F : LSE * LOG2_E;
                tiles.D[i] = i < queries ? D[query + i] : 0.0f;
            }
            /* The tiles are complete before any warp reads them, and all warps are done with dS. */
            __syncthreads();

            for (int q0 = 0; q0 < Br; q0 += CHUNK) {
                float S[CHUNK / 2] = {}, dS[CHUNK / 2] = {};
                multiply_rows<HEAD_DIM, CHUNK>(S, &tiles.K[warp_key], &tiles.Q[q0]);
                multiply_rows<HEAD_DIM, CHUNK>(dS, &tiles.V[warp_key], &tiles.dO[q0]);
#pragma unroll
                for (int i = 0; i < CHUNK / 2; i++) {
                    const int key = key0 + warp_key + g + 8 * (i / 2 % 2);
                    const int row = q0 + 8 * (i / 4) + 2 * t + i % 2;
                    const bool sees = key < visible_keys<CAUSAL>(row0 + row, seq_q, seq_kv);
                    S[i] = sees ? exp2_approximate(S[i] * scale_log2 - tiles.LSE[row]) : 0.0f;
                    dS[i] = S[i] * (dS[i] - tiles.D[row]);
                }
                uint32_t P[CHUNK / 4], packed[CHUNK / 4];
                pack_rows<T>(P, S);
                pack_rows<T>(packed, dS);
#pragma unroll
                for (int i = 0; i < CHUNK / 4; i++)
                    *(uint32_t *)&tiles.dS[warp_key + g + 8 * (i % 2)][q0 + 8 * (i / 2) + 2 * t] =
                        packed[i];
#pragma unroll
                for (int n = 0; n < CHUNK; n += 16) {
                    multiply_columns<HEAD_DIM>(acc_V, &P[n / 4], &tiles.dO[q0 + n]);
                    multiply_columns<HEAD_DIM>(acc_K, &packed[n / 4], &tiles.Q[q0 + n]);
                }
            }
            /* All keys of dS are there before a warp takes its queries; and all warps are done with
             * Q and dO, which the next tile overwrites. */
            __syncthreads();

            float acc_Q[HEAD_DIM / 2] = {};
#pragma unroll
            for (int k = 0; k < Bc; k += 16) {
                uint32_t a[4]; /* dS of the warp's 16 queries, turned back */
                ldmatrix_x4_transposed(
                    a, shared_address(
                           &tiles.dS[k + lane / 16 * 8 + lane % 8][warp * 16 + lane / 8 % 2 * 8]));
                multiply_columns<HEAD_DIM>(acc_Q, a, &tiles.K[k]);
            }
#pragma unroll
            for (int i = 0; i < HEAD_DIM / 2; i++) {
                const int row = warp * 16 + g + 8 * (i / 2 % 2), col = 8 * (i / 4) + 2 * t + i % 2;
                if (row < queries && col < head_dim)
                    atomicAdd(&dQ[(query + row) * head_dim + col], acc_Q[i]);
            }
        }

    uint32_t packed[HEAD_DIM / 4];
    pack_rows<T>(packed, acc_V);
    store_rows(dV + (size_t)kv_head * seq_kv * head_dim, packed, key0 + warp_key, seq_kv, head_dim);
    for (int i = 0; i < HEAD_DIM / 2; i++)
        acc_K[i] *= call.scale;
    pack_rows<T>(packed, acc_K);
    store_rows(dK + (size_t)kv_head * seq_kv * head_dim, packed, key0 + warp_key, seq_kv, head_dim);
}

template <typename T, int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention_backward *call)
{
    const size_t rows = attention_backward_query_rows(call), elements = rows * call->head_dim;
    float *dQ = (float *)call->workspace, *D = dQ + elements;
    const int bytes = sizeof(struct shared_tiles<T, HEAD_DIM>);
    const cudaError_t status =
        cudaFuncSetAttribute((const void *)backward_mma<T, HEAD_DIM, CAUSAL>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status != cudaSuccess)
        return status;

    const int blocks = call->batch * call->kv_heads * ceil_div(call->seq_kv, Bc);
    const size_t eights = elements / 8;
    launch_row_dots<T>(call, D, dQ, elements);
    backward_mma<T, HEAD_DIM, CAUSAL><<<blocks, THREADS, bytes, call->stream>>>(
        (const T *)call->Q, (const T *)call->K, (const T *)call->V, (const T *)call->dO, D, dQ,
        (T *)call->dK, (T *)call->dV, *call);
    backward_convert<<<(unsigned)(eights / THREADS + 1), THREADS, 0, call->stream>>>(
        (T *)call->dQ, dQ, call->scale, eights);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_backward_mma(const struct attention_backward *call)
{
    return LAUNCH(call);
}
