/*
 * Idea: the largest rectangles that the registers hold, in the largest tile that the shared memory
 * holds: 8 × 8 of S and of O per thread, 16 floats from shared memory for 64 multiply-adds.
 *
 *     for each tile j of Bc keys:  S = scale · Q·K_jᵀ        m' = max(m, rowmax S)
 *                                  P = e^(S - m')            l  = l · e^(m - m') + rowsum P
 *                                                            O  = O · e^(m - m') + P·V_j
 *     at the end:                  O = O / l                 LSE = m + ln l
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], row-major.
 *
 * A block of 4 warps owns Br = 16·TR rows, a warp 4·TR of them, and its 32 lanes stand in 4 rows
 * (y) of 8 (x). Thread (y, x) has TR rows of the warp's, the keys x, x + 8, ... (TC of them) of S
 * and TD = D / 8 elements of each row of O.
 *
 * D is head_dim rounded up to 32, 64, 96 or 128, the rest zeros. The tile is picked by D and by the
 * shared memory that the device allows a block: at head_dim 64 on sm_80 and sm_90, Br = 128, Bc =
 * 64, TR = TC = 8, 106 KiB.
 *
 * Cost: global traffic as flash_v2's with this Br. Shared: at TR = TC = TD = 8, per thread, 4 reads
 * of 16 bytes for 64 multiply-adds. Registers: 64 for S, 64 for O, 32 for the operands of two
 * steps, 16 for m and l.
 *
 * Source: Dao, FlashAttention-2 (arXiv:2307.08691), section 3.3, work partitioning between warps.
 */
#include "05_flash_v2/05_step.h"
#include "device/device.h"
#include <ptx.cuh>
#include "05_flash_v2/query_tiles.h"
#include "device/rectangles.cuh"
#include "device/tiles.cuh"
#include "device/vectors.cuh"
#include "device/warp.cuh"

#include <math_constants.h>

static const int THREADS = WARP * WARPS;

/*
 * Starts the copy of keys j0 .. j0 + Bc - 1 of K [keys, d] into the columns of K_tile [D][Bc +
 * PAD]: key x + 8j of each 32 becomes column 4x + j, so that the four keys of thread x lie side by
 * side. What lies past either end is not read and becomes zero. One group of copies.
 */
template <int Bc, int D>
static __device__ __forceinline__ void copy_K(float *K_tile, const float *K, int j0, int keys,
                                              int d)
{
    const int lane = threadIdx.x % WARP, feature = lane % 8, j = lane / 8;
#pragma unroll
    for (int key = 0; key < Bc; key += 32)
#pragma unroll
        for (int x = 0; x < 8; x += WARPS) {
            const int this_x = x + threadIdx.x / WARP;
            const int this_key = j0 + key + 8 * j + this_x;
            const float *from = K + (size_t)this_key * d + feature;
            const uint32_t to =
                shared_address(&K_tile[feature * (Bc + PAD) + key + 4 * this_x + j]);
            const int features_left = this_key < keys ? d - feature : 0;
#pragma unroll
            for (int k = 0; k < D; k += 8)
                cp_async_4_zero_fill(to + sizeof(float) * k * (Bc + PAD), from + k,
                                     k < features_left ? 4 : 0);
        }
    cp_async_commit();
}

/* Starts the copy of keys j0 .. j0 + Bc - 1 of V [keys, d] into V_tile [Bc][D], likewise. */
template <int Bc, int D>
static __device__ __forceinline__ void copy_V(float *V_tile, const float *V, int j0, int keys,
                                              int d, bool aligned)
{
    if (aligned) {
        const int feature = threadIdx.x % 8 * 4;
#pragma unroll
        for (int key = 0; key < Bc; key += THREADS / 8) {
            const int this_key = key + threadIdx.x / 8;
            const float *from = V + (size_t)(j0 + this_key) * d + feature;
            const uint32_t to = shared_address(&V_tile[this_key * D + feature]);
            const int features_left = j0 + this_key < keys ? d - feature : 0;
#pragma unroll
            for (int k = 0; k < D; k += 32)
                cp_async_16_zero_fill(to + sizeof(float) * k, from + k, k < features_left ? 16 : 0);
        }
    } else {
        for (int key = threadIdx.x / WARP; key < Bc; key += WARPS)
            for (int feature = threadIdx.x % WARP; feature < D; feature += WARP) {
                const bool inside = j0 + key < keys && feature < d;
                cp_async_4_zero_fill(shared_address(&V_tile[key * D + feature]),
                                     V + (size_t)(j0 + key) * d + feature, inside ? 4 : 0);
            }
    }
    cp_async_commit();
}

template <int TR, int TC, int D>
__global__ void __launch_bounds__(THREADS, 2)
    flash_v2_large_tiles(const float *Q, const float *K, const float *V, float *O, float *LSE,
                         const struct attention shape, bool aligned)
{
    const int Br = 16 * TR;
    const int Bc = 8 * TC;
    const int TD = D / 8;             /* elements of a row of O that a thread owns */
    const int ROWS = LANES_DOWN * TR; /* of a warp */

    extern __shared__ __align__(16) float shared[];
    float *Q_tile = shared;                  /* [D][Br + PAD] */
    float *K_tile = Q_tile + D * (Br + PAD); /* [D][Bc + PAD] */
    float *V_tile = K_tile + D * (Bc + PAD); /* [Bc][D] */

    const int x = lane_x(), y = lane_y(), warp = threadIdx.x / WARP;
    /* [Bc][ROWS + P_PAD], this warp's own */
    float *P_slab = V_tile + Bc * D + warp * slab_floats(TR, TC);

    const int d = shape.head_dim;
    const int tiles = ceil_div(shape.seq_q, Br);
    const int head = blockIdx.x / tiles;
    const int i0 = blockIdx.x % tiles * Br;
    const int queries = min(Br, shape.seq_q - i0);
    const size_t first_query = (size_t)head * shape.seq_q + i0;
    const size_t first_key = (size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv;
    float *O_block = O + first_query * d;
    const float *K_head = K + first_key * d;
    const float *V_head = V + first_key * d;

    copy_K<Bc, D>(K_tile, K_head, 0, shape.seq_kv, d);

    const float scale = shape.scale;
    for (int row = threadIdx.x / 8; row < Br; row += THREADS / 8)
#pragma unroll
        for (int k = 0; k < D; k += 8) {
            const int feature = k + threadIdx.x % 8;
            const bool inside = row < queries && feature < d;
            Q_tile[feature * (Br + PAD) + row] =
                inside ? Q[(first_query + row) * d + feature] * scale : 0.0f;
        }

    float m[TR], l[TR];
    float o[TR][TD] = {};
#pragma unroll
    for (int r = 0; r < TR; r++) {
        m[r] = -CUDART_INF_F;
        l[r] = 0.0f;
    }

    for (int j0 = 0; j0 < shape.seq_kv; j0 += Bc) {
        copy_V<Bc, D>(V_tile, V_head, j0, shape.seq_kv, d, aligned);
        cp_async_wait<1>(); /* this thread's part of K is there; V may still be on its way */
        __syncthreads();    /* every thread's part of K (and, the first time, of Q) is there */

        float S[TR][TC] = {};
        multiply_add<TR, TC, Br + PAD, Bc + PAD>(S, Q_tile + warp * ROWS, K_tile, D);
        __syncthreads(); /* every thread is done with K before the next tile overwrites it */
        copy_K<Bc, D>(K_tile, K_head, j0 + Bc, shape.seq_kv, d);

        if (j0 + Bc > shape.seq_kv) { /* keys past the end get no weight */
#pragma unroll
            for (int c = 0; c < TC; c++)
                if (j0 + x + 8 * c >= shape.seq_kv)
#pragma unroll
                    for (int r = 0; r < TR; r++)
                        S[r][c] = -CUDART_INF_F;
        }

#pragma unroll
        for (int r = 0; r < TR; r++) {
            float m_new = m[r];
#pragma unroll
            for (int c = 0; c < TC; c++)
                m_new = fmaxf(m_new, S[r][c]);
            m_new = max_over_x(m_new);
            /* While every score is -inf, e^(S - 0) = 0; e^((-inf) - (-inf)) would be NaN. */
            const float top = m_new == -CUDART_INF_F ? 0.0f : m_new;

            const float rescale = expf(m[r] - top); /* 0 at the first tile: m is -inf */
            m[r] = m_new;
            l[r] *= rescale;
#pragma unroll
            for (int c = 0; c < TD; c++)
                o[r][c] *= rescale;
#pragma unroll
            for (int c = 0; c < TC; c++) {
                S[r][c] = expf(S[r][c] - top); /* P from here on */
                l[r] += S[r][c];
            }
        }

#pragma unroll
        for (int c = 0; c < TC; c++) {
            float p[TR];
#pragma unroll
            for (int r = 0; r < TR; r++)
                p[r] = S[r][c];
            write_spread<TR>(&P_slab[(x + 8 * c) * (ROWS + P_PAD)], p, y, LANES_DOWN);
        }

        /* this thread's part of V is there; the next K may still be on its way */
        cp_async_wait<1>();
        /* every thread's part of V is there, and so are the rows of P that the warp wrote */
        __syncthreads();

        multiply_add<TR, TD, ROWS + P_PAD, D>(o, P_slab, V_tile, Bc);
        __syncthreads(); /* every thread is done with V before the next tile overwrites it */
    }

    /* The copy after the last tile's wrote only zeros, but no thread leaves before its copies. */
    cp_async_wait<0>();

#pragma unroll
    for (int r = 0; r < TR; r++) {
        l[r] = sum_over_x(l[r]);

        const int row = warp * ROWS + spread(r, TR, y, LANES_DOWN);
        if (row < queries) {
            const float weight = l[r] == 0.0f ? 0.0f : 1.0f / l[r]; /* no weight at all: O = 0 */
#pragma unroll
            for (int c = 0; c < TD; c += 4) {
                const float4 four = make_float4(o[r][c] * weight, o[r][c + 1] * weight,
                                                o[r][c + 2] * weight, o[r][c + 3] * weight);
                store_4(O_block, row, spread(c, TD, x, LANES_ACROSS), queries, d, aligned, four);
            }
            if (LSE != NULL && x == 0)
                LSE[first_query + row] = m[r] + logf(l[r]);
        }
    }
}

template <int TR, int TC, int D>
static cudaError_t launch(const struct attention *call, const struct query_tile *tile)
{
    const float *Q = (const float *)call->Q, *K = (const float *)call->K,
                *V = (const float *)call->V;
    float *O = (float *)call->O;
    const bool aligned = rows_aligned(K, call->head_dim) && rows_aligned(V, call->head_dim) &&
                         rows_aligned(O, call->head_dim);
    const cudaError_t status =
        cudaFuncSetAttribute(flash_v2_large_tiles<TR, TC, D>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, tile->shared_bytes);
    if (status != cudaSuccess)
        return status;

    const int blocks = query_tile_blocks(call, tile->Br);
    flash_v2_large_tiles<TR, TC, D><<<blocks, THREADS, tile->shared_bytes, call->stream>>>(
        Q, K, V, O, call->LSE, *call, aligned);
    return cudaGetLastError();
}

#define LAUNCH(TR, TC, D) launch<TR, TC, D>

extern "C" cudaError_t attention_flash_v2_large_tiles(const struct attention *call)
{
    static cudaError_t (*const launch_tile[2][4])(
        const struct attention *, const struct query_tile *) = {{SMALL_TILES(LAUNCH)},
                                                                {LARGE_TILES(LAUNCH)}};
    struct device_limits device;
    const cudaError_t status = current_device(&device);
    if (status != cudaSuccess)
        return status;
    const bool large = large_tile_fits(call->head_dim, &device);
    const struct query_tile tile = query_tile_of(large, call->head_dim);
    return launch_tile[large][tile.size](call, &tile);
}
