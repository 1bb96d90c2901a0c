/*
 * Idea: the loops of flash_v1 with both products from registers: a thread owns a rectangle of S and
 * a rectangle of O, so what it reads from shared memory serves several multiply-adds. At head_dim
 * 64 it has 4 × 2 scores and 4 × 8 elements of O: a step of k needs 6 floats for 8 multiply-adds,
 * or 12 for 32.
 *
 *     for each tile j of Bc keys, for each slice i of 4·TR queries:
 *         S = scale · Q_i·K_jᵀ     m' = max(m, rowmax S)     P = e^(S - m')
 *         l' = l·e^(m - m') + rowsum P
 *         O  = O · l·e^(m - m') / l' + P·V_j / l'            m = m', l = l'
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], all row-major. Workspace: l and m, one each per query.
 *
 * Both products have one form, C[row][col] += A[k][row] · B[k][col]: S from Qᵀ and Kᵀ, O from Pᵀ
 * and V. So Q and K are transposed on their way into shared memory and S on its way back there, and
 * a step of k reads runs of neighbours (common/device/rectangles.cuh). The scale goes into Q while
 * it is loaded.
 *
 * A block owns one head; K [head_dim][Bc] and V [Bc][D] are shared by its warps. Each warp has a
 * slice of 4·TR queries at a time, and one slab for Q and S: once a slice's scores are in registers
 * its Q is no longer needed. Its 32 lanes stand in 4 rows (y) of 8 (x); thread (y, x) owns TR rows,
 * TC = Bc / 8 scores and TD = D / 8 elements of O of each. Then one lane a row of S. D is head_dim
 * rounded up to 32, 64, 96 or 128.
 *
 * Bc = 16, as before; TR = 4. 8 warps, and 4 where head_dim is more than 64, fit into the 64 KiB
 * that a block may have on every architecture.
 *
 * Cost: global traffic as flash_v1. batch·heads blocks, one per multiprocessor.
 *
 * Source: Dao et al., FlashAttention (arXiv:2205.14135), algorithm 1.
 */
#include "04_step.h"
#include "07_flash_v1.h"
#include "load_transposed.cuh"
#include "device/rectangles.cuh"
#include "device/tiles.cuh"
#include "device/warp.cuh"

#include <math_constants.h>

static const int Bc = 16, TR = 4, MAX_WARPS = 8;

template <int D>
__global__ void __launch_bounds__(WARP *MAX_WARPS, 1)
    flash_v1_register_tile(const float *Q, const float *K, const float *V, float *O, float *LSE,
                           float *l, float *m, const struct attention shape)
{
    const int ROWS = 4 * TR; /* of a slice */
    const int TC = Bc / 8;   /* scores of a row that a thread owns */
    const int TD = D / 8;    /* elements of a row of O that it owns */
    const int d = shape.head_dim;
    const int warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    const int lane = threadIdx.x % WARP;
    const int x = lane_x(), y = lane_y();

    extern __shared__ __align__(16) float shared[];
    float *K_tile = shared;                  /* [D][Bc + PAD] */
    float *V_tile = K_tile + D * (Bc + PAD); /* [Bc][D] */
    /* Q [D], P [Bc][ROWS + PAD] */
    float *slab = V_tile + Bc * D + warp * D * (ROWS + PAD);
    __shared__ float rescale[MAX_WARPS][4 * TR], weight[MAX_WARPS][4 * TR];

    const int head = blockIdx.x;
    const size_t first_query = (size_t)head * shape.seq_q;
    const size_t first_key = (size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv;

    for (int j0 = 0; j0 < shape.seq_kv; j0 += Bc) {
        const int keys = min(Bc, shape.seq_kv - j0);
        const bool last = j0 + keys == shape.seq_kv;
        __syncthreads(); /* every thread is done with the previous K and V */
        load_transposed<D>(K_tile, Bc, K + (first_key + j0) * d, keys, d, 1.0f, warp, warps);
        for (int e = threadIdx.x; e < Bc * D; e += blockDim.x)
            V_tile[e] = e / D < keys && e % D < d ? V[(first_key + j0 + e / D) * d + e % D] : 0.0f;

        for (int block0 = 0; block0 < shape.seq_q; block0 += warps * ROWS) {
            const int i0 = block0 + warp * ROWS;
            const int queries = min(ROWS, shape.seq_q - i0); /* none or fewer, past the end */
            const size_t query = first_query + i0 + lane;
            __syncthreads(); /* every thread is done with the previous P before Q overwrites it */
            load_transposed<D>(slab, ROWS, Q + (first_query + i0) * d, queries, d, shape.scale, 0,
                               1);
            __syncthreads(); /* K, V and Q are complete before any thread reads them */

            float S[TR][TC] = {};
            multiply_add<TR, TC, ROWS + PAD, Bc + PAD>(S, slab, K_tile, d);
            __syncthreads(); /* every thread is done with Q before S overwrites it */

#pragma unroll
            for (int c = 0; c < TC; c++) {
                float p[TR];
#pragma unroll
                for (int r = 0; r < TR; r++)
                    p[r] = S[r][c];
                write_spread<TR>(&slab[spread(c, TC, x, LANES_ACROSS) * (ROWS + PAD)], p, y,
                                 LANES_DOWN);
            }
            __syncthreads(); /* every score of a row is there before its lane looks at them */

            if (lane < queries) {
                const float m_old = m[query], l_old = l[query];
                float m_new = m_old, l_tile = 0.0f;
                for (int c = 0; c < keys; c++)
                    m_new = fmaxf(m_new, slab[c * (ROWS + PAD) + lane]);
                /* While every score is -inf, e^(S - 0) = 0; e^((-inf) - (-inf)) would be NaN. */
                const float top = m_new == -CUDART_INF_F ? 0.0f : m_new;
                for (int c = 0; c < keys; c++) {
                    const float p = expf(slab[c * (ROWS + PAD) + lane] - top);
                    slab[c * (ROWS + PAD) + lane] = p; /* P from here on */
                    l_tile += p;
                }
                const float l_kept = l_old * expf(m_old - top); /* 0 at the first tile: l is 0 */
                const float l_new = l_kept + l_tile;
                weight[warp][lane] = l_new == 0.0f ? 0.0f : 1.0f / l_new;
                rescale[warp][lane] = l_kept * weight[warp][lane];
                l[query] = l_new;
                m[query] = m_new;
                if (last && LSE != NULL)
                    LSE[query] = m_new + logf(l_new);
            }
            __syncthreads(); /* P and the factors are there before the row's threads use them */

            float PV[TR][TD] = {};
            multiply_add<TR, TD, ROWS + PAD, D>(PV, slab, V_tile, keys);

            float *O_slice = O + (first_query + i0) * d;
#pragma unroll
            for (int r = 0; r < TR; r++)
#pragma unroll
                for (int c = 0; c < TD; c++) {
                    const int row = spread(r, TR, y, LANES_DOWN),
                              col = spread(c, TD, x, LANES_ACROSS);
                    if (row < queries && col < d)
                        O_slice[row * d + col] = rescale[warp][row] * O_slice[row * d + col] +
                                                 weight[warp][row] * PV[r][c];
                }
        }
    }
}

template <int D>
static cudaError_t launch(const struct attention *call)
{
    constexpr int warps = D <= 64 ? MAX_WARPS : MAX_WARPS / 2;
    constexpr int shared_bytes =
        sizeof(float) * (D * (Bc + PAD) + Bc * D + warps * D * (4 * TR + PAD));
    static_assert(shared_bytes + 2 * MAX_WARPS * 4 * TR * sizeof(float) <= 64 * 1024,
                  "fits every device");
    float *l = (float *)call->workspace;
    float *m = l + attention_query_rows(call);
    const auto kernel = flash_v1_register_tile<D>;
    const cudaError_t status =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (status != cudaSuccess)
        return status;

    kernel<<<call->batch * call->heads, WARP * warps, shared_bytes, call->stream>>>(
        (const float *)call->Q, (const float *)call->K, (const float *)call->V, (float *)call->O,
        call->LSE, l, m, *call);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_flash_v1_register_tile(const struct attention *call)
{
    static cudaError_t (*const launch_tile[])(const struct attention *) = {launch<32>, launch<64>,
                                                                           launch<96>, launch<128>};
    const cudaError_t status = attention_initial_state(call);
    return status == cudaSuccess ? launch_tile[(call->head_dim - 1) / 32](call) : status;
}
