/*
 * Idea: Q and dO of the next tile are copied while the last products of this one run. dO is free
 * after dV, Q after dK: each copy begins as soon as every warp is done with the tile before.
 *
 *     for each tile i of queries:  S, dP, P, dS | dV += Pᵀ·dO_i | dK += scale · dSᵀ·Q_i | dQ_i +=
 * dS·K on its way meanwhile:                                     | dO_i+1
 * ───────────────────────────► | Q_i+1 ───►
 *
 * Q, O, dO, dQ [batch, heads, seq_q, head_dim], K, V, dK, dV [batch, kv_heads, seq_kv, head_dim],
 * LSE [batch, heads, seq_q], all row-major. Workspace: D = rowsum(dO∘O) [batch, heads, seq_q].
 *
 * Tiles and owners are those of backward_registers. No tile has a second buffer: a barrier more
 * before each copy is the price, and two blocks still share a multiprocessor.
 *
 * Cost: that of backward_registers, and 4 barriers a tile in place of 3.
 */
#include "05_flash_v2/05_step.h"
#include "backward_tiles.h"
#include "device/device.h"
#include "device/tiles.cuh"
#include "device/vectors.cuh"
#include <ptx.cuh>
#include "row_products.cuh"

#include <math_constants.h>

static const int THREADS = WARP * BACKWARD_WARPS;

/* Starts the copy of rows 0 .. ROWS - 1 of a matrix [rows, d] into a tile [ROWS][D + ROW_PAD]. What
 * lies past either end is not read and becomes zero. One group of copies. */
template <int ROWS, int D>
static __device__ __forceinline__ void copy_rows(float *tile, const float *from, int rows, int d,
                                                 bool aligned)
{
    if (aligned) {
        const int col = threadIdx.x % 8 * 4;
#pragma unroll
        for (int row0 = 0; row0 < ROWS; row0 += THREADS / 8) {
            const int row = row0 + threadIdx.x / 8, left = row < rows ? d - col : 0;
#pragma unroll
            for (int c = 0; c < D; c += 32)
                cp_async_16_zero_fill(shared_address(&tile[row * (D + ROW_PAD) + c + col]),
                                      from + (size_t)row * d + c + col, c < left ? 16 : 0);
        }
    } else {
        for (int row = threadIdx.x / WARP; row < ROWS; row += BACKWARD_WARPS)
            for (int c = threadIdx.x % WARP; c < D; c += WARP) {
                const bool inside = row < rows && c < d;
                cp_async_4_zero_fill(shared_address(&tile[row * (D + ROW_PAD) + c]),
                                     from + (size_t)row * d + c, inside ? 4 : 0);
            }
    }
    cp_async_commit();
}

/* Loads LSE and D of a tile of queries. A query that sees no key, or lies past the end, has no
 * weight: e^(S - inf) = 0. */
template <int Br>
static __device__ __forceinline__ void load_sums(float *LSE_tile, float *D_tile, const float *LSE,
                                                 const float *D, int queries)
{
    for (int row = threadIdx.x; row < Br; row += THREADS) {
        const float lse = row < queries ? LSE[row] : -CUDART_INF_F;
        LSE_tile[row] = lse == -CUDART_INF_F ? CUDART_INF_F : lse;
        D_tile[row] = row < queries ? D[row] : 0.0f;
    }
}

template <int Br, int Bc, int D>
__global__ void __launch_bounds__(THREADS, 2)
    backward_async(const float *Q, const float *K, const float *V, const float *dO,
                   const float *D_sums, float *dQ, float *dK, float *dV,
                   const struct attention_backward call, bool aligned)
{
    const int TR = Br / 16, TC = Bc / 8; /* of S, dP: rows and columns of a thread */
    const int TK = Bc / 16, TD = D / 8;  /* of dK, dV; dQ has TR x TD */
    const int ROWS = D + ROW_PAD, SCORES = Bc + SCORE_PAD;

    extern __shared__ __align__(16) float shared[];
    float *K_tile = shared;                /* [Bc][ROWS] */
    float *V_tile = K_tile + Bc * ROWS;    /* [Bc][ROWS] */
    float *Q_tile = V_tile + Bc * ROWS;    /* [Br][ROWS] */
    float *dO_tile = Q_tile + Br * ROWS;   /* [Br][ROWS] */
    float *P_tile = dO_tile + Br * ROWS;   /* [Br][SCORES] */
    float *dS_tile = P_tile + Br * SCORES; /* [Br][SCORES] */
    float *LSE_tile = dS_tile + Br * SCORES, *D_tile = LSE_tile + Br;

    const int x = lane_x(), y = lane_y(), warp = threadIdx.x / WARP;
    const int row0 = warp * (Br / BACKWARD_WARPS), key0 = warp * (Bc / BACKWARD_WARPS);

    const int d = call.head_dim;
    const int tiles = ceil_div(call.seq_kv, Bc);
    const int kv_head = blockIdx.x / tiles;
    const int j0 = blockIdx.x % tiles * Bc;
    const int keys = min(Bc, call.seq_kv - j0);
    const size_t first_key = (size_t)kv_head * call.seq_kv + j0;
    const int all_queries = call.heads / call.kv_heads * call.seq_q;
    const size_t first_query = (size_t)kv_head * all_queries;

    const float *Q_head = Q + first_query * d, *dO_head = dO + first_query * d;
    copy_rows<Bc, D>(K_tile, K + first_key * d, keys, d, aligned);
    copy_rows<Bc, D>(V_tile, V + first_key * d, keys, d, aligned);
    copy_rows<Br, D>(dO_tile, dO_head, min(Br, all_queries), d, aligned);
    copy_rows<Br, D>(Q_tile, Q_head, min(Br, all_queries), d, aligned);
    load_sums<Br>(LSE_tile, D_tile, call.LSE + first_query, D_sums + first_query, all_queries);
    float dk[TK][TD] = {}, dv[TK][TD] = {};

    for (int i0 = 0; i0 < all_queries; i0 += Br) {
        const int queries = min(Br, all_queries - i0), next = i0 + Br;
        const int next_queries = min(Br, all_queries - next); /* none after the last tile */
        const size_t query = first_query + i0;
        cp_async_wait<0>();
        __syncthreads(); /* every thread's part of the tiles is there, and P and dS are free */

        float P[TR][TC] = {}, dS[TR][TC] = {};
        multiply_rows<TR, TC, ROWS>(P, Q_tile + row0 * ROWS, K_tile, D);
        multiply_rows<TR, TC, ROWS>(dS, dO_tile + row0 * ROWS, V_tile, D);
#pragma unroll
        for (int r = 0; r < TR; r++) {
            const int row = row0 + y + LANES_DOWN * r;
#pragma unroll
            for (int c = 0; c < TC; c++) {
                const int key = x + LANES_ACROSS * c;
                const float p = key < keys ? expf(call.scale * P[r][c] - LSE_tile[row]) : 0.0f;
                P_tile[row * SCORES + key] = p;
                dS_tile[row * SCORES + key] = p * (dS[r][c] - D_tile[row]);
            }
        }
        __syncthreads(); /* P and dS are complete before a warp reads columns of them */

        load_sums<Br>(LSE_tile, D_tile, call.LSE + first_query + next, D_sums + first_query + next,
                      next_queries);
        multiply_add<TK, TD, SCORES, ROWS>(dv, P_tile + key0, dO_tile, Br);
        __syncthreads(); /* every warp is done with dO before the next tile overwrites it */
        copy_rows<Br, D>(dO_tile, dO_head + (size_t)next * d, next_queries, d, aligned);
        multiply_add<TK, TD, SCORES, ROWS>(dk, dS_tile + key0, Q_tile, Br);
        __syncthreads(); /* every warp is done with Q before the next tile overwrites it */
        copy_rows<Br, D>(Q_tile, Q_head + (size_t)next * d, next_queries, d, aligned);

        float dq[TR][TD] = {};
        multiply_row_column<TR, TD, SCORES, ROWS>(dq, dS_tile + row0 * SCORES, K_tile, Bc);
#pragma unroll
        for (int r = 0; r < TR; r++) {
            const int row = row0 + y + LANES_DOWN * r;
#pragma unroll
            for (int n = 0; n < TD; n++) {
                const int c = spread(n, TD, x, LANES_ACROSS);
                if (row < queries && c < d)
                    atomicAdd(&dQ[(query + row) * d + c], call.scale * dq[r][n]);
            }
        }
    }

    /* The copies after the last tile wrote only zeros, but no thread leaves before its copies. */
    cp_async_wait<0>();

#pragma unroll
    for (int r = 0; r < TK; r++) {
        const int key = key0 + spread(r, TK, y, LANES_DOWN);
#pragma unroll
        for (int n = 0; n < TD; n += 4) {
            const int c = spread(n, TD, x, LANES_ACROSS);
            store_4(dV + first_key * d, key, c, keys, d, aligned,
                    make_float4(dv[r][n], dv[r][n + 1], dv[r][n + 2], dv[r][n + 3]));
            store_4(dK + first_key * d, key, c, keys, d, aligned,
                    make_float4(call.scale * dk[r][n], call.scale * dk[r][n + 1],
                                call.scale * dk[r][n + 2], call.scale * dk[r][n + 3]));
        }
    }
}

template <int Br, int Bc, int D>
static cudaError_t launch(const struct attention_backward *call, const struct backward_tile *tile)
{
    const float *Q = (const float *)call->Q, *K = (const float *)call->K,
                *V = (const float *)call->V, *dO = (const float *)call->dO;
    float *dQ = (float *)call->dQ, *dK = (float *)call->dK, *dV = (float *)call->dV;
    const float *D_sums = (const float *)call->workspace;
    const int d = call->head_dim;
    const bool aligned = rows_aligned(Q, d) && rows_aligned(K, d) && rows_aligned(V, d) &&
                         rows_aligned(dO, d) && rows_aligned(dK, d) && rows_aligned(dV, d);
    const size_t bytes_Q = attention_backward_query_rows(call) * d * sizeof(float);
    /* What atomics add to begins at 0. */
    cudaError_t status = cudaMemsetAsync(dQ, 0, bytes_Q, call->stream);
    if (status == cudaSuccess)
        status =
            cudaFuncSetAttribute(backward_async<Br, Bc, D>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, tile->shared_bytes);
    if (status != cudaSuccess)
        return status;

    const int blocks = backward_tile_blocks(call, Bc);
    backward_async<Br, Bc, D><<<blocks, THREADS, tile->shared_bytes, call->stream>>>(
        Q, K, V, dO, D_sums, dQ, dK, dV, *call, aligned);
    return cudaGetLastError();
}

#define LAUNCH(Br, Bc, D) launch<Br, Bc, D>

extern "C" cudaError_t attention_backward_async(const struct attention_backward *call)
{
    static cudaError_t (*const launch_tile[2][4])(const struct attention_backward *,
                                                  const struct backward_tile *) = {
        {SMALL_BACKWARD_TILES(LAUNCH)}, {LARGE_BACKWARD_TILES(LAUNCH)}};
    struct device_limits device;
    cudaError_t status = current_device(&device);
    if (status == cudaSuccess)
        status = attention_backward_row_dots(call, (float *)call->workspace);
    if (status != cudaSuccess)
        return status;
    const bool large = large_backward_tile_fits(call->head_dim, &device);
    const struct backward_tile tile = backward_tile_of(large, call->head_dim);
    return launch_tile[large][tile.size](call, &tile);
}
