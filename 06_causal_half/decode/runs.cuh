/*
 * What a run of the keys leaves for a row, and how runs become the row's result:
 *
 *     (m_a, l_a, o_a) ⊕ (m_b, l_b, o_b) = (m, l, o)            m = max(m_a, m_b)
 *         l = l_a·2^(m_a - m) + l_b·2^(m_b - m)               o = o_a·2^(m_a - m) + o_b·2^(m_b - m)
 *     nothing = (-inf, 0, 0)                                   O = o / l    LSE = (m + log2 l) · ln
 * 2
 *
 * m is a maximum of scores times log2 e. The operator is associative and commutative, so lanes,
 * warps, blocks and runs may be merged in any order.
 */
#ifndef RUNS_CUH
#define RUNS_CUH

#include "06_causal_half/score_rows.cuh"
#include "decode_plan.h"

/* O and LSE as the caller wants them, and the workspace for runs: [runs, rows, head_dim] and
 * [runs, rows]. The rows are all there are, or a tile's in decode_balanced. */
struct decode_output {
    void *O;
    float *LSE;
    float *O_runs;
    float2 *state_runs; /* m, l */
    int rows, head_dim, runs;
};

static inline struct decode_output decode_output_of(const struct attention *call, int runs,
                                                    int rows)
{
    struct decode_output out;
    out.O = call->O;
    out.LSE = call->LSE;
    out.rows = rows;
    out.head_dim = call->head_dim;
    out.runs = runs;
    out.O_runs = (float *)call->workspace;
    out.state_runs =
        (float2 *)(out.O_runs + (runs > 1 ? (size_t)runs * out.rows * out.head_dim : 0));
    return out;
}

/* A row's state, with four of its features. */
struct running {
    float m, l;
    float4 o;
};

static __device__ __forceinline__ struct running nothing(void)
{
    const struct running state = {-CUDART_INF_F, 0.0f, make_float4(0.0f, 0.0f, 0.0f, 0.0f)};
    return state;
}

static __device__ __forceinline__ void merge(struct running *a, const struct running &b)
{
    const float m = fmaxf(a->m, b.m), shift = shift_of(m);
    const float weight_a = exp2_approximate(a->m - shift);
    const float weight_b = exp2_approximate(b.m - shift);
    a->m = m;
    a->l = a->l * weight_a + b.l * weight_b;
    a->o.x = a->o.x * weight_a + b.o.x * weight_b;
    a->o.y = a->o.y * weight_a + b.o.y * weight_b;
    a->o.z = a->o.z * weight_a + b.o.z * weight_b;
    a->o.w = a->o.w * weight_a + b.o.w * weight_b;
}

/* Stores four features of a finished row, and its LSE with the first four. */
template <typename T>
static __device__ __forceinline__ void store_result(const struct decode_output &out, int row,
                                                    int feature, const struct running &state)
{
    const bool empty = state.l == 0.0f && state.m == -CUDART_INF_F; /* no key: 0 */
    const float inverse = empty ? 0.0f : 1.0f / state.l;
    uint2 four;
    four.x = pack_pair<T>(state.o.x * inverse, state.o.y * inverse);
    four.y = pack_pair<T>(state.o.z * inverse, state.o.w * inverse);
    *(uint2 *)((T *)out.O + (size_t)row * out.head_dim + feature) = four;
    if (out.LSE != NULL && feature == 0)
        out.LSE[row] = (state.m + log2f(state.l)) * LN_2;
}

/* Stores what a run leaves, which is the result where there is one run. */
template <typename T>
static __device__ __forceinline__ void store_run(const struct decode_output &out, int run, int row,
                                                 int feature, const struct running &state)
{
    if (out.runs == 1) {
        store_result<T>(out, row, feature, state);
        return;
    }
    const size_t place = (size_t)run * out.rows + row;
    *(float4 *)&out.O_runs[place * out.head_dim + feature] = state.o;
    if (feature == 0)
        out.state_runs[place] = make_float2(state.m, state.l);
}

static __device__ __forceinline__ struct running load_run(const struct decode_output &out, int run,
                                                          int row, int feature)
{
    const size_t place = (size_t)run * out.rows + row;
    const float2 m_l = out.state_runs[place];
    const struct running state = {m_l.x, m_l.y,
                                  *(const float4 *)&out.O_runs[place * out.head_dim + feature]};
    return state;
}

static const int MERGE_THREADS = 256;

/*
 * Merges the runs of all rows. HEAD_DIM / 4 lanes are a group; row_groups groups, a power of two,
 * share a row and take every row_groups-th of its runs.
 */
template <typename T, int HEAD_DIM>
static __global__ void __launch_bounds__(MERGE_THREADS)
    merge_runs(const struct decode_output out, int row_groups)
{
    constexpr int LANES = HEAD_DIM / 4, GROUPS = MERGE_THREADS / LANES;
    __shared__ float m_of_group[GROUPS], l_of_group[GROUPS];
    __shared__ float4 o_of_group[GROUPS][LANES];
    const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES, feature = lane * 4;
    const int row = blockIdx.x * (GROUPS / row_groups) + group / row_groups;
    const bool inside = row < out.rows && feature < out.head_dim;

    struct running state = nothing();
#pragma unroll 4
    for (int run = group % row_groups; inside && run < out.runs; run += row_groups)
        merge(&state, load_run(out, run, row, feature));

    o_of_group[group][lane] = state.o;
    if (lane == 0) {
        m_of_group[group] = state.m;
        l_of_group[group] = state.l;
    }
    __syncthreads(); /* each group has left its state before one group collects a row's */

    if (!inside || group % row_groups != 0)
        return;
    for (int other = group + 1; other < group + row_groups; other++) {
        const struct running of_group = {m_of_group[other], l_of_group[other],
                                         o_of_group[other][lane]};
        merge(&state, of_group);
    }
    store_result<T>(out, row, feature, state);
}

template <typename T, int HEAD_DIM>
static cudaError_t launch_merge(const struct decode_output &out, cudaStream_t stream)
{
    const int GROUPS = MERGE_THREADS / (HEAD_DIM / 4);
    int row_groups = 1;
    while (row_groups < GROUPS && 2 * row_groups <= out.runs)
        row_groups *= 2;
    merge_runs<T, HEAD_DIM>
        <<<ceil_div(out.rows, GROUPS / row_groups), MERGE_THREADS, 0, stream>>>(out, row_groups);
    return cudaGetLastError();
}

#endif
