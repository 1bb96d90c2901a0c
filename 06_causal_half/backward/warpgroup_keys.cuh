/*
 * What backward_wgmma (25_backward_wgmma.cu) brings and the rung after it keeps: the producer, the
 * products, dS through shared memory, and dQ from the workspace to its rows. The rung defines
 * shared_tiles, with the places that are named here.
 */
#ifndef WARPGROUP_KEYS_CUH
#define WARPGROUP_KEYS_CUH

#include "06_causal_half/06_step.h"
#include "backward_plan.h"
#include "harness/tensor_map.h"
#include "row_dots.cuh"

static const int Bc = BACKWARD_WGMMA_KEYS;
static const int PANEL_COLS = TENSOR_MAP_BOX_COLS;
static const int ROW_BYTES = PANEL_COLS * 2;
static const int WARPGROUP = 128, CONSUMERS = 2, THREADS = WARPGROUP * (CONSUMERS + 1);
static const int WARPGROUP_KEYS = Bc / CONSUMERS;
static const int STAGES = 2;
static const int CONVERT_THREADS = WARPGROUP * CONSUMERS;

/* The floats of dQ that a consumer thread has of a tile. */
static const int OWN_Q = 32;

template <typename ELEMENT, int D>
struct config {
    typedef ELEMENT T;
    static const int HEAD_DIM = D;
    static const int Br = BACKWARD_WGMMA_QUERIES(HEAD_DIM);
};

template <class Config>
struct shared_tiles;

/* All that the kernel is told. Q and dO come in boxes of Br rows, K and V of Bc. */
struct backward_problem {
    CUtensorMap Q, K, V, dO;
    struct attention_backward call;
    const float *D;
    float *dQ;
    float scale_log2;
};

/* Which keys a block owns. With a mask the first keys are seen by most queries: those blocks come
 * first, and short ones fill the gaps. */
template <bool CAUSAL>
static __device__ __forceinline__ void find_block(int &kv_head, int &key0,
                                                  const struct attention_backward &call)
{
    const int key_tiles = ceil_div(call.seq_kv, Bc), kv_heads = call.batch * call.kv_heads;
    kv_head = CAUSAL ? blockIdx.x % kv_heads : blockIdx.x / key_tiles;
    key0 = (CAUSAL ? blockIdx.x / kv_heads : blockIdx.x % key_tiles) * Bc;
}

/* Where in a tile of ROWS rows the 8 elements of row `row` from column `col`, a multiple of 8,
 * begin. */
template <int ROWS>
static __device__ __forceinline__ int swizzled(int row, int col)
{
    return (col / PANEL_COLS * ROWS + row) * PANEL_COLS + (col % PANEL_COLS ^ row % 8 * 8);
}

/* ---- the producer ---- */

/* By one thread. */
template <int ROWS, int HEAD_DIM, typename T>
static __device__ __forceinline__ void load_panels(T *tile, const CUtensorMap *map, int row0,
                                                   int head, uint64_t *full)
{
#pragma unroll
    for (int col = 0; col < HEAD_DIM; col += PANEL_COLS)
        tma_load(shared_address(tile + col * ROWS), map, col, row0, head, full);
}

/* By a warp: one lane requests the tile, all bring a number for each query, and arrive. */
template <class Config>
static __device__ __forceinline__ void
load_queries(typename Config::T *tile, float *numbers, const CUtensorMap *map,
             const float *of_queries, int row0, int head, int queries, bool is_LSE, uint64_t *full)
{
    const int lane = threadIdx.x % WARP;
    for (int i = lane; i < Config::Br; i += WARP) {
        float number = i < queries ? of_queries[i] : is_LSE ? -CUDART_INF_F : 0.0f;
        /* A query that sees no key, or is none, has no weight: 2^(S - inf) = 0. */
        if (is_LSE)
            number = number == -CUDART_INF_F ? CUDART_INF_F : number * LOG2_E;
        numbers[i] = number;
    }
    if (lane == 0) {
        mbarrier_arrive_expect(full, Config::Br * Config::HEAD_DIM * sizeof *tile);
        load_panels<Config::Br, Config::HEAD_DIM>(tile, map, row0, head, full);
    } else {
        mbarrier_arrive(full);
    }
}

template <class Config, bool CAUSAL>
static __device__ __forceinline__ void produce(struct shared_tiles<Config> *shared,
                                               const struct backward_problem &problem)
{
    const struct attention_backward &call = problem.call;
    const int seq_q = call.seq_q, group = call.heads / call.kv_heads;
    int kv_head, key0;
    find_block<CAUSAL>(kv_head, key0, call);
    if (threadIdx.x % WARP == 0) {
        mbarrier_arrive_expect(&shared->keys_full, sizeof shared->K + sizeof shared->V);
        load_panels<Bc, Config::HEAD_DIM>(shared->K, &problem.K, key0, kv_head, &shared->keys_full);
        load_panels<Bc, Config::HEAD_DIM>(shared->V, &problem.V, key0, kv_head, &shared->keys_full);
    }
    const int first_row = backward_first_query(CAUSAL, key0, seq_q, call.seq_kv, Config::Br);
    int stage = 0, phase = 0;
    for (int head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int row0 = first_row; row0 < seq_q; row0 += Config::Br) {
            const size_t query = (size_t)head * seq_q + row0;
            /* on a new barrier the phase before the first counts as over: new places are empty */
            mbarrier_wait(&shared->empty[stage], phase ^ 1);
            load_queries<Config>(shared->Q[stage], shared->LSE[stage], &problem.Q, call.LSE + query,
                                 row0, head, seq_q - row0, true, &shared->Q_full[stage]);
            load_queries<Config>(shared->dO[stage], shared->D[stage], &problem.dO,
                                 problem.D + query, row0, head, seq_q - row0, false,
                                 &shared->dO_full[stage]);
            stage ^= 1;
            phase ^= stage == 0;
        }
}

/* ---- products, by one warpgroup; each starts one group, to be waited for ---- */

/* x = A·Bᵀ: A are the warpgroup's 64 rows of K or V, B a tile of queries, all along features. */
template <class Config>
static __device__ __forceinline__ void
start_rows(float (&x)[Config::Br / 2], const typename Config::T *A, const typename Config::T *B)
{
    const uint64_t a = wgmma_descriptor(shared_address(A), 0, 8 * ROW_BYTES);
    const uint64_t b = wgmma_descriptor(shared_address(B), 0, 8 * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < Config::HEAD_DIM; d += 16) {
        const int panel = d / PANEL_COLS, bytes = d % PANEL_COLS * 2;
        wgmma_shared<Config::Br, typename Config::T>(
            x, wgmma_descriptor_at(a, panel * Bc * ROW_BYTES + bytes),
            wgmma_descriptor_at(b, panel * Config::Br * ROW_BYTES + bytes), d > 0);
    }
    wgmma_commit();
}

/* x += A·B, or x = A·B: A is in registers, SUMMED columns; B has as many rows of ROWS, and N
 * features along them. */
template <typename T, int SUMMED, int ROWS, int N>
static __device__ __forceinline__ void
start_columns(float (&x)[N / 2], const uint32_t (&A)[SUMMED / 4], const T *B, bool accumulate)
{
    const uint64_t b = wgmma_descriptor(shared_address(B), ROWS * ROW_BYTES, 8 * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < SUMMED; n += 16)
        wgmma_registers<N, T>(x, &A[n / 4], wgmma_descriptor_at(b, n * ROW_BYTES),
                              accumulate || n > 0);
    wgmma_commit();
}

/* ---- dS, and dQ ---- */

/* dS of the warp's 16 keys to shared memory. */
template <class Config>
static __device__ __forceinline__ void
store_dS(typename Config::T *dS, const uint32_t (&packed)[Config::Br / 4], int warp_key)
{
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int q = 0; q < Config::Br; q += 16)
        stmatrix_x4(shared_address(&dS[swizzled<Bc>(warp_key + lane % 16, q + lane / 16 * 8)]),
                    &packed[q / 4]);
}

/* dS of the warp's 16 queries and all keys, turned back, as a left factor. */
template <class Config>
static __device__ __forceinline__ void load_dS(uint32_t (&packed)[Bc / 4],
                                               const typename Config::T *dS, int warp_query)
{
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int k = 0; k < Bc; k += 16)
        ldmatrix_x4_transposed(
            &packed[k / 4],
            shared_address(
                &dS[swizzled<Bc>(k + lane / 16 * 8 + lane % 8, warp_query + lane / 8 % 2 * 8)]));
}

/* The queries of a tile, and the features, at which a warpgroup's half of dQ begins. */
template <class Config>
static __device__ __forceinline__ int first_query(int warpgroup)
{
    return Config::HEAD_DIM == 64 ? 64 * warpgroup : 0;
}

template <class Config>
static __device__ __forceinline__ int first_feature(int warpgroup)
{
    return Config::HEAD_DIM == 64 ? 0 : 64 * warpgroup;
}

/* A warpgroup's half of a tile of dQ in the workspace: OWN_Q floats of each thread, four by four,
 * those of neighbouring threads side by side. */
template <class Config>
static __device__ __forceinline__ float *half_of_dQ(float *dQ, int head, int row0, int seq_q,
                                                    int warpgroup)
{
    const size_t tile = (size_t)head * ceil_div(seq_q, Config::Br) + row0 / Config::Br;
    return dQ + (tile * CONSUMERS + warpgroup) * OWN_Q * WARPGROUP;
}

/* Where in a half the thread's elements i to i + 3 lie, i a multiple of 4. */
static __device__ __forceinline__ int own_place(int i)
{
    return i * WARPGROUP + 4 * (threadIdx.x % WARPGROUP);
}

/* dQ from the floats in the workspace; a block has one tile, a thread what a consumer had. */
template <class Config>
__global__ void backward_put_in_rows(typename Config::T *dQ, float *sums, float scale, int seq_q,
                                     int head_dim)
{
    const int tiles = ceil_div(seq_q, Config::Br);
    const int head = blockIdx.x / tiles, row0 = blockIdx.x % tiles * Config::Br;
    const int warpgroup = threadIdx.x / WARPGROUP;
    const float *half = half_of_dQ<Config>(sums, head, row0, seq_q, warpgroup);
    float x[OWN_Q];
#pragma unroll
    for (int i = 0; i < OWN_Q; i += 4)
        *(float4 *)&x[i] = *(const float4 *)&half[own_place(i)];
#pragma unroll
    for (int i = 0; i < OWN_Q; i++)
        x[i] *= scale;
    uint32_t packed[OWN_Q / 2];
    pack_rows<typename Config::T>(packed, x);
    const int lane = threadIdx.x % WARP;
    const int first_row = row0 + first_query<Config>(warpgroup) + threadIdx.x / WARP % 4 * 16;
#pragma unroll
    for (int i = 0; i < OWN_Q / 2; i++) {
        const int row = first_row + lane / ROW_LANES + 8 * (i % 2);
        const int col = first_feature<Config>(warpgroup) + 8 * (i / 2) + lane % ROW_LANES * 2;
        if (row < seq_q && col < head_dim)
            *(uint32_t *)&dQ[((size_t)head * seq_q + row) * head_dim + col] = packed[i];
    }
}

static cudaError_t describe(struct backward_problem *problem, const struct attention_backward *call,
                            int Br)
{
    const size_t heads = (size_t)call->batch * (size_t)call->heads;
    const size_t kv_heads = (size_t)call->batch * (size_t)call->kv_heads;
    const size_t seq_q = (size_t)call->seq_q, seq_kv = (size_t)call->seq_kv;
    const size_t cols = (size_t)call->head_dim;
    cudaError_t status = tensor_map_of_halves(&problem->Q, call->Q, heads, seq_q, cols, Br);
    if (status == cudaSuccess)
        status = tensor_map_of_halves(&problem->dO, call->dO, heads, seq_q, cols, Br);
    if (status == cudaSuccess)
        status = tensor_map_of_halves(&problem->K, call->K, kv_heads, seq_kv, cols, Bc);
    if (status == cudaSuccess)
        status = tensor_map_of_halves(&problem->V, call->V, kv_heads, seq_kv, cols, Bc);
    return status;
}

#endif
