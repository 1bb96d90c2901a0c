// needs: sm_80
/*
 * Idea: the tensor core's own instruction, whose layout is known: S and P stay in registers.
 *
 *     for each tile of Bc keys that some query of the tile sees:
 *         S = Q·Kᵀ                        m_new = max(m, rowmax S)               c = scale · log2 e
 *         P = 2^(c · S - c · m_new)            l     = l · 2^(c · m - c · m_new) + rowsum P
 *                                              O     = O · 2^(c · m - c · m_new) + P·V
 *     at the end:  O = O / l                   LSE   = (c · m + log2 l) · ln 2
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], elements of type
 * T; LSE [batch, heads, seq_q], float; row-major. HEAD_DIM is head_dim, a multiple of 8, rounded up
 * to 64 or 128, the rest zeros.
 *
 * A block owns Br queries of one head, a warp 16 of them. mma.sync leaves two S tiles of 16 x 8
 * side by side in exactly the registers that it wants a left factor of 16 x 16 in: P is rounded to
 * T in place and multiplied on. Rows are known: a lane has elements of two rows, four lanes share a
 * row, two shuffles complete its maximum. Q stays in registers too. ldmatrix brings K as it lies
 * (the right factor wants Kᵀ column by column, that is, K row by row) and V transposed.
 *
 * Cost: global traffic as half's. Shared: each warp reads K and V once per tile, 4 · Bc · HEAD_DIM
 * bytes for 32 · Bc · HEAD_DIM multiply-adds.
 *
 * Source: PTX ISA, mma.m16n8k16; Dao, FlashAttention-2 (arXiv:2307.08691), section 3.
 */
#include "06_step.h"
#include "score_rows.cuh"
#include "padded_tile.cuh"

static const int Br = 64;
static const int Bc = 64;
static const int WARP_ROWS = 16;
static const int THREADS = Br / WARP_ROWS * WARP;

template <typename T, int HEAD_DIM>
struct shared_tiles {
    T Q[Br][HEAD_DIM + PAD];
    T K[Bc][HEAD_DIM + PAD];
    T V[Bc][HEAD_DIM + PAD];
};

template <typename T, int HEAD_DIM, bool CAUSAL>
__global__ void __launch_bounds__(THREADS)
    flash_mma(const T *Q, const T *K, const T *V, T *O, float *LSE, struct attention shape)
{
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<T, HEAD_DIM> &tiles = *(struct shared_tiles<T, HEAD_DIM> *)shared_memory;

    const int seq_q = shape.seq_q, seq_kv = shape.seq_kv, head_dim = shape.head_dim;
    const int row_tiles = ceil_div(seq_q, Br);
    const int head = blockIdx.x / row_tiles; /* over batch and heads */
    const int row0 = blockIdx.x % row_tiles * Br;
    const int kv_head = head / (shape.heads / shape.kv_heads);
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int warp_row = row0 + warp * WARP_ROWS;

    Q += ((size_t)head * seq_q + row0) * head_dim;
    K += (size_t)kv_head * seq_kv * head_dim;
    V += (size_t)kv_head * seq_kv * head_dim;
    O += (size_t)head * seq_q * head_dim;
    LSE = LSE == NULL ? NULL : LSE + (size_t)head * seq_q;

    const float scale_log2 = shape.scale * LOG2_E;
    const int seen_by_all = visible_keys<CAUSAL>(row0, seq_q, seq_kv);
    const int seen_by_any = visible_keys<CAUSAL>(row0 + Br - 1, seq_q, seq_kv);
    int visible[2];
    find_visible<CAUSAL>(visible, warp_row, seq_q, seq_kv);
    float m[2] = {-CUDART_INF_F, -CUDART_INF_F}, l[2] = {0.0f, 0.0f};
    float acc[HEAD_DIM / 2] = {};

    /* One ldmatrix brings four matrices of 8 x 8. From Q and V: 8 rows, the next 8 rows, the same
     * of the next 8 columns. From K: 8 columns, the next 8 columns, the same of the next 8 rows.
     * That is the order of the registers of a left factor, and of two right factors, as mma.sync
     * wants them side by side. */
    uint32_t q[HEAD_DIM / 16][4];
    load_tile<Br, HEAD_DIM, THREADS>(tiles.Q, Q, seq_q - row0, head_dim);
    __syncthreads(); /* Q is complete before any warp reads it */
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 16)
        ldmatrix_x4(q[d / 16],
                    shared_address(&tiles.Q[warp * WARP_ROWS + lane % 16][d + lane / 16 * 8]));

    for (int k0 = 0; k0 < seen_by_any; k0 += Bc) {
        load_tile<Bc, HEAD_DIM, THREADS>(tiles.K, K + (size_t)k0 * head_dim, seq_kv - k0, head_dim);
        load_tile<Bc, HEAD_DIM, THREADS>(tiles.V, V + (size_t)k0 * head_dim, seq_kv - k0, head_dim);
        __syncthreads(); /* K and V are complete before any warp reads them */

        float S[Bc / 2] = {};
#pragma unroll
        for (int d = 0; d < HEAD_DIM; d += 16)
#pragma unroll
            for (int n = 0; n < Bc; n += 16) {
                uint32_t k[4];
                ldmatrix_x4(k, shared_address(
                                   &tiles.K[n + lane / 16 * 8 + lane % 8][d + lane / 8 % 2 * 8]));
                mma_m16n16k16<T>(&S[n / 2], q[d / 16], k);
            }

        if (k0 + Bc > seen_by_all)
            mask_scores(S, k0, visible);
        float rescale[2];
        uint32_t P[Bc / 4];
        online_softmax(S, m, l, rescale, scale_log2);
        scale_rows(acc, rescale);
        pack_rows<T>(P, S);

#pragma unroll
        for (int n = 0; n < Bc; n += 16)
#pragma unroll
            for (int d = 0; d < HEAD_DIM; d += 16) {
                uint32_t v[4];
                ldmatrix_x4_transposed(v,
                                       shared_address(&tiles.V[n + lane % 16][d + lane / 16 * 8]));
                mma_m16n16k16<T>(&acc[d / 2], &P[n / 4], v);
            }
        __syncthreads(); /* all warps are done with K and V before the next tile overwrites them */
    }

    finish_rows(acc, m, l, LSE, warp_row, seq_q, scale_log2);
    uint32_t packed[HEAD_DIM / 4];
    pack_rows<T>(packed, acc);
    store_rows(O, packed, warp_row, seq_q, head_dim);
}

template <typename T, int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention *call)
{
    const int blocks = call->batch * call->heads * ceil_div(call->seq_q, Br);
    const int bytes = sizeof(struct shared_tiles<T, HEAD_DIM>);
    const cudaError_t status =
        cudaFuncSetAttribute((const void *)flash_mma<T, HEAD_DIM, CAUSAL>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status != cudaSuccess)
        return status;
    flash_mma<T, HEAD_DIM, CAUSAL><<<blocks, THREADS, bytes, call->stream>>>(
        (const T *)call->Q, (const T *)call->K, (const T *)call->V, (T *)call->O, call->LSE, *call);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_mma(const struct attention *call)
{
    return LAUNCH(call);
}
