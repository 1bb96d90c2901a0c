/*
 * What the rungs after backward_mma agree on: which keys a block owns, how tiles lie in shared
 * memory, and dQ in the workspace, as threads have it, and from there to its rows.
 */
#ifndef GRADIENT_TILES_CUH
#define GRADIENT_TILES_CUH

#include "06_causal_half/06_step.h"
#include "backward_plan.h"
#include "row_dots.cuh"

static const int STAGES = 2;
static const int PANEL = 64; /* columns of a panel: rows of 128 bytes, which meet all banks */

/* Where in a tile of ROWS rows the 8 elements of row `row` from column `col`, a multiple of 8,
 * begin. */
template <int ROWS>
static __device__ __forceinline__ int swizzled(int row, int col)
{
    return (col / PANEL * ROWS + row) * PANEL + (col % PANEL ^ row % 8 * 8);
}

/* Of scores transposed, keys of rows and queries of columns, a lane's element i: the query that it
 * belongs to, and of each 16 keys the key. */
static __device__ __forceinline__ int query_of(int i)
{
    return 8 * (i / 4) + threadIdx.x % ROW_LANES * 2 + i % 2;
}

static __device__ __forceinline__ int key_of(int i)
{
    return threadIdx.x % WARP / ROW_LANES + 8 * (i / 2 % 2);
}

/* dS of 16 queries, from `query` on, and of as many of the Bc keys, from `key` on, as `packed`
 * holds; turned back, as a left factor. */
template <int Bc, typename T, int COUNT>
static __device__ __forceinline__ void load_dS(uint32_t (&packed)[COUNT], const T *dS, int query,
                                               int key = 0)
{
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < COUNT; i += 4)
        ldmatrix_x4_transposed(
            &packed[i], shared_address(&dS[swizzled<Bc>(key + 4 * i + lane / 16 * 8 + lane % 8,
                                                        query + lane / 8 % 2 * 8)]));
}

/* Stores dK and dV of the warp's 16 keys, which begin with first_key, and of features from
 * first_col on. */
template <typename T, int COUNT>
static __device__ __forceinline__ void store_keys(float (&dK)[COUNT], const float (&dV)[COUNT],
                                                  const struct attention_backward &call,
                                                  int kv_head, int first_key, int first_col = 0)
{
    const size_t keys = (size_t)kv_head * call.seq_kv * call.head_dim;
    uint32_t packed[COUNT / 2];
    pack_rows<T>(packed, dV);
    store_rows((T *)call.dV + keys, packed, first_key, call.seq_kv, call.head_dim, first_col);
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        dK[i] *= call.scale;
    pack_rows<T>(packed, dK);
    store_rows((T *)call.dK + keys, packed, first_key, call.seq_kv, call.head_dim, first_col);
}

/* ---- dQ in the workspace ---- */

/* It lies there as threads have it after a product. What a warp makes at once is a part, 16 queries
 * and 64 features, OWN_Q floats of each lane. Parts lie one below the other, a panel of features
 * behind the other, and a head has whole tiles of queries. */
static const int PART_ROWS = 16, PART = PART_ROWS * PANEL;
static const int OWN_Q = PART / WARP;

/* A block of the last kernel has four parts that lie one below the other. */
static const int PUT_ROWS = 4 * PART_ROWS, PUT_THREADS = 4 * WARP;
static const int PUT_PAD = 8; /* so that the rows of a store begin in other banks */

template <class Config>
static __host__ __device__ __forceinline__ int padded_queries(int seq_q)
{
    const int whole = ceil_div(seq_q, Config::Br) * Config::Br;
    return Config::TURNED ? whole : ceil_div(whole, PUT_ROWS) * PUT_ROWS;
}

/* The part that begins with this query, a multiple of 16, and this feature, a multiple of 64. */
template <class Config>
static __device__ __forceinline__ float *part_of_dQ(float *dQ, int head, int row, int col,
                                                    int seq_q)
{
    const size_t panel = (size_t)head * (Config::HEAD_DIM / PANEL) + col / PANEL;
    return dQ + (panel * padded_queries<Config>(seq_q) + row) * PANEL;
}

/* The lane's first four floats of a part, beside those of its neighbours; the next four lie
 * 4 * WARP behind. */
template <typename FLOAT>
static __device__ __forceinline__ FLOAT *own_floats(FLOAT *part)
{
    return part + 4 * (threadIdx.x % WARP);
}

/* Stores what the lanes of a warp have put in `rows`: of a head's dQ the rows from row0 on, and
 * their features from col0 on. */
template <int ROWS, int COLS, typename T, typename ELEMENT, int PITCH>
static __device__ __forceinline__ void store_part(T *dQ, const ELEMENT (*rows)[PITCH], int row0,
                                                  int seq_q, int col0, int head_dim)
{
    __syncwarp(); /* the part is there before a lane reads what others stored */
#pragma unroll
    for (int i = threadIdx.x % WARP; i < ROWS * COLS / 8; i += WARP) {
        const int row = i / (COLS / 8), col = i % (COLS / 8) * 8;
        if (row0 + row < seq_q && col0 + col < head_dim)
            *(uint4 *)&dQ[(size_t)(row0 + row) * head_dim + col0 + col] =
                *(const uint4 *)&rows[row][col];
    }
}

/* dQ from the floats in the workspace, which has padded_rows queries for each head and panel. */
template <typename T, int HEAD_DIM>
__global__ void backward_put_in_rows(T *dQ, const float *sums, float scale, int padded_rows,
                                     int seq_q, int head_dim)
{
    const int panels = HEAD_DIM / PANEL, down = padded_rows / PUT_ROWS;
    const int panel = blockIdx.x / down, head = panel / panels, col0 = panel % panels * PANEL;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int row0 = blockIdx.x % down * PUT_ROWS + warp * PART_ROWS;
    const float *own =
        own_floats(sums + ((size_t)blockIdx.x * PUT_ROWS + warp * PART_ROWS) * PANEL);
    float x[OWN_Q];
#pragma unroll
    for (int i = 0; i < OWN_Q; i += 4)
        *(float4 *)&x[i] = *(const float4 *)&own[i * WARP];
#pragma unroll
    for (int i = 0; i < OWN_Q; i++)
        x[i] *= scale;
    uint32_t packed[OWN_Q / 2];
    pack_rows<T>(packed, x);
    /* A lane has pairs; through shared memory it gets eight neighbours to store at once. */
    __shared__ __align__(16) T rows[PUT_ROWS][PANEL + PUT_PAD];
    T(*part_rows)[PANEL + PUT_PAD] = &rows[warp * PART_ROWS];
#pragma unroll
    for (int i = 0; i < OWN_Q / 2; i++)
        *(uint32_t *)&part_rows[lane / ROW_LANES + 8 * (i % 2)]
                               [8 * (i / 2) + lane % ROW_LANES * 2] = packed[i];
    store_part<PART_ROWS, PANEL>(dQ + (size_t)head * seq_q * head_dim, part_rows, row0, seq_q, col0,
                                 head_dim);
}

/* ---- launches around a rung's kernel ---- */

/* In the workspace D comes behind dQ. */
template <class Config>
static float *D_of(const struct attention_backward *call)
{
    const size_t heads = (size_t)call->batch * call->heads;
    return (float *)call->workspace +
           heads * padded_queries<Config>(call->seq_q) * Config::HEAD_DIM;
}

/* Behind D: the counter of tickets and the turns of the rungs that take turns (turns.cuh);
 * backward_persistent's counter of tiles; backward_fused has counters of its own. */
static __host__ __device__ __forceinline__ int *tickets_of(const struct attention_backward &call,
                                                           const float *D)
{
    return (int *)(D + (size_t)call.batch * call.heads * call.seq_q);
}

/* Before it: D is made, and where dQ in the workspace is only added to, it begins with zeros. */
template <class Config>
static void begin_gradients(const struct attention_backward *call, bool zeros = true)
{
    float *const dQ = (float *)call->workspace, *const D = D_of<Config>(call);
    launch_row_dots<typename Config::T>(call, D, dQ, zeros ? D - dQ : 0);
}

/* Behind it: dQ goes to its rows. */
template <class Config>
static cudaError_t finish_gradients(const struct attention_backward *call)
{
    typedef typename Config::T T;
    const int padded = padded_queries<Config>(call->seq_q);
    const int panels = call->batch * call->heads * (Config::HEAD_DIM / PANEL);
    backward_put_in_rows<T, Config::HEAD_DIM>
        <<<panels *(padded / PUT_ROWS), PUT_THREADS, 0, call->stream>>>(
            (T *)call->dQ, (const float *)call->workspace, call->scale, padded, call->seq_q,
            call->head_dim);
    return cudaGetLastError();
}

#endif
