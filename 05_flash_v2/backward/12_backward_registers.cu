/*
 * Idea: all five products from registers. A thread owns a rectangle of S and dP, one of dK and dV,
 * and one of dQ: a float from shared memory serves 4 or 8 multiply-adds, where in
 * backward_recompute it serves one.
 *
 *     for each tile i of queries:  P = e^(scale · Q_i·Kᵀ - LSE_i)    dS = P∘(dO_i·Vᵀ - D_i)
 *                                  dV += Pᵀ·dO_i                      dK += scale · dSᵀ·Q_i
 *                                  dQ_i += scale · dS·K               (atomically)
 *
 * Q, O, dO, dQ [batch, heads, seq_q, head_dim], K, V, dK, dV [batch, kv_heads, seq_kv, head_dim],
 * LSE [batch, heads, seq_q], all row-major. Workspace: D = rowsum(dO∘O) [batch, heads, seq_q].
 *
 * Each tile lies in shared memory once, row by row as in global memory, although three products
 * want Q or K along its rows and two along its columns. Where both factors are read along their
 * rows (S and dP), a thread reads four features of each at once. Where one is (dS, for dQ), it
 * reads four keys of it at once. dV and dK have the form of common/device/rectangles.cuh: P and dS
 * are read along their columns without having been transposed.
 *
 * A block of 4 warps owns Bc keys of one key/value head. A warp has Br / 4 rows of S, of dP and of
 * dQ and Bc / 4 rows of dK and dV; thread (y, x) of its 4 × 8 has TR × TC of S and dP, TK × TD of
 * dK and of dV, and TR × TD of dQ. P and dS pass through shared memory, for every warp's dK and dV.
 *
 * D is head_dim rounded up to 32, 64, 96 or 128, the rest zeros. The tile is picked by D and by the
 * shared memory that the device allows a block: at head_dim 64 on sm_80 and sm_90, Br = Bc = 64, a
 * thread's rectangles are 4 × 8, and two blocks share a multiprocessor.
 *
 * Cost: global traffic as backward_recompute's with this Bc. Shared: per thread, at 4 × 8, 3 reads
 * of 16 bytes for 32 multiply-adds.
 */
#include "05_flash_v2/05_step.h"
#include "backward_tiles.h"
#include "device/device.h"
#include "device/tiles.cuh"
#include "device/vectors.cuh"
#include "row_products.cuh"

#include <math_constants.h>

static const int THREADS = WARP * BACKWARD_WARPS;

/* Copies rows 0 .. ROWS - 1 of a matrix [rows, d] into a tile [ROWS][D + ROW_PAD]. What lies past
 * either end becomes zero. */
template <int ROWS, int D>
static __device__ __forceinline__ void copy_rows(float *tile, const float *from, int rows, int d,
                                                 bool aligned)
{
    const int col = threadIdx.x % 8 * 4;
#pragma unroll
    for (int row0 = 0; row0 < ROWS; row0 += THREADS / 8) {
        const int row = row0 + threadIdx.x / 8;
#pragma unroll
        for (int c = 0; c < D; c += 32)
            *(float4 *)&tile[row * (D + ROW_PAD) + c + col] =
                load_4(from, row, c + col, rows, d, aligned);
    }
}

template <int Br, int Bc, int D>
__global__ void __launch_bounds__(THREADS, 2)
    backward_registers(const float *Q, const float *K, const float *V, const float *dO,
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

    copy_rows<Bc, D>(K_tile, K + first_key * d, keys, d, aligned);
    copy_rows<Bc, D>(V_tile, V + first_key * d, keys, d, aligned);
    float dk[TK][TD] = {}, dv[TK][TD] = {};

    for (int i0 = 0; i0 < all_queries; i0 += Br) {
        const int queries = min(Br, all_queries - i0);
        const size_t query = first_query + i0;
        __syncthreads(); /* every thread is done with the previous tiles of queries */
        copy_rows<Br, D>(Q_tile, Q + query * d, queries, d, aligned);
        copy_rows<Br, D>(dO_tile, dO + query * d, queries, d, aligned);
        for (int row = threadIdx.x; row < Br; row += THREADS) {
            const float LSE = row < queries ? call.LSE[query + row] : -CUDART_INF_F;
            /* A query that sees no key, or lies past the end, has no weight: e^(S - inf) = 0. */
            LSE_tile[row] = LSE == -CUDART_INF_F ? CUDART_INF_F : LSE;
            D_tile[row] = row < queries ? D_sums[query + row] : 0.0f;
        }
        __syncthreads(); /* the tiles are complete before any score */

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

        multiply_add<TK, TD, SCORES, ROWS>(dv, P_tile + key0, dO_tile, Br);
        multiply_add<TK, TD, SCORES, ROWS>(dk, dS_tile + key0, Q_tile, Br);

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
            cudaFuncSetAttribute(backward_registers<Br, Bc, D>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, tile->shared_bytes);
    if (status != cudaSuccess)
        return status;

    const int blocks = backward_tile_blocks(call, Bc);
    backward_registers<Br, Bc, D><<<blocks, THREADS, tile->shared_bytes, call->stream>>>(
        Q, K, V, dO, D_sums, dQ, dK, dV, *call, aligned);
    return cudaGetLastError();
}

#define LAUNCH(Br, Bc, D) launch<Br, Bc, D>

extern "C" cudaError_t attention_backward_registers(const struct attention_backward *call)
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
