/*
 * Idea: the chunks of keys in any order. What they do to m, l and O is a maximum and two sums, so
 * atomics can do it, if every query's maximum is complete before any sum begins, and every sum
 * before any quotient. The end of a launch makes the whole grid wait: three phases, three launches.
 *
 *     m = -inf, l = 0, O = 0       | a launch of its own
 *     m = max(m, S)                | phase 0
 *     l = l + e^(S - m)            | phase 1
 *     O = O + v_j · e^(S - m) / l  | phase 2                 LSE = m + ln l
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], all row-major. Workspace: l and m, one each per query.
 *
 * A warp takes one chunk of keys of one query. It reduces the chunk in registers first, so an
 * atomic serves CHUNK keys.
 *
 * Cost: every key three times per query, as no phase knows the scores of the one before; every
 * value once; 2 + head_dim atomics per query and chunk. The order of the sums, and with it the last
 * bits of O, change from run to run.
 */
#include "04_step.h"
#include "harness/refusal.h"
#include "device/tiles.cuh"
#include "device/warp.cuh"

#include <math_constants.h>

static const int WARPS = 4;
static const int CHUNK = 32; /* keys */
static const int MAX_HEAD_DIM = 128;
static const int ELEMENTS = MAX_HEAD_DIM / WARP; /* of a vector, per lane */

/*
 * The maximum of floats by the integer atomics that the hardware has. A float whose sign bit is
 * clear compares as a signed integer does, one whose sign bit is set the other way round as an
 * unsigned integer, and then a maximum is a minimum. It is the sign bit that decides and not `x >=
 * 0`, which is true of -0 as well.
 */
static __device__ void atomic_max(float *address, float x)
{
    if (__float_as_int(x) >= 0)
        atomicMax((int *)address, __float_as_int(x));
    else
        atomicMin((unsigned *)address, __float_as_uint(x));
}

__global__ void key_parallel_atomic(const float *Q, const float *K, const float *V, float *O,
                                    float *LSE, const struct attention shape, int rows, int phase)
{
    float *all_l = (float *)shape.workspace, *all_m = all_l + rows;
    const int d = shape.head_dim;
    const int lane = threadIdx.x % WARP;
    const size_t warp = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    const int row = warp % rows, chunk = warp / rows;
    const int first = chunk * CHUNK, end = min(first + CHUNK, shape.seq_kv);
    if (first >= shape.seq_kv) /* the whole warp leaves */
        return;

    const int head = row / shape.seq_q;
    const size_t first_query = (size_t)row * d;
    const size_t first_key = (size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv * d;

    float q[ELEMENTS], o[ELEMENTS] = {};
    for (int e = 0, c = lane; e < ELEMENTS; e++, c += WARP)
        q[e] = c < d ? Q[first_query + c] : 0.0f; /* S1 */
    float m = phase > 0 ? all_m[row] : -CUDART_INF_F, l = 0.0f;
    const float l_row = phase > 1 ? all_l[row] : 0.0f;
    const float weight = l_row == 0.0f ? 0.0f : 1.0f / l_row;
    /* Where every score is -inf, e^(S - 0) = 0; e^((-inf) - (-inf)) would be NaN. */
    const float top = m == -CUDART_INF_F ? 0.0f : m;

    for (int j = first; j < end; j++) {
        const float *k = K + first_key + (size_t)j * d; /* S2 */
        const float *v = V + first_key + (size_t)j * d; /* S9 */
        float sum = 0.0f;
        for (int e = 0, c = lane; e < ELEMENTS; e++, c += WARP)
            sum += c < d ? q[e] * k[c] : 0.0f;
        const float S_ij = shape.scale * warp_sum(sum); /* S5 */

        m = fmaxf(m, S_ij); /* S6 */
        const float p = expf(S_ij - top);
        l += p;                                                               /* S7 */
        for (int e = 0, c = lane; phase == 2 && e < ELEMENTS; e++, c += WARP) /* S10 */
            o[e] += (c < d ? v[c] : 0.0f) * (p * weight);
    }

    if (phase == 0 && lane == 0)
        atomic_max(&all_m[row], m);
    if (phase == 1 && lane == 0)
        atomicAdd(&all_l[row], l);
    for (int e = 0, c = lane; phase == 2 && e < ELEMENTS; e++, c += WARP)
        if (c < d)
            atomicAdd(&O[first_query + c], o[e]); /* S11 */
    if (LSE != NULL && phase == 2 && chunk == 0 && lane == 0)
        LSE[row] = m + logf(l_row);
}

extern "C" cudaError_t attention_key_parallel_atomic(const struct attention *call)
{
    const int rows = (int)attention_query_rows(call);
    const size_t warps = (size_t)rows * ceil_div(call->seq_kv, CHUNK);
    const int blocks = (int)(warps / WARPS + 1);
    cudaError_t status = require_blocks(warps / WARPS + 1);
    if (status == cudaSuccess)
        status = attention_initial_state(call);
    for (int phase = 0; phase < 3 && status == cudaSuccess; phase++) {
        key_parallel_atomic<<<blocks, WARPS * WARP, 0, call->stream>>>(
            (const float *)call->Q, (const float *)call->K, (const float *)call->V,
            (float *)call->O, call->LSE, *call, rows, phase);
        status = cudaGetLastError();
    }
    return status;
}
