// needs: sm_80
/*
 * Idea: with one query there is a row of S and not a tile, so parallelism must come from the keys:
 * a block takes a row and a run of its keys, and a second kernel merges the runs.
 *
 *     run s of the keys:   m_s = max S_s      l_s = sum of 2^(S_s - m_s)      O_s = 2^(S_s -
 * m_s)·V_s merged:              (m, l, O) = ⊕ over s of (m_s, l_s, O_s)            runs.cuh has ⊕
 *     at the end:          O = O / l          LSE = (m + log2 l) · ln 2
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim] or pages of a pool
 * [pool_pages, kv_heads, page_size, head_dim], elements of type T; LSE [batch, heads, seq_q],
 * float; row-major. HEAD_DIM is head_dim rounded up to 64 or 128.
 *
 * HEAD_DIM / 8 lanes are a group. A group takes a key at a time, a lane 8 features of it: 16 bytes
 * of K and of V, straight into registers. A group has a running (m, l, O) of its own. In the end
 * groups merge inside the warp, then warps inside the block, runs in merge_runs(), all by ⊕.
 *
 * Rows of the heads that share K and V are neighbours in the grid, and all but the first find a key
 * in L2. Still each reads it: 2 · head_dim · 2 bytes a row and key.
 *
 * Cost: n rows, s runs, of keys that a row sees, 8 elements a load:
 *     n · (2 · keys · head_dim) / 8 loads of K and V, and n · s · GROUPS · head_dim / 8 of Q;
 *     with s > 1 also n · s · (head_dim / 4 + 1) stores and n · s · head_dim / 2 loads of floats.
 *
 * Source: Dao, Haziza, Massa, Sizov, Flash-Decoding for long-context inference (2023); the operator
 * is Milakov & Gimelshein's (arXiv:1805.02867) with O added.
 */
#include "06_causal_half/06_step.h"
#include "decode_plan.h"
#include "device/device.h"
#include "key_rows.cuh"
#include "runs.cuh"

static const int THREADS = DECODE_SPLIT_THREADS;
static const int WARPS = THREADS / WARP;
static const int KEYS = 4; /* that a group loads at once: 8 loads of 16 bytes a lane hide latency */

/* Eight neighbouring elements as floats. */
template <typename T>
static __device__ __forceinline__ void unpack(float x[8], uint4 packed)
{
    const uint32_t pair[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if constexpr (is_bfloat16<T>) { /* the upper half of a float */
            x[2 * i] = __uint_as_float(pair[i] << 16);
            x[2 * i + 1] = __uint_as_float(pair[i] & 0xffff0000u);
        } else {
            const float2 both = __half22float2(*(const __half2 *)&pair[i]);
            x[2 * i] = both.x;
            x[2 * i + 1] = both.y;
        }
    }
}

/* A group's state, with a lane's 8 features. */
struct of_lane {
    float m, l, o[8];
};

static __device__ __forceinline__ void merge_lanes(struct of_lane *a, const struct of_lane &b)
{
    const float m = fmaxf(a->m, b.m), shift = shift_of(m);
    const float weight_a = exp2_approximate(a->m - shift);
    const float weight_b = exp2_approximate(b.m - shift);
    a->m = m;
    a->l = a->l * weight_a + b.l * weight_b;
#pragma unroll
    for (int i = 0; i < 8; i++)
        a->o[i] = a->o[i] * weight_a + b.o[i] * weight_b;
}

/* Merges the block's groups. Afterwards the first HEAD_DIM / 4 threads have the block's state, with
 * four features each. */
template <int LANES>
static __device__ __forceinline__ struct running merge_block(struct of_lane &state)
{
    __shared__ float m_of_warp[WARPS], l_of_warp[WARPS];
    const int PAD = 4; /* so that neighbouring fours of features lie in different banks */
    __shared__ float4 o_of_warp[WARPS][2][LANES + PAD];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
#pragma unroll
    for (int distance = LANES; distance < WARP; distance *= 2) {
        struct of_lane other;
        other.m = __shfl_xor_sync(FULL_MASK, state.m, distance);
        other.l = __shfl_xor_sync(FULL_MASK, state.l, distance);
#pragma unroll
        for (int i = 0; i < 8; i++)
            other.o[i] = __shfl_xor_sync(FULL_MASK, state.o[i], distance);
        merge_lanes(&state, other);
    }
    if (lane < LANES) {
        o_of_warp[warp][0][lane] = make_float4(state.o[0], state.o[1], state.o[2], state.o[3]);
        o_of_warp[warp][1][lane] = make_float4(state.o[4], state.o[5], state.o[6], state.o[7]);
    }
    if (lane == 0) {
        m_of_warp[warp] = state.m;
        l_of_warp[warp] = state.l;
    }
    __syncthreads(); /* every warp has left its state before the first ones collect them */

    struct running all = nothing();
    for (int w = 0; w < WARPS && threadIdx.x < 2 * LANES; w++) {
        const struct running of_warp = {m_of_warp[w], l_of_warp[w],
                                        o_of_warp[w][threadIdx.x % 2][threadIdx.x / 2]};
        merge(&all, of_warp);
    }
    return all;
}

template <typename T, int HEAD_DIM>
__global__ void __launch_bounds__(THREADS)
    decode_split(const T *Q, const T *K, const T *V, const struct decode_output out,
                 struct attention shape, struct decode_plan plan)
{
    constexpr int LANES = HEAD_DIM / 8, GROUPS = THREADS / LANES;
    const int head_dim = shape.head_dim, group = threadIdx.x / LANES;
    const int feature = threadIdx.x % LANES * 8;
    const struct decode_part part = decode_part_of(plan, blockIdx.x);
    const int row = part.kv_head * plan.head_rows + part.row0; /* over all heads */
    const struct key_rows rows = key_rows_of(shape, part.kv_head);
    const int keys = sequence_keys(shape, part.kv_head);
    const int seen = decode_seen_by_any(shape, part.row0, 1, max(keys, 0));
    const int end_key = decode_end_of(plan, part, seen);
    const bool inside = feature < head_dim;
    const uint4 zeros = make_uint4(0, 0, 0, 0);

    float q[8];
    unpack<T>(q, inside ? *(const uint4 *)&Q[(size_t)row * head_dim + feature] : zeros);
#pragma unroll
    for (int i = 0; i < 8; i++)
        q[i] *= shape.scale * LOG2_E;

    struct of_lane state = {-CUDART_INF_F, 0.0f, {}};
    for (int k0 = part.first_key; k0 < end_key; k0 += KEYS * GROUPS) {
        uint4 key[KEYS], value[KEYS];
        bool missing[KEYS];
#pragma unroll
        for (int n = 0; n < KEYS; n++) {
            const int j = k0 + n * GROUPS + group;
            const long long at = j < end_key ? key_row(rows, j) : -1;
            const bool there = at >= 0 && inside;
            missing[n] = j < end_key && at < 0;
            key[n] = there ? *(const uint4 *)&K[at * head_dim + feature] : zeros;
            value[n] = there ? *(const uint4 *)&V[at * head_dim + feature] : zeros;
        }

        float s[KEYS], m_new = state.m;
#pragma unroll
        for (int n = 0; n < KEYS; n++) {
            float k[8], sum = 0.0f;
            unpack<T>(k, key[n]);
#pragma unroll
            for (int i = 0; i < 8; i++)
                sum += q[i] * k[i];
            s[n] = warp_sum(sum, LANES);
            if (k0 + n * GROUPS + group >= end_key)
                s[n] = -CUDART_INF_F; /* a key past the end gets no weight */
            if (missing[n])
                s[n] = CUDART_NAN_F;
            m_new = fmaxf(m_new, s[n]);
        }

        const float shift = shift_of(m_new), rescale = exp2_approximate(state.m - shift);
        state.m = m_new;
        state.l *= rescale;
#pragma unroll
        for (int i = 0; i < 8; i++)
            state.o[i] *= rescale;
#pragma unroll
        for (int n = 0; n < KEYS; n++) {
            const float p = exp2_approximate(s[n] - shift);
            float v[8];
            unpack<T>(v, value[n]);
            state.l += p;
#pragma unroll
            for (int i = 0; i < 8; i++)
                state.o[i] += p * v[i];
        }
    }

    struct running all = merge_block<LANES>(state);
    if (keys < 0)
        all.l = CUDART_NAN_F;
    const int own_feature = threadIdx.x * 4;
    if (own_feature < head_dim)
        store_run<T>(out, part.run, row, own_feature, all);
}

template <typename T, int HEAD_DIM>
static cudaError_t launch(const struct attention *call)
{
    struct device_limits device;
    const cudaError_t status = current_device(&device);
    if (status != cudaSuccess)
        return status;
    const struct decode_plan plan = decode_plan_of(call, 1, DECODE_SPLIT_RESIDENT, &device);
    const struct decode_output out =
        decode_output_of(call, plan.runs, (int)attention_query_rows(call));
    decode_split<T, HEAD_DIM><<<plan.blocks, THREADS, 0, call->stream>>>(
        (const T *)call->Q, (const T *)call->K, (const T *)call->V, out, *call, plan);
    const cudaError_t launched = cudaGetLastError();
    return launched == cudaSuccess && plan.runs > 1 ? launch_merge<T, HEAD_DIM>(out, call->stream)
                                                    : launched;
}

extern "C" cudaError_t attention_decode_split(const struct attention *call)
{
    if (call->type == TENSOR_BF16)
        return call->head_dim <= 64 ? launch<__nv_bfloat16, 64>(call)
                                    : launch<__nv_bfloat16, 128>(call);
    return call->head_dim <= 64 ? launch<__half, 64>(call) : launch<__half, 128>(call);
}
