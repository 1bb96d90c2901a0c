/*
 * Idea: the hardware's exponential has base 2. The scale and log2 e go into Q while it is loaded,
 * so 2^(S - m') is one subtraction and one instruction. m is a base-2 logarithm here.
 *
 *     for each tile j of Bc keys, for each slice i of 4·TR queries:
 *         S = log2 e · scale · Q_i·K_jᵀ     m' = max(m, rowmax S)     P = 2^(S - m')
 *         l' = l·2^(m - m') + rowsum P
 *         O  = O · l·2^(m - m') / l' + P·V_j / l'            m = m', l = l'
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], all row-major. Workspace: l and m, one each per query.
 *
 * A block owns one head; K [head_dim][Bc] and V [Bc][D] are shared by its warps, and each warp has
 * one slab for Q and P and goes through its own slices of 4·TR queries. Thread (y, x) of a warp
 * owns TR rows, TC = Bc / 8 scores and TD = D / 8 elements of O of each.
 *
 * Cost: global traffic as flash_v1 with this Bc. batch·heads blocks, one per multiprocessor.
 *
 * Source: Dao et al., FlashAttention (arXiv:2205.14135), algorithm 1.
 */
#include "04_flash_v1/04_step.h"
#include "device/device.h"
#include "load_ahead.cuh"
#include <ptx.cuh>
#include "device/rectangles.cuh"
#include "slabs.cuh"
#include "device/tiles.cuh"
#include "device/vectors.cuh"
#include "device/warp.cuh"

#include <math_constants.h>

template <int D, int Bc, int TR, bool ALIGNED>
__global__ void __launch_bounds__(WARP *MAX_WARPS, 1)
    flash_v1_base_2(const float *Q, const float *K, const float *V, float *O, float *LSE, float *l,
                    float *m, const struct attention shape)
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
    float *slab = shared + tile_floats(D, Bc) + warp * slab_floats(D, Bc, TR);

    const int head = blockIdx.x;
    const size_t first_query = (size_t)head * shape.seq_q;
    const size_t first_key = (size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv;

    for (int j0 = 0; j0 < shape.seq_kv; j0 += Bc) {
        const int keys = min(Bc, shape.seq_kv - j0);
        const bool last = j0 + keys == shape.seq_kv;
        __syncthreads(); /* every thread is done with the previous K and V */
        load_transposed<D>(K_tile, Bc, K + (first_key + j0) * d, keys, d, 1.0f, warp, warps);
        for (int e = 4 * threadIdx.x; e < Bc * D; e += 4 * blockDim.x)
            *(float4 *)&V_tile[e] =
                load_4(V + (first_key + j0) * d, e / D, e % D, keys, d, ALIGNED);
        __syncthreads(); /* the tile is complete before any warp reads it */

        for (int i0 = warp * ROWS; i0 < shape.seq_q; i0 += warps * ROWS) {
            const int queries = min(ROWS, shape.seq_q - i0);
            __syncwarp(); /* every lane is done with the previous P before Q overwrites it */
            load_transposed<D>(slab, ROWS, Q + (first_query + i0) * d, queries, d,
                               shape.scale * CUDART_L2E_F, 0, 1);
            __syncwarp(); /* the slice is complete before any lane reads it */

            /* Lane by lane the state of the slice's queries; on its way while the product runs. */
            const size_t query = first_query + i0 + lane;
            const float m_lane = lane < queries ? m[query] : -CUDART_INF_F;
            const float l_lane = lane < queries ? l[query] : 0.0f;

            float S[TR][TC] = {};
            multiply_add<TR, TC, ROWS + PAD, Bc + PAD>(S, slab, K_tile, d);
            __syncwarp(); /* every lane is done with Q before P overwrites it */

            float rescale[TR], weight[TR];
#pragma unroll
            for (int r = 0; r < TR; r++) {
                const int row = spread(r, TR, y, LANES_DOWN);
                const float m_old = __shfl_sync(FULL_MASK, m_lane, row);
                const float l_old = __shfl_sync(FULL_MASK, l_lane, row);

                float m_new = m_old;
#pragma unroll
                for (int c = 0; c < TC; c++) {
                    /* Where there is no key, the score is a product with zeros. */
                    if (spread(c, TC, x, LANES_ACROSS) >= keys)
                        S[r][c] = -CUDART_INF_F;
                    m_new = fmaxf(m_new, S[r][c]);
                }
                m_new = max_over_x(m_new);
                /* While every score is -inf, e^(S - 0) = 0; e^((-inf) - (-inf)) would be NaN. */
                const float top = m_new == -CUDART_INF_F ? 0.0f : m_new;

                float l_tile = 0.0f;
#pragma unroll
                for (int c = 0; c < TC; c++) {
                    S[r][c] = exp2_approximate(S[r][c] - top); /* P from here on */
                    l_tile += S[r][c];
                }
                l_tile = sum_over_x(l_tile);

                const float l_kept =
                    l_old * exp2_approximate(m_old - top); /* 0 at the first tile: l is 0 */
                const float l_new = l_kept + l_tile;
                weight[r] = l_new == 0.0f ? 0.0f : __fdividef(1.0f, l_new);
                rescale[r] = l_kept * weight[r];
                if (x == 0 && row < queries) {
                    m[first_query + i0 + row] = m_new;
                    l[first_query + i0 + row] = l_new;
                    if (last && LSE != NULL)
                        LSE[first_query + i0 + row] = (m_new + log2f(l_new)) * CUDART_LN2_F;
                }
            }

#pragma unroll
            for (int c = 0; c < TC; c++) {
                float p[TR];
#pragma unroll
                for (int r = 0; r < TR; r++)
                    p[r] = S[r][c];
                write_spread<TR>(&slab[spread(c, TC, x, LANES_ACROSS) * (ROWS + PAD)], p, y,
                                 LANES_DOWN);
            }
            __syncwarp(); /* P is complete before any lane reads it */

            /* O travels during the product; loads and stores in turn would wait for each other. */
            float *O_slice = O + (first_query + i0) * d;
            float4 old[TR][TD / 4];
#pragma unroll
            for (int r = 0; r < TR; r++)
#pragma unroll
                for (int c = 0; c < TD; c += 4)
                    old[r][c / 4] = load_4(O_slice, spread(r, TR, y, LANES_DOWN),
                                           spread(c, TD, x, LANES_ACROSS), queries, d, ALIGNED);

            float PV[TR][TD] = {};
            multiply_add<TR, TD, ROWS + PAD, D>(PV, slab, V_tile, keys);

#pragma unroll
            for (int r = 0; r < TR; r++)
#pragma unroll
                for (int c = 0; c < TD; c += 4) {
                    float4 o = old[r][c / 4];
                    o.x = rescale[r] * o.x + weight[r] * PV[r][c];
                    o.y = rescale[r] * o.y + weight[r] * PV[r][c + 1];
                    o.z = rescale[r] * o.z + weight[r] * PV[r][c + 2];
                    o.w = rescale[r] * o.w + weight[r] * PV[r][c + 3];
                    store_4(O_slice, spread(r, TR, y, LANES_DOWN), spread(c, TD, x, LANES_ACROSS),
                            queries, d, ALIGNED, o);
                }
        }
    }
}

template <int D, int Bc, int TR, bool ALIGNED>
static cudaError_t launch(const struct attention *call, const struct slabs *slabs)
{
    float *l = (float *)call->workspace;
    float *m = l + attention_query_rows(call);
    const auto kernel = flash_v1_base_2<D, Bc, TR, ALIGNED>;
    const cudaError_t status = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, slabs->shared_bytes);
    if (status != cudaSuccess)
        return status;

    kernel<<<call->batch * call->heads, WARP * slabs->warps, slabs->shared_bytes, call->stream>>>(
        (const float *)call->Q, (const float *)call->K, (const float *)call->V, (float *)call->O,
        call->LSE, l, m, *call);
    return cudaGetLastError();
}

#define SMALL(D, Bc, TR) launch<D, Bc, TR, false>
#define LARGE(D, Bc, TR) launch<D, Bc, TR, true>

extern "C" cudaError_t attention_flash_v1_base_2(const struct attention *call)
{
    static cudaError_t (*const launch_tile[2][4])(const struct attention *,
                                                  const struct slabs *) = {{SMALL_TILES(SMALL)},
                                                                           {LARGE_TILES(LARGE)}};
    struct device_limits device;
    cudaError_t status = attention_initial_state(call);
    if (status == cudaSuccess)
        status = current_device(&device);
    if (status != cudaSuccess)
        return status;
    const int d = call->head_dim;
    const bool aligned =
        rows_aligned((const float *)call->V, d) && rows_aligned((const float *)call->O, d);
    const bool large = large_slabs_fit(d, aligned, &device);
    const struct slabs slabs = slabs_in(large, d, device.shared_bytes);
    return launch_tile[large][slabs.size](call, &slabs);
}
