/*
 * Idea: where there are few queries and many keys, parallelism must come from the keys. Each block
 * takes some queries and one run of the keys and leaves a partial result, (O, LSE); a second kernel
 * merges the runs.
 *
 *     run s of the keys:   O_s, LSE_s = attention(Q, K_s, V_s)
 *     merged:      LSE = ln sum over s of exp(LSE_s)       O = sum over s of exp(LSE_s - LSE) · O_s
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], row-major. Query heads that share a key/value head are neighbours in memory, so
 * their queries are one list of heads / kv_heads · seq_q rows that see the same keys, and a block
 * takes R rows of that list.
 *
 * G lanes (8, 16 or 32: head_dim / 4, rounded up) make a group. A group takes a key at a time, a
 * lane 4 features of it: neighbouring lanes read neighbouring float4 of K and V, straight into
 * registers, used once per row and not kept. Each group has a running (m, l, O) of its own for each
 * row. In the end groups merge inside the warp, warps inside the block, runs in the second kernel,
 * all by the same rule, which is associative and commutative:
 *
 *     (m_a, l_a, o_a) ⊕ (m_b, l_b, o_b) = (m, l, o)            m = max(m_a, m_b)
 *         l = l_a·2^(m_a - m) + l_b·2^(m_b - m)               o = o_a·2^(m_a - m) + o_b·2^(m_b - m)
 *     nothing = (-inf, 0, 0)                                  a finished run = (LSE · log2 e, 1, O)
 *
 * Cost: global traffic in elements per key/value head, n rows in T = ceil(n / R) tiles and s runs:
 *     T·2·seq_kv·head_dim + s·n·head_dim·256 / G loads (each group reads its block's queries),
 *     n·(head_dim + 1) stores, and with s > 1 for the partial results
 *     s·n·(head_dim + 1) more stores and s·n·(head_dim + G) more loads.
 * For few rows that is K and V once. Workspace: s·n·(head_dim + 1) floats.
 *
 * Source: the operator is Milakov & Gimelshein's (arXiv:1805.02867) with O added; splitting the
 * keys between blocks is known as Flash-Decoding (Dao, Haziza, Massa, Sizov, 2023).
 */
#include "05_flash_v2/05_step.h"
#include "8_split_kv.h"
#include <ptx.cuh>
#include "device/tiles.cuh"
#include "device/vectors.cuh"
#include "device/warp.cuh"

#include <math_constants.h>

static const int THREADS = SPLIT_KV_THREADS;
static const int WARPS = THREADS / WARP;
static const int KEYS =
    4; /* keys that a group loads at once: 8 float4 a lane on their way hide the latency */

/* A running softmax-weighted sum: maximum (of scores times log2 e), sum, and a lane's 4 features of
 * O, not divided. */
struct running {
    float m, l;
    float4 o;
};

static __device__ __forceinline__ struct running nothing(void)
{
    const struct running state = {-CUDART_INF_F, 0.0f, make_float4(0.0f, 0.0f, 0.0f, 0.0f)};
    return state;
}

static __device__ __forceinline__ float dot(float4 a, float4 b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

static __device__ __forceinline__ float4 times(float4 a, float factor)
{
    return make_float4(a.x * factor, a.y * factor, a.z * factor, a.w * factor);
}

static __device__ __forceinline__ float4 plus_times(float4 a, float4 b, float factor)
{
    return make_float4(a.x + b.x * factor, a.y + b.y * factor, a.z + b.z * factor,
                       a.w + b.w * factor);
}

/* 2^(m - top), top the new maximum; nothing seen on either side gives 0, not NaN (-inf - -inf). */
static __device__ __forceinline__ float weight(float m, float top)
{
    return m == -CUDART_INF_F ? 0.0f : exp2_approximate(m - top);
}

static __device__ __forceinline__ void merge(struct running *a, const struct running *b)
{
    const float m = fmaxf(a->m, b->m);
    const float weight_a = weight(a->m, m);
    const float weight_b = weight(b->m, m);
    a->m = m;
    a->l = a->l * weight_a + b->l * weight_b;
    a->o = plus_times(times(a->o, weight_a), b->o, weight_b);
}

/*
 * Merges the block's groups. Afterwards state[0] of the first G lanes of warp r is the whole
 * block's for row r.
 */
template <int G, int R>
static __device__ void merge_block(struct running state[R])
{
    static_assert(R <= WARPS, "a warp for each row");
    __shared__ float m_of_warp[R][WARPS], l_of_warp[R][WARPS];
    __shared__ float4 o_of_warp[R][WARPS][G];
    const int warp = threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;

#pragma unroll
    for (int r = 0; r < R; r++) {
#pragma unroll
        for (int distance = G; distance < WARP; distance *= 2) {
            struct running other;
            other.m = __shfl_xor_sync(FULL_MASK, state[r].m, distance);
            other.l = __shfl_xor_sync(FULL_MASK, state[r].l, distance);
            other.o.x = __shfl_xor_sync(FULL_MASK, state[r].o.x, distance);
            other.o.y = __shfl_xor_sync(FULL_MASK, state[r].o.y, distance);
            other.o.z = __shfl_xor_sync(FULL_MASK, state[r].o.z, distance);
            other.o.w = __shfl_xor_sync(FULL_MASK, state[r].o.w, distance);
            merge(&state[r], &other);
        }
        if (lane < G)
            o_of_warp[r][warp][lane] = state[r].o;
        if (lane == 0) {
            m_of_warp[r][warp] = state[r].m;
            l_of_warp[r][warp] = state[r].l;
        }
    }
    __syncthreads(); /* every warp has left its state before one warp collects a row's */

    if (warp < R && lane < G) {
        state[0] = nothing();
        for (int w = 0; w < WARPS; w++) {
            const struct running of_warp = {m_of_warp[warp][w], l_of_warp[warp][w],
                                            o_of_warp[warp][w][lane]};
            merge(&state[0], &of_warp);
        }
    }
}

/* Writes a lane's part of a finished row: O / l, the first lane LSE too; no keys: 0 and -inf. */
static __device__ __forceinline__ void write_row(float *O, float *LSE, int row, int rows,
                                                 int feature, int d, bool aligned,
                                                 const struct running *state)
{
    const float4 o = times(state->o, state->l == 0.0f ? 0.0f : 1.0f / state->l);
    store_4(O, row, feature, rows, d, aligned, o);
    if (LSE != NULL && feature == 0)
        LSE[row] = (state->m + log2f(state->l)) * CUDART_LN2_F;
}

/*
 * One run of the keys for R rows. With one run O and LSE are the results themselves, with more the
 * workspace, where run s has its results all_rows rows behind those of run s - 1.
 */
template <int G, int R>
__global__ void __launch_bounds__(THREADS, R == 1 ? 4 : 2)
    attend_run(const float *Q, const float *K, const float *V, float *O, float *LSE,
               const struct attention shape, int all_rows, int tiles, int runs, int run_keys,
               bool aligned)
{
    const int GROUPS = THREADS / G;
    const int group = threadIdx.x / G;
    const int feature = threadIdx.x % G * 4;

    const struct split_kv_part part = split_kv_part_of(blockIdx.x, R, tiles, runs, run_keys);
    const int d = shape.head_dim;
    const int kv_head = part.kv_head, run = part.run;
    const int head_rows = shape.heads / shape.kv_heads * shape.seq_q;
    const int head_row0 = kv_head * head_rows;
    const int row0 = part.row0; /* counted inside the head */
    const int rows = min(R, head_rows - row0);
    const int first_key = part.first_key;
    const int end_key = first_key + min(run_keys, shape.seq_kv - first_key);
    const float *K_head = K + (size_t)kv_head * shape.seq_kv * d;
    const float *V_head = V + (size_t)kv_head * shape.seq_kv * d;

    float4 q[R];
    struct running state[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        const float4 unscaled =
            load_4(Q + (size_t)(head_row0 + row0) * d, r, feature, rows, d, aligned);
        q[r] = times(unscaled, shape.scale * CUDART_L2E_F);
        state[r] = nothing();
    }

    for (int k0 = first_key; k0 < end_key; k0 += KEYS * GROUPS) {
        float4 key[KEYS], value[KEYS];
#pragma unroll
        for (int n = 0; n < KEYS; n++) {
            key[n] = load_4(K_head, k0 + n * GROUPS + group, feature, end_key, d, aligned);
            value[n] = load_4(V_head, k0 + n * GROUPS + group, feature, end_key, d, aligned);
        }

#pragma unroll
        for (int r = 0; r < R; r++) {
            float s[KEYS], top = state[r].m;
#pragma unroll
            for (int n = 0; n < KEYS; n++) {
                s[n] = warp_sum(dot(q[r], key[n]), G);
                if (k0 + n * GROUPS + group >= end_key)
                    s[n] = -CUDART_INF_F; /* a key past the end gets no weight */
                top = fmaxf(top, s[n]);
            }

            const float rescale = weight(state[r].m, top);
            state[r].m = top;
            state[r].l *= rescale;
            state[r].o = times(state[r].o, rescale);
#pragma unroll
            for (int n = 0; n < KEYS; n++) {
                const float p = weight(s[n], top);
                state[r].l += p;
                state[r].o = plus_times(state[r].o, value[n], p);
            }
        }
    }

    merge_block<G, R>(state);

    const int warp = threadIdx.x / WARP;
    if (warp < rows && threadIdx.x % WARP < G) {
        const int row = run * all_rows + head_row0 + row0 + warp;
        write_row(O, LSE, row, runs * all_rows, feature, d, aligned, &state[0]);
    }
}

/* A block merges the runs' results of one row. Groups take every GROUPS-th run. */
template <int G>
__global__ void __launch_bounds__(THREADS)
    merge_runs(const float *O_runs, const float *LSE_runs, float *O, float *LSE, int d,
               int all_rows, int runs, bool aligned)
{
    const int GROUPS = THREADS / G;
    const int row = blockIdx.x;
    const int feature = threadIdx.x % G * 4;

    struct running state = nothing();
    for (int run = threadIdx.x / G; run < runs; run += GROUPS) {
        const int run_row = run * all_rows + row;
        struct running finished;
        finished.m = LSE_runs[run_row] * CUDART_L2E_F;
        finished.l = 1.0f;
        finished.o = load_4(O_runs, run_row, feature, runs * all_rows, d, aligned);
        merge(&state, &finished);
    }

    merge_block<G, 1>(&state);

    if (threadIdx.x < G)
        write_row(O, LSE, row, all_rows, feature, d, aligned, &state);
}

template <int G, int R>
static cudaError_t launch(const struct attention *call, const struct split_kv_plan *plan)
{
    const float *Q = (const float *)call->Q, *K = (const float *)call->K,
                *V = (const float *)call->V;
    float *O = (float *)call->O;
    const int d = call->head_dim;
    const bool aligned =
        rows_aligned(Q, d) && rows_aligned(K, d) && rows_aligned(V, d) && rows_aligned(O, d);
    const int all_rows = (int)attention_query_rows(call);
    float *O_runs = plan->runs > 1 ? (float *)call->workspace : O;
    float *LSE_runs = plan->runs > 1 ? O_runs + (size_t)plan->runs * all_rows * d : call->LSE;

    attend_run<G, R><<<plan->blocks, THREADS, 0, call->stream>>>(Q, K, V, O_runs, LSE_runs, *call,
                                                                 all_rows, plan->tiles, plan->runs,
                                                                 plan->run_keys, aligned);
    cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess || plan->merge_blocks == 0)
        return status;

    merge_runs<G><<<plan->merge_blocks, THREADS, 0, call->stream>>>(
        O_runs, LSE_runs, O, call->LSE, d, all_rows, plan->runs, aligned);
    return cudaGetLastError();
}

template <int G>
static cudaError_t launch_rows(const struct attention *call, const struct split_kv_plan *plan)
{
    return plan->R == 1 ? launch<G, 1>(call, plan) : launch<G, SPLIT_KV_ROWS>(call, plan);
}

extern "C" cudaError_t attention_split_kv(const struct attention *call)
{
    const struct split_kv_plan plan = split_kv_plan_of(call);
    if (plan.G == 8)
        return launch_rows<8>(call, &plan);
    if (plan.G == 16)
        return launch_rows<16>(call, &plan);
    return launch_rows<32>(call, &plan);
}
