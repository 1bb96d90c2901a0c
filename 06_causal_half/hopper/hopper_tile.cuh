/*
 * What the rungs for Hopper (sm_90a) have in common: the tile, its two products, its loads, its
 * launch. Who does them, and in which order, is each rung's own.
 *
 * A block owns the O tile of Br = 64 · WARPGROUPS queries of one head; a warpgroup (four warps) 64
 * of them, a warp 16, with S, P and O in registers as score_rows.cuh describes. Bc = 128 keys are
 * taken at a time, from the last that any query sees to the first: what must be masked comes first
 * and the rest of the loop knows no mask.
 *
 * In shared memory everything lies in panels of 64 columns, as the copy engine delivers it: rows of
 * 128 bytes, swizzled. Q is [WARPGROUPS][PANELS][64][64], a stage of K or V [PANELS][Bc][64], with
 * PANELS = HEAD_DIM / 64.
 *
 * Config is a rung's element type T and its sizes: HEAD_DIM, WARPGROUPS, Br, THREADS, STAGES.
 */
#ifndef HOPPER_TILE_CUH
#define HOPPER_TILE_CUH

#include "hopper_plan.h"
#include "tma_tiles.cuh"
#include "06_causal_half/score_rows.cuh"

static const int Bc = HOPPER_KEYS;

/* All that a kernel is told. It is a __grid_constant__ parameter: tensor maps are used where they
 * are, never copied. */
struct hopper_problem {
    struct attention_maps
        maps; /* Q in boxes of 64 rows, K and V of Bc rows where nothing else is said */
    struct attention call;
    struct tile_order order;
    float scale_log2;
};

template <int Br, bool CAUSAL>
static __device__ __forceinline__ struct hopper_tile
hopper_tile_of(const struct hopper_problem &problem, int tile)
{
    return hopper_tile_at(&problem.order, &problem.call, tile, Br, CAUSAL);
}

/* ---- loads, by one thread ---- */

/* One block of keys, or of values. */
template <class Config>
static __device__ __forceinline__ void load_block(typename Config::T *stage, const CUtensorMap *map,
                                                  int block, int kv_head, uint64_t *full)
{
    mbarrier_arrive_expect(full, Bc * Config::HEAD_DIM * sizeof *stage);
    load_panels<Bc, Config::HEAD_DIM>(stage, map, block * Bc, kv_head, full);
}

/* The queries of all warpgroups. */
template <class Config>
static __device__ __forceinline__ void load_queries(typename Config::T *Q,
                                                    const struct hopper_problem &problem,
                                                    const struct hopper_tile &tile, uint64_t *full)
{
    mbarrier_arrive_expect(full, Config::Br * Config::HEAD_DIM * sizeof *Q);
    for (int row = 0; row < Config::Br; row += WARPGROUP_ROWS)
        load_panels<WARPGROUP_ROWS, Config::HEAD_DIM>(Q + row * Config::HEAD_DIM, &problem.maps.Q,
                                                      tile.row0 + row, tile.head, full);
}

/* ---- products, by one warpgroup; each starts one group, to be waited for ---- */

/* What a block of the rung has in shared memory. */
template <class Config>
struct shared_tiles;

/* What a thread carries from block to block: where it is, and its part of the warpgroup's rows. */
template <class Config>
struct consumer {
    struct shared_tiles<Config> *shared;
    int warpgroup;
    const typename Config::T *Q; /* the warpgroup's */
    struct ring_position K_at, V_at;
    int visible[2]; /* keys, of the two rows */
    float scale_log2;
    float S[Bc / 2], O[Config::HEAD_DIM / 2];
    uint32_t P[Bc / 4];
    float m[2], l[2];
};

/* Begins the rows of a tile: no key has been seen yet. O is left alone. */
template <bool CAUSAL, class Config>
static __device__ __forceinline__ void begin_rows(struct consumer<Config> &c,
                                                  const struct hopper_problem &problem,
                                                  const struct hopper_tile &tile)
{
    find_visible<CAUSAL>(c.visible, tile.row0 + threadIdx.x / WARP * WARP_ROWS, problem.call.seq_q,
                         problem.call.seq_kv);
    c.m[0] = c.m[1] = -CUDART_INF_F;
    c.l[0] = c.l[1] = 0.0f;
}

template <class Config>
static __device__ __forceinline__ void clear_output(struct consumer<Config> &c)
{
#pragma unroll
    for (int i = 0; i < Config::HEAD_DIM / 2; i++)
        c.O[i] = 0.0f;
}

/* S = Q·Kᵀ. The features of both lie along the rows: the next 16 are 32 bytes further, and after 64
 * comes the next panel. */
template <class Config>
static __device__ __forceinline__ void start_scores(struct consumer<Config> &c,
                                                    const typename Config::T *K)
{
    const uint64_t q = wgmma_descriptor(shared_address(c.Q), 0, 8 * ROW_BYTES);
    const uint64_t k = wgmma_descriptor(shared_address(K), 0, 8 * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < Config::HEAD_DIM; d += 16) {
        const int panel = d / PANEL_COLS, bytes = d % PANEL_COLS * 2;
        wgmma_shared<Bc, typename Config::T>(
            c.S, wgmma_descriptor_at(q, panel * WARPGROUP_ROWS * ROW_BYTES + bytes),
            wgmma_descriptor_at(k, panel * Bc * ROW_BYTES + bytes), d > 0);
    }
    wgmma_commit();
}

/* O += P·V. The features of V lie along the rows and the sum runs across the rows: the next 16 keys
 * are 16 rows further. */
template <class Config>
static __device__ __forceinline__ void start_output(struct consumer<Config> &c,
                                                    const typename Config::T *V)
{
    const uint64_t v = wgmma_descriptor(shared_address(V), Bc * ROW_BYTES, 8 * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < Bc; n += 16)
        wgmma_registers<Config::HEAD_DIM, typename Config::T>(
            c.O, &c.P[n / 4], wgmma_descriptor_at(v, n * ROW_BYTES), 1);
    wgmma_commit();
}

/* ---- launch ---- */

/* Describes the call to a kernel whose tiles are Br queries, and lets it have shared_bytes. K and V
 * come in boxes of box_keys rows. */
static inline cudaError_t prepare_hopper(struct hopper_problem *problem,
                                         const struct attention *call, int Br, const void *kernel,
                                         int shared_bytes, int box_keys = Bc)
{
    problem->call = *call;
    problem->order = tile_order_of(call, Br);
    problem->scale_log2 = call->scale * LOG2_E;
    const cudaError_t status = attention_maps_of(&problem->maps, call, WARPGROUP_ROWS, box_keys);
    if (status != cudaSuccess)
        return status;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
}

#endif
