/*
 * Idea: the row is read ONCE and kept in the registers of its block.
 *
 *     each thread: (m, l) and the e^(x[c] - m) of its own columns; merged over the block to (M, L)
 *     then y[c] = e^(x[c] - m) · (e^(m - M) / L)
 *
 * input and output are [rows, cols], row-major; x and y are one row of them. The exponentials
 * against a thread's own maximum depend on no other thread, so they are formed once, and one factor
 * a thread corrects maximum and sum together.
 *
 * A block of LANES threads owns a row, a thread up to KEPT columns of it, LANES apart. A row of at
 * most 1024 columns is online_warp's; one of more than 32768 does not fit and is online_block's.
 *
 * Cost: rows·cols global loads of 4 bytes and as many stores, rows·cols exponentials; KEPT
 * registers a thread for the row; a barrier a row.
 */
#include "03_step.h"
#include "lanes.h"
#include "merge_row.cuh"

#include <math_constants.h>

static const int KEPT = KEPT_COLS; /* half of the 64 registers of each of 1024 threads */

/* A thread's part of a row: elements `first`, first + LANES, ... before `end`, and -inf past it. */
template <int LANES>
static __device__ void load_kept(float (&e)[KEPT], const float *row, int first, int end)
{
    for (int i = 0; i < KEPT; i++) {
        const int at = first + i * LANES;
        e[i] = at < end ? row[at] : -CUDART_INF_F;
    }
}

template <int LANES>
static __device__ void store_kept(float *row, const float (&e)[KEPT], int first, int end,
                                  float factor)
{
    for (int i = 0; i < KEPT; i++) {
        const int at = first + i * LANES;
        if (at < end)
            row[at] = e[i] * factor;
    }
}

/* Puts the exponentials in the place of the numbers, against the maximum of those of this thread.
 * Returns its state. */
static __device__ struct running_softmax exponentials(float (&e)[KEPT])
{
    float m = -CUDART_INF_F;
    for (int i = 0; i < KEPT; i++)
        m = fmaxf(m, e[i]);

    const float shift = running_softmax_shift(m);
    float l = 0.0f;
    for (int i = 0; i < KEPT; i++) {
        e[i] = __expf(e[i] - shift);
        l += e[i];
    }
    const struct running_softmax state = {m, l};
    return state;
}

template <int LANES>
__global__ void __launch_bounds__(LANES)
    online_registers(const float *input, float *output, int cols)
{
    const int lane = threadIdx.x, row = blockIdx.x;
    input += (size_t)row * cols;
    output += (size_t)row * cols;

    const int first = lane, end = cols;

    float e[KEPT];
    load_kept<LANES>(e, input, first, end);
    const struct running_softmax own = exponentials(e);

    const struct running_softmax whole = merge_row<LANES>(own);
    const float factor = __expf(own.m - whole.m) / whole.l;

    store_kept<LANES>(output, e, first, end, factor);
}

template <int LANES>
static cudaError_t launch(const float *input, float *output, int rows, int cols,
                          cudaStream_t stream)
{
    online_registers<LANES><<<rows, LANES, 0, stream>>>(input, output, cols);
    return cudaGetLastError();
}

extern "C" cudaError_t softmax_online_registers(const float *input, float *output, int rows,
                                                int cols, cudaStream_t stream)
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
