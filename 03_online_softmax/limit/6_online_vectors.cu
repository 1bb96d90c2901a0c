/*
 * Idea: the row is read and written 16 bytes at a time.
 *
 *     each thread: (m, l) and the e^(x[c] - m) of its own columns; merged over the block to (M, L)
 *     then y[c] = e^(x[c] - m) · (e^(m - M) / L)
 *
 * input and output are [rows, cols], row-major; x and y are one row of them. One load fetches a
 * float4, four columns: a quarter of the instructions for the same bytes.
 *
 * A block of LANES threads owns a row, a thread up to KEPT float4 of it, LANES apart. A float4 must
 * begin at a multiple of 16 bytes: where the rows do not, online_registers has them. A row of at
 * most 1024 columns is online_warp's, one of more than 32768 online_block's.
 *
 * Cost: rows·cols / 4 global loads of 16 bytes and as many stores, rows·cols exponentials; 4·KEPT
 * registers a thread for the row; a barrier a row.
 */
#include "03_online_softmax/03_step.h"
#include "03_online_softmax/lanes.h"
#include "03_online_softmax/merge_row.cuh"
#include "device/vectors.cuh"

#include <math_constants.h>
#include <stdint.h>

static const int KEPT =
    KEPT_COLS / 4; /* float4 of a thread: half of the 64 registers of each of 1024 */

static __device__ float4 exp4(float4 x, float shift)
{
    return make_float4(__expf(x.x - shift), __expf(x.y - shift), __expf(x.z - shift),
                       __expf(x.w - shift));
}

/* Stores factor · e, as one float4 where the output is aligned like the input. */
static __device__ void store4(float *output, float4 e, float factor, bool aligned)
{
    e = make_float4(e.x * factor, e.y * factor, e.z * factor, e.w * factor);
    if (aligned) {
        *(float4 *)output = e;
    } else {
        output[0] = e.x;
        output[1] = e.y;
        output[2] = e.z;
        output[3] = e.w;
    }
}

/* A thread's part of a row: elements `first`, first + LANES, ... before `end`, and -inf past it. */
template <int LANES>
static __device__ void load_kept(float4 (&e)[KEPT], const float4 *row, int first, int end)
{
    const float4 nothing = {-CUDART_INF_F, -CUDART_INF_F, -CUDART_INF_F, -CUDART_INF_F};
    for (int i = 0; i < KEPT; i++) {
        const int at = first + i * LANES;
        e[i] = at < end ? row[at] : nothing;
    }
}

template <int LANES>
static __device__ void store_kept(float *row, const float4 (&e)[KEPT], int first, int end,
                                  float factor, bool aligned)
{
    for (int i = 0; i < KEPT; i++) {
        const int at = first + i * LANES;
        if (at < end)
            store4(row + 4 * at, e[i], factor, aligned);
    }
}

/* Puts the exponentials in the place of the numbers, against the maximum of those of this thread.
 * Returns its state. */
static __device__ struct running_softmax exponentials(float4 (&e)[KEPT])
{
    float m = -CUDART_INF_F;
    for (int i = 0; i < KEPT; i++)
        m = fmaxf(m, fmaxf(fmaxf(e[i].x, e[i].y), fmaxf(e[i].z, e[i].w)));

    const float shift = running_softmax_shift(m);
    float l = 0.0f;
    for (int i = 0; i < KEPT; i++) {
        e[i] = exp4(e[i], shift);
        l += (e[i].x + e[i].y) + (e[i].z + e[i].w);
    }
    const struct running_softmax state = {m, l};
    return state;
}

template <int LANES>
__global__ void __launch_bounds__(LANES) online_vectors(const float *input, float *output, int cols)
{
    const int lane = threadIdx.x, row = blockIdx.x;
    input += (size_t)row * cols;
    output += (size_t)row * cols;

    const float4 *middle = (const float4 *)input;
    const int first = lane, end = cols / 4;

    float4 e[KEPT];
    load_kept<LANES>(e, middle, first, end);
    const struct running_softmax own = exponentials(e);

    const struct running_softmax whole = merge_row<LANES>(own);
    const float factor = __expf(own.m - whole.m) / whole.l;

    const bool aligned = ((uintptr_t)input - (uintptr_t)output) % sizeof(float4) == 0;
    store_kept<LANES>(output, e, first, end, factor, aligned);
}

template <int LANES>
static cudaError_t launch(const float *input, float *output, int rows, int cols,
                          cudaStream_t stream)
{
    if (!rows_aligned(input, cols))
        return softmax_online_registers(input, output, rows, cols, stream);
    online_vectors<LANES><<<rows, LANES, 0, stream>>>(input, output, cols);
    return cudaGetLastError();
}

extern "C" cudaError_t softmax_online_vectors(const float *input, float *output, int rows, int cols,
                                              cudaStream_t stream)
{
    const struct row_owner owner = row_owner_of(cols);
    if (owner.lanes == 32)
        return softmax_online_warp(input, output, rows, cols, stream);
    if (!owner.holds)
        return softmax_online_block(input, output, rows, cols, stream);
    if (owner.lanes == 128)
        return launch<128>(input, output, rows, cols, stream);
    if (owner.lanes == 512)
        return launch<512>(input, output, rows, cols, stream);
    return launch<1024>(input, output, rows, cols, stream);
}
