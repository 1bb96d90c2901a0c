/*
 * What the rungs for Hopper (sm_90a) have in common: the tile, its two products, its loads, its
 * launch. How these are ordered and who does them is each rung's own.
 *
 * A block owns the O tile of BM = 64 * WARPGROUPS queries of one head; a warpgroup (four warps) 64
 * of them, a warp 16, with S, P and O in registers as score_rows.cuh describes. BN = 128 keys are
 * taken at a time, from the last that any query sees to the first: what must be masked comes first
 * and the rest of the loop knows no mask.
 *
 * In shared memory everything lies in panels of 64 columns, as the copy engine delivers it: rows of
 * 128 bytes, swizzled. Q is [WARPGROUPS][PANELS][64][64], a stage of K or V [PANELS][BN][64], with
 * PANELS = HEAD_DIM / 64.
 */
#ifndef HOPPER_TILE_CUH
#define HOPPER_TILE_CUH

#include "score_rows.cuh"
#include "tensor_map.h"
#include "tile_order.cuh"

static const int BN = 128;
static const int WARPGROUP_ROWS = 64;
static const int WARP_ROWS = 16;
static const int PANEL_COLS = TENSOR_MAP_BOX_COLS;
static const int ROW_BYTES = PANEL_COLS * sizeof(__half);

/* All that a kernel is told. It is a __grid_constant__ parameter: tensor maps are used where they
 * are, never copied. */
struct hopper_problem {
    CUtensorMap Q; /* boxes of 64 rows */
    CUtensorMap K; /* boxes of BN rows */
    CUtensorMap V; /* boxes of BN rows */
    __half *O;
    float *LSE; /* may be null */
    struct attention shape;
    struct tile_order order;
    float scale_log2;
};

/*
 * One tile of O and the key blocks that it needs. The last tile of a head ends where the sequence
 * does, and the first may begin before it: a causal tile sees the more keys the later it is, so
 * rows that do not exist cost least in the first. They are whole warps', whose rows the copy engine
 * would not store: a box may end behind the array, not begin before it.
 */
struct hopper_tile {
    int head, kv_head; /* over all batches */
    int row0;          /* may be negative */
    /* key blocks that some query sees, at least one: a block of nothing but masked keys gives O =
     * 0 */
    int blocks;
    int unmasked; /* the first so many of them need no mask */
};

template <int BM, bool CAUSAL>
static __device__ __forceinline__ struct hopper_tile
hopper_tile_of(const struct hopper_problem &problem, int tile)
{
    const struct tile_place place = tile_place_of(problem.order, tile, BM);
    const int seq_q = problem.shape.seq_q, seq_kv = problem.shape.seq_kv;
    struct hopper_tile result;
    result.head = place.head;
    result.kv_head = place.head / (problem.shape.heads / problem.shape.kv_heads);
    result.row0 = place.row0 - (problem.order.row_tiles * BM - seq_q) / WARP_ROWS * WARP_ROWS;
    result.blocks = max(1, ceil_div(visible_keys<CAUSAL>(result.row0 + BM - 1, seq_q, seq_kv), BN));
    result.unmasked = visible_keys<CAUSAL>(max(result.row0, 0), seq_q, seq_kv) / BN;
    return result;
}

/* ---- loads, by one thread ---- */

template <int HEAD_DIM, int ROWS>
static __device__ __forceinline__ void load_panels(__half *tile, const CUtensorMap *map, int row0,
                                                   int head, uint64_t *barrier)
{
#pragma unroll
    for (int col = 0; col < HEAD_DIM; col += PANEL_COLS)
        tma_load(shared_address(tile + col * ROWS), map, col, row0, head, barrier);
}

/* One block of keys, or of values. */
template <int HEAD_DIM>
static __device__ __forceinline__ void load_block(__half *stage, const CUtensorMap *map, int block,
                                                  int kv_head, uint64_t *full)
{
    mbarrier_arrive_expect(full, BN * HEAD_DIM * sizeof(__half));
    load_panels<HEAD_DIM, BN>(stage, map, block * BN, kv_head, full);
}

/* The queries of all warpgroups. */
template <int HEAD_DIM, int WARPGROUPS>
static __device__ __forceinline__ void load_queries(__half *queries, const CUtensorMap *map,
                                                    int row0, int head, uint64_t *full)
{
    mbarrier_arrive_expect(full, WARPGROUPS * WARPGROUP_ROWS * HEAD_DIM * sizeof(__half));
    for (int w = 0; w < WARPGROUPS; w++)
        load_panels<HEAD_DIM, WARPGROUP_ROWS>(queries + w * WARPGROUP_ROWS * HEAD_DIM, map,
                                              row0 + w * WARPGROUP_ROWS, head, full);
}

/* ---- products, by one warpgroup; each starts one group, to be waited for ---- */

/* S = Q * K^T. Both lie with the features along the rows: 16 on are 32 bytes on, 64 on a panel. */
template <int HEAD_DIM>
static __device__ __forceinline__ void start_scores(float (&S)[BN / 2], const __half *Q,
                                                    const __half *K)
{
    const uint64_t q = wgmma_descriptor(shared_address(Q), 0, 8 * ROW_BYTES);
    const uint64_t k = wgmma_descriptor(shared_address(K), 0, 8 * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 16) {
        const int panel = d / PANEL_COLS, bytes = d % PANEL_COLS * sizeof(__half);
        wgmma_shared<BN>(S, wgmma_descriptor_at(q, panel * WARPGROUP_ROWS * ROW_BYTES + bytes),
                         wgmma_descriptor_at(k, panel * BN * ROW_BYTES + bytes), d > 0);
    }
    wgmma_commit();
}

/* O += P * V. V lies with the features along the rows, across which it is summed: 16 keys on are 16
 * rows on. */
template <int HEAD_DIM>
static __device__ __forceinline__ void start_output(float (&O)[HEAD_DIM / 2],
                                                    const uint32_t (&P)[BN / 4], const __half *V)
{
    const uint64_t v = wgmma_descriptor(shared_address(V), BN * ROW_BYTES, 8 * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < BN; n += 16)
        wgmma_registers<HEAD_DIM>(O, &P[n / 4], wgmma_descriptor_at(v, n * ROW_BYTES), 1);
    wgmma_commit();
}

/* ---- launch ---- */

/* Describes the call to a kernel whose tiles are BM queries. */
static inline cudaError_t describe_hopper_problem(struct hopper_problem *problem,
                                                  const struct attention *call, int BM)
{
    /* A map cannot be empty. Without any key, Q stands in for K and V: it will be read, and
     * masked. */
    const size_t heads = (size_t)call->batch * call->heads,
                 kv_heads = (size_t)call->batch * call->kv_heads;
    const bool keys = call->seq_kv > 0;
    const size_t rows_q = call->seq_q, rows_kv = keys ? call->seq_kv : call->seq_q;
    const size_t head_dim = call->head_dim;
    const void *K = keys ? call->K : call->Q, *V = keys ? call->V : call->Q;
    cudaError_t status =
        tensor_map_of_halves(&problem->Q, call->Q, heads, rows_q, head_dim, WARPGROUP_ROWS);
    if (status == cudaSuccess)
        status = tensor_map_of_halves(&problem->K, K, kv_heads, rows_kv, head_dim, BN);
    if (status == cudaSuccess)
        status = tensor_map_of_halves(&problem->V, V, kv_heads, rows_kv, head_dim, BN);

    problem->O = (__half *)call->O;
    problem->LSE = call->LSE;
    problem->shape = *call;
    problem->order = tile_order_of(call, BM);
    problem->scale_log2 = call->scale * LOG2_E;
    return status;
}

/* Launches a kernel on a problem that describe_hopper_problem() described, or on one that has it
 * and more. */
template <class Problem>
static cudaError_t launch_hopper(void (*kernel)(const Problem), const Problem &problem, int blocks,
                                 int threads, int shared_bytes, cudaStream_t stream)
{
    cudaError_t status = cudaFuncSetAttribute(
        (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (status != cudaSuccess)
        return status;
    kernel<<<blocks, threads, shared_bytes, stream>>>(problem);
    return cudaGetLastError();
}

#endif
