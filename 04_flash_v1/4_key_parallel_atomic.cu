/*
 * Idea: the chunks of keys in any order. What they do to m, l and O is a maximum and two sums, so
 * atomics can do it, if every query's maximum is complete before any sum begins: the whole grid
 * waits, three times.
 *
 *     m = -inf, l = 0, O = 0       | grid waits
 *     m = max(m, S)                | grid waits
 *     l = l + e^(S - m)            | grid waits
 *     O = O + v_j · e^(S - m) / l  |                         LSE = m + ln l
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], all row-major. Workspace: l and m, one each per query.
 *
 * A warp takes one query and one chunk of keys after the other, all warps of the grid together all
 * of them. Each chunk is reduced in registers first, so that an atomic serves CHUNK keys. All
 * blocks have to run at once to wait for each other, so the grid is a cooperative one, as large as
 * the device can hold and no larger.
 *
 * Cost: every key three times per query, as no phase knows the scores of the one before; every
 * value once; 2 + head_dim atomics per query and chunk. The order of the sums, and with it the last
 * bits of O, change from run to run.
 */
#include "04_step.h"
#include "device.h"
#include "refusal.h"
#include "row_state.cuh"
#include "tiles.cuh"

#include <cooperative_groups.h>

static const int WARPS = 4;
static const int CHUNK = 32; /* keys */

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
                                    float *LSE, float *l, float *m, const struct attention shape,
                                    size_t rows)
{
    const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    const int d = shape.head_dim;
    const int lane = threadIdx.x % LANES;
    const int warp = blockIdx.x * WARPS + threadIdx.x / LANES;
    const int warps = gridDim.x * WARPS;
    const size_t pieces = rows * ceil_div(shape.seq_kv, CHUNK);
    const float zeros[ELEMENTS] = {};

    for (size_t row = warp; row < rows; row += warps) {
        row_store(O + row * d, zeros, d, lane);
        if (lane == 0) {
            l[row] = 0.0f;
            m[row] = -CUDART_INF_F;
        }
    }
    grid.sync(); /* everything is at its beginning before any warp adds to it */

    for (int phase = 0; phase < 3; phase++) {
        for (size_t piece = warp; piece < pieces; piece += warps) {
            const size_t row = piece % rows;
            const int j0 = (int)(piece / rows) * CHUNK;
            const size_t head = row / shape.seq_q;
            const size_t first_key = head / (shape.heads / shape.kv_heads) * shape.seq_kv;

            float q[ELEMENTS];
            row_load(q, Q + row * d, d, lane);
            const float m_row = phase > 0 ? m[row] : 0.0f;
            const float l_row = phase > 1 ? l[row] : 1.0f;
            float largest = -CUDART_INF_F, sum = 0.0f, o[ELEMENTS] = {};
            for (int j = j0; j < min(j0 + CHUNK, shape.seq_kv); j++) {
                const float S_ij = row_score(q, K + (first_key + j) * d, d, shape.scale, lane);
                if (phase == 0) {
                    largest = fmaxf(largest, S_ij);
                } else if (phase == 1) {
                    sum += expf(S_ij - m_row);
                } else {
                    float v[ELEMENTS];
                    row_load(v, V + (first_key + j) * d, d, lane);
                    const float p = expf(S_ij - m_row) / l_row;
                    for (int e = 0; e < ELEMENTS; e++)
                        o[e] += p * v[e];
                }
            }

            if (phase == 0 && lane == 0)
                atomic_max(&m[row], largest);
            if (phase == 1 && lane == 0)
                atomicAdd(&l[row], sum);
            for (int e = 0; phase == 2 && e < ELEMENTS; e++)
                if (lane + e * LANES < d)
                    atomicAdd(&O[row * d + lane + e * LANES], o[e]);
        }
        if (phase < 2)
            /* m is complete before the first sum uses it; then l before the first quotient does */
            grid.sync();
    }

    for (size_t row = warp; LSE != NULL && row < rows; row += warps)
        if (lane == 0)
            LSE[row] = m[row] + logf(l[row]);
}

/* How many blocks the device runs at once; refused where it cannot make them wait for each
 * other. */
static cudaError_t resident_blocks(int *blocks)
{
    int cooperative = 0, processors = 0, per_processor = 0;
    cudaError_t status;
    if ((status = device_attribute(cudaDevAttrCooperativeLaunch, &cooperative)) != cudaSuccess ||
        (status = device_attribute(cudaDevAttrMultiProcessorCount, &processors)) != cudaSuccess ||
        (status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, key_parallel_atomic,
                                                                WARPS * LANES, 0)) != cudaSuccess)
        return status;
    if (!cooperative || per_processor == 0)
        return refuse(cudaErrorNotSupported,
                      "needs cooperative launches, which this device does not have");
    *blocks = processors * per_processor;
    return cudaSuccess;
}

extern "C" cudaError_t attention_key_parallel_atomic(const struct attention *call)
{
    int resident = 0;
    const cudaError_t status = resident_blocks(&resident);
    if (status != cudaSuccess)
        return status;
    size_t rows = attention_query_rows(call);
    const size_t pieces = rows * max(ceil_div(call->seq_kv, CHUNK), 1);
    const size_t useful = pieces / WARPS + (pieces % WARPS != 0);
    const unsigned blocks = useful < (size_t)resident ? (unsigned)useful : (unsigned)resident;

    struct attention shape = *call;
    float *l = (float *)shape.workspace;
    float *m = l + rows;
    void *arguments[] = {&shape.Q, &shape.K, &shape.V, &shape.O, &shape.LSE, &l, &m, &shape, &rows};
    return cudaLaunchCooperativeKernel((const void *)key_parallel_atomic, dim3(blocks),
                                       dim3(WARPS * LANES), arguments, 0, call->stream);
}
