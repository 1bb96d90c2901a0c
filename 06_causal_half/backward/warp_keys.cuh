/*
 * What backward_mma_async (28_backward_mma_async.cu) brings and the rung after it keeps: the
 * copies, and what a warp does with a tile of queries. How dQ gets to the workspace is each rung's
 * own.
 */
#ifndef WARP_KEYS_CUH
#define WARP_KEYS_CUH

#include "device/device.h"
#include "gradient_tiles.cuh"

template <typename ELEMENT, int D, bool SMALL>
struct config {
    typedef ELEMENT T;
    static const int HEAD_DIM = D, BYTES = BACKWARD_ASYNC_BYTES(SMALL, HEAD_DIM);
    static const int Br = BACKWARD_ASYNC_QUERIES(SMALL), Bc = BACKWARD_ASYNC_KEYS(SMALL);
    static const bool TURNED = false;
    static const int PANELS = HEAD_DIM / PANEL; /* of features; as many warps share keys */
    static const int BLOCKS = 2;                /* of 16 keys, that these warps share */
    static const int WARPS = Bc / (16 * BLOCKS) * PANELS, THREADS = WARPS * WARP;
    static const int CHUNK = Br / 2; /* queries whose scores a warp has at once */

    /* What a thread has of them: CHUNK columns of scores, and as left factors; dK or dV. */
    typedef float scores[BLOCKS][CHUNK / 2];
    typedef uint32_t factors[BLOCKS][CHUNK / 4];
    typedef float sums[BLOCKS][PANEL / 2];

    /* A warp's part of dQ: DQ_BLOCKS · 16 queries by DQ_COLS features. */
    static const int DQ_BLOCKS = 2, DQ_DOWN = Br / (16 * DQ_BLOCKS);
    static const int DQ_COLS = HEAD_DIM / (WARPS / DQ_DOWN);
    typedef float part[DQ_BLOCKS][DQ_COLS / 2];
};

template <class Config>
struct shared_tiles {
    typename Config::T K[Config::Bc * Config::HEAD_DIM], V[Config::Bc * Config::HEAD_DIM];
    typename Config::T Q[STAGES][Config::Br * Config::HEAD_DIM];
    typename Config::T dO[STAGES][Config::Br * Config::HEAD_DIM];
    typename Config::T weights[Config::PANELS][Config::Bc * PANEL]; /* dS, and P if shared */
    float LSE[STAGES][Config::Br], D[STAGES][Config::Br];
};

/* ---- the queries that pass by ---- */

/* Their tiles: those of first_head, the group's first, from first_row on, then those of the next.
 */
struct passing {
    int first_head, first_row, tiles;
};

/* Where a tile is: the head over all batches, and its first row. */
struct place {
    int head, row0;
};

template <class Config, bool CAUSAL>
static __device__ __forceinline__ struct passing
passing_queries(const struct attention_backward &call, int kv_head, int key0)
{
    const int group = call.heads / call.kv_heads;
    struct passing passing;
    passing.first_head = kv_head * group;
    passing.first_row = backward_first_query(CAUSAL, key0, call.seq_q, call.seq_kv, Config::Br);
    passing.tiles = group * ceil_div(call.seq_q - passing.first_row, Config::Br);
    return passing;
}

static __device__ __forceinline__ struct place first_place(const struct passing &passing)
{
    return {passing.first_head, passing.first_row};
}

template <class Config>
static __device__ __forceinline__ struct place next_place(struct place place,
                                                          const struct passing &passing, int seq_q)
{
    place.row0 += Config::Br;
    if (place.row0 >= seq_q) {
        place.row0 = passing.first_row;
        place.head++;
    }
    return place;
}

/* ---- copies ---- */

/* Starts to copy rows 0 .. ROWS - 1 of `matrix` into a tile: zeros past `rows` and head_dim. */
template <class Config, int ROWS>
static __device__ __forceinline__ void
copy_tile(typename Config::T *tile, const typename Config::T *matrix, int rows, int head_dim)
{
    constexpr int LANES = Config::HEAD_DIM / 8; /* threads side by side along a row */
    const int lane_row = threadIdx.x / LANES, col = threadIdx.x % LANES * 8;
    matrix += lane_row * head_dim + col;
#pragma unroll
    for (int row = 0; row < ROWS; row += Config::THREADS / LANES) {
        const bool inside = row + lane_row < rows && col < head_dim;
        cp_async_16_zero_fill(shared_address(&tile[swizzled<ROWS>(row + lane_row, col)]), matrix,
                              inside ? 16 : 0);
        matrix += Config::THREADS / LANES * head_dim;
    }
}

/* Starts to copy a tile of queries. Those past the last are zeros: they have weight, but add
 * nothing. */
template <class Config>
static __device__ __forceinline__ void copy_queries(struct shared_tiles<Config> *shared, int stage,
                                                    const struct attention_backward &call,
                                                    const float *D, const struct place &place)
{
    typedef typename Config::T T;
    const int left = call.seq_q - place.row0, head_dim = call.head_dim;
    const size_t query = (size_t)place.head * call.seq_q + place.row0, first = query * head_dim;
    copy_tile<Config, Config::Br>(shared->Q[stage], (const T *)call.Q + first, left, head_dim);
    copy_tile<Config, Config::Br>(shared->dO[stage], (const T *)call.dO + first, left, head_dim);
    const int i = threadIdx.x, bytes = i < left ? 4 : 0;
    if (i < Config::Br) {
        cp_async_4_zero_fill(shared_address(&shared->LSE[stage][i]), call.LSE + query + i, bytes);
        cp_async_4_zero_fill(shared_address(&shared->D[stage][i]), D + query + i, bytes);
    }
}

/* Starts to copy the block's keys. */
template <class Config>
static __device__ __forceinline__ void copy_keys(struct shared_tiles<Config> *shared,
                                                 const struct attention_backward &call, int kv_head,
                                                 int key0)
{
    typedef typename Config::T T;
    const int left = call.seq_kv - key0, head_dim = call.head_dim;
    const size_t first = ((size_t)kv_head * call.seq_kv + key0) * head_dim;
    copy_tile<Config, Config::Bc>(shared->K, (const T *)call.K + first, left, head_dim);
    copy_tile<Config, Config::Bc>(shared->V, (const T *)call.V + first, left, head_dim);
}

/* ---- products, by one warp ---- */

/* Where the element `rows` rows below and `cols` columns beside the one at `first` lies: an index,
 * or with SIZE 2 an address in shared memory. `rows` are a multiple of 8, so the swizzle is that of
 * the first; `cols` are one, too, and none of their bits within a panel is set in its column. As
 * these are known beforehand, a lane has one place to compute. */
template <int ROWS, int SIZE>
static __device__ __forceinline__ int moved(int first, int rows, int cols)
{
    return (first ^ cols % PANEL * SIZE) + (cols / PANEL * ROWS + rows) * PANEL * SIZE;
}

/* x += A·B: A are rows of K or V from `row` on, B queries from q0 on, both along features. */
template <class Config>
static __device__ __forceinline__ void multiply_rows(typename Config::scores &x,
                                                     const typename Config::T *A, int row,
                                                     const typename Config::T *B, int q0)
{
    const int lane = threadIdx.x % WARP;
    const int A0 = shared_address(&A[swizzled<Config::Bc>(row + lane % 16, lane / 16 * 8)]);
    const int B0 =
        shared_address(&B[swizzled<Config::Br>(q0 + lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8)]);
#pragma unroll
    for (int d = 0; d < Config::HEAD_DIM; d += 16) {
        uint32_t a[Config::BLOCKS][4];
#pragma unroll
        for (int b = 0; b < Config::BLOCKS; b++)
            ldmatrix_x4(a[b], moved<Config::Bc, 2>(A0, 16 * b, d));
#pragma unroll
        for (int n = 0; n < Config::CHUNK; n += 16) {
            uint32_t right[4];
            ldmatrix_x4(right, moved<Config::Br, 2>(B0, n, d));
#pragma unroll
            for (int b = 0; b < Config::BLOCKS; b++)
                mma_m16n16k16<typename Config::T>(&x[b][n / 2], a[b], right);
        }
    }
}

/* x += A·B: A is in registers, SUMMED columns; B has as many rows of ROWS, from `row` on, and N
 * features along them, from `col` on. */
template <int ROWS, int SUMMED, int N, int BLOCKS, typename T>
static __device__ __forceinline__ void multiply_columns(float (&x)[BLOCKS][N / 2],
                                                        const uint32_t (&A)[BLOCKS][SUMMED / 4],
                                                        const T *B, int row, int col)
{
    const int lane = threadIdx.x % WARP;
    const int B0 = shared_address(&B[swizzled<ROWS>(row + lane % 16, col + lane / 16 * 8)]);
#pragma unroll
    for (int n = 0; n < SUMMED; n += 16)
#pragma unroll
        for (int d = 0; d < N; d += 16) {
            uint32_t right[4];
            ldmatrix_x4_transposed(right, moved<ROWS, 2>(B0, n, d));
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                mma_m16n16k16<T>(&x[b][d / 2], &A[b][n / 4], right);
        }
}

/* ---- a tile of queries ---- */

/* A query that sees no key has no weight: 2^(S - inf) = 0. */
static __device__ __forceinline__ float exponent_shift(float LSE)
{
    return LSE == -CUDART_INF_F ? CUDART_INF_F : LSE * LOG2_E;
}

/* S becomes the exponents of P. LSE is that of the chunk's queries. */
template <class Config>
static __device__ __forceinline__ void make_exponents(typename Config::scores &S, const float *LSE,
                                                      float scale)
{
    const float scale_log2 = scale * LOG2_E;
#pragma unroll
    for (int b = 0; b < Config::BLOCKS; b++)
#pragma unroll
        for (int i = 0; i < Config::CHUNK / 2; i++)
            S[b][i] = S[b][i] * scale_log2 - exponent_shift(LSE[query_of(i)]);
}

/* Keys that a query does not see get no weight: 2^(-inf) = 0. The warp's begin with first_key, the
 * chunk's queries with first_query. */
template <class Config, bool CAUSAL>
static __device__ __forceinline__ void hide_keys(typename Config::scores &exponents,
                                                 const struct attention_backward &call,
                                                 int first_key, int first_query)
{
#pragma unroll
    for (int b = 0; b < Config::BLOCKS; b++)
#pragma unroll
        for (int i = 0; i < Config::CHUNK / 2; i++)
            if (first_key + 16 * b + key_of(i) >=
                visible_keys<CAUSAL>(first_query + query_of(i), call.seq_q, call.seq_kv))
                exponents[b][i] = -CUDART_INF_F;
}

/* The exponents become P. */
template <class Config>
static __device__ __forceinline__ void make_P(typename Config::scores &S)
{
#pragma unroll
    for (int b = 0; b < Config::BLOCKS; b++)
#pragma unroll
        for (int i = 0; i < Config::CHUNK / 2; i++)
            S[b][i] = exp2_approximate(S[b][i]);
}

/* dP becomes dS. */
template <class Config>
static __device__ __forceinline__ void make_dS(typename Config::scores &dS,
                                               const typename Config::scores &P, const float *D)
{
#pragma unroll
    for (int b = 0; b < Config::BLOCKS; b++)
#pragma unroll
        for (int i = 0; i < Config::CHUNK / 2; i++)
            dS[b][i] = P[b][i] * (dS[b][i] - D[query_of(i)]);
}

template <class Config>
static __device__ __forceinline__ void pack_weights(typename Config::factors &packed,
                                                    const typename Config::scores &x)
{
#pragma unroll
    for (int b = 0; b < Config::BLOCKS; b++)
        pack_rows<typename Config::T>(packed[b], x[b]);
}

/* Which keys of the block the warp has, and which half of the queries and features, if it shares
 * them. */
template <class Config>
static __device__ __forceinline__ int warp_key()
{
    return threadIdx.x / WARP / Config::PANELS * 16 * Config::BLOCKS;
}

template <class Config>
static __device__ __forceinline__ int warp_half()
{
    return threadIdx.x / WARP % Config::PANELS;
}

/* P or dS of the warp's keys, and of queries from q0 on, to shared memory. */
template <class Config>
static __device__ __forceinline__ void store_weights(typename Config::T *weights,
                                                     const typename Config::factors &packed, int q0)
{
    const int lane = threadIdx.x % WARP, g = lane / ROW_LANES, t = lane % ROW_LANES;
    const int first = swizzled<Config::Bc>(warp_key<Config>() + g, q0) + 2 * t;
#pragma unroll
    for (int b = 0; b < Config::BLOCKS; b++)
#pragma unroll
        for (int i = 0; i < Config::CHUNK / 4; i++)
            *(uint32_t *)&weights[moved<Config::Bc, 1>(first, 16 * b + 8 * (i % 2), 8 * (i / 2))] =
                packed[b][i];
}

/* And back, as a left factor. */
template <class Config>
static __device__ __forceinline__ void load_weights(typename Config::factors &packed,
                                                    const typename Config::T *weights, int q0)
{
    const int lane = threadIdx.x % WARP;
    const int first = shared_address(
        &weights[swizzled<Config::Bc>(warp_key<Config>() + lane % 16, q0 + lane / 16 * 8)]);
#pragma unroll
    for (int b = 0; b < Config::BLOCKS; b++)
#pragma unroll
        for (int n = 0; n < Config::CHUNK; n += 16)
            ldmatrix_x4(&packed[b][n / 4], moved<Config::Bc, 2>(first, 16 * b, n));
}

/* Adds what CHUNK queries, from q0 on, give to dV or dK: weights are P or dS, B is dO or Q. */
template <class Config>
static __device__ __forceinline__ void add_queries(typename Config::sums &sums,
                                                   const typename Config::factors &weights,
                                                   const typename Config::T *B, int q0)
{
    multiply_columns<Config::Br, Config::CHUNK, PANEL>(sums, weights, B, q0,
                                                       warp_half<Config>() * PANEL);
}

/* Makes P and dS of CHUNK queries of a tile, from q0 on, leaves dS in shared memory, and P if
 * another warp needs it, and adds what they give to dK and dV. The tile begins with row0 of a
 * head. */
template <class Config, bool CAUSAL>
static __device__ __forceinline__ void
multiply_chunk(typename Config::sums &dK, typename Config::sums &dV,
               struct shared_tiles<Config> *shared, int stage,
               const struct attention_backward &call, int key0, int row0, int q0)
{
    const bool masked = visible_keys<CAUSAL>(row0, call.seq_q, call.seq_kv) < key0 + Config::Bc;
    const int key = warp_key<Config>();
    typename Config::scores S = {}, dS = {};
    multiply_rows<Config>(S, shared->K, key, shared->Q[stage], q0);
    make_exponents<Config>(S, &shared->LSE[stage][q0], call.scale);
    if (masked)
        hide_keys<Config, CAUSAL>(S, call, key0 + key, row0 + q0);
    /* No branch from here on: exponentials are made while dP is multiplied, and dS while dV is. */
    make_P<Config>(S);
    multiply_rows<Config>(dS, shared->V, key, shared->dO[stage], q0);

    typename Config::factors P, packed;
    pack_weights<Config>(P, S);
    if (Config::PANELS == 2)
        store_weights<Config>(shared->weights[Config::PANELS - 1], P, q0);
    add_queries<Config>(dV, P, shared->dO[stage], q0);
    make_dS<Config>(dS, S, &shared->D[stage][q0]);
    pack_weights<Config>(packed, dS);
    store_weights<Config>(shared->weights[0], packed, q0);
    add_queries<Config>(dK, packed, shared->Q[stage], q0);
}

/* The chunks of a tile that the warp makes itself: both, or one if another warp makes the other. */
template <class Config, bool CAUSAL>
static __device__ __forceinline__ void
multiply_tile(typename Config::sums &dK, typename Config::sums &dV,
              struct shared_tiles<Config> *shared, int stage, const struct attention_backward &call,
              int key0, int row0)
{
    for (int q0 = warp_half<Config>() * Config::CHUNK; q0 < Config::Br;
         q0 += Config::PANELS * Config::CHUNK)
        multiply_chunk<Config, CAUSAL>(dK, dV, shared, stage, call, key0, row0, q0);
}

/* That other chunk, once it is in shared memory. */
template <class Config>
static __device__ __forceinline__ void
add_other_chunk(typename Config::sums &dK, typename Config::sums &dV,
                const struct shared_tiles<Config> *shared, int stage)
{
    if (Config::PANELS == 1)
        return;
    const int q0 = (1 - warp_half<Config>()) * Config::CHUNK;
    typename Config::factors P, dS;
    load_weights<Config>(dS, shared->weights[0], q0);
    add_queries<Config>(dK, dS, shared->Q[stage], q0);
    load_weights<Config>(P, shared->weights[Config::PANELS - 1], q0);
    add_queries<Config>(dV, P, shared->dO[stage], q0);
}

/* Stores the warp's dK and dV, at the end. */
template <class Config>
static __device__ __forceinline__ void
store_warp_keys(typename Config::sums &dK, const typename Config::sums &dV,
                const struct attention_backward &call, int kv_head, int key0)
{
#pragma unroll
    for (int b = 0; b < Config::BLOCKS; b++)
        store_keys<typename Config::T>(dK[b], dV[b], call, kv_head,
                                       key0 + warp_key<Config>() + 16 * b,
                                       warp_half<Config>() * PANEL);
}

/* ---- dQ ---- */

/* The queries and features of a tile's dQ that the warp makes begin here. */
template <class Config>
static __device__ __forceinline__ int part_row()
{
    return threadIdx.x / WARP % Config::DQ_DOWN * 16 * Config::DQ_BLOCKS;
}

template <class Config>
static __device__ __forceinline__ int part_col()
{
    return threadIdx.x / WARP / Config::DQ_DOWN * Config::DQ_COLS;
}

/* Its part, once dS has all keys. */
template <class Config>
static __device__ __forceinline__ void multiply_dQ(typename Config::part &x,
                                                   const struct shared_tiles<Config> *shared)
{
#pragma unroll
    for (int k = 0; k < Config::Bc; k += 16) {
        uint32_t dS[Config::DQ_BLOCKS][4];
#pragma unroll
        for (int b = 0; b < Config::DQ_BLOCKS; b++)
            load_dS<Config::Bc>(dS[b], shared->weights[0], part_row<Config>() + 16 * b, k);
        multiply_columns<Config::Bc, 16, Config::DQ_COLS>(x, dS, shared->K, k, part_col<Config>());
    }
}

/* Where in the workspace elements i to i + 3 of block b of the warp's part belong. */
template <class Config>
static __device__ __forceinline__ float *place_of_dQ(float *dQ, const struct place &place, int b,
                                                     int i, int seq_q)
{
    const int col = part_col<Config>();
    float *part =
        part_of_dQ<Config>(dQ, place.head, place.row0 + part_row<Config>() + 16 * b, col, seq_q);
    const int element = (col % PANEL / 2 + i) * WARP + 4 * (threadIdx.x % WARP);
    return &part[element];
}

/* ---- the launch ---- */

/* Launches D's kernel, the rung's and dQ's. */
template <class Config>
static cudaError_t
launch_gradients(const struct attention_backward *call, const struct tile_order order,
                 void (*kernel)(const float *D, float *dQ, const struct tile_order order,
                                const struct attention_backward call))
{
    const int bytes = sizeof(struct shared_tiles<Config>);
    static_assert(bytes == Config::BYTES, "what the plan says");
    cudaError_t status = cudaFuncSetAttribute((const void *)kernel,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status != cudaSuccess)
        return status;
    begin_gradients<Config>(call);
    kernel<<<order.tiles, Config::THREADS, bytes, call->stream>>>(
        D_of<Config>(call), (float *)call->workspace, order, *call);
    return finish_gradients<Config>(call);
}

#endif
