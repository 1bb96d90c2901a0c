/*
 * Idea: 16 bytes at a time in rows that BEGIN ANYWHERE: the ends of a row go one by one.
 *
 *     each thread: (m, l) and the e^(x[c] - m) of its own columns; merged over the block to (M, L)
 *     then y[c] = e^(x[c] - m) · (e^(m - M) / L)
 *
 * input and output are [rows, cols], row-major; x and y are one row of them. A row of an odd number
 * of columns begins anywhere, so float4 are read from its 16-byte-aligned middle, and the up to
 * 3 + 3 columns at its two ends one each by the first six threads.
 *
 * A block of LANES threads owns a row, a thread up to KEPT float4 of it, LANES apart. A row of at
 * most 1024 columns is online_warp's, one of more than 32768 online_block's.
 *
 * Cost: rows·cols·4 bytes of global loads and as many of stores, 16 bytes at a time but for the
 * ends; rows·cols exponentials; 4·KEPT registers a thread for the row; a barrier a row.
 */
#include "03_online_softmax/03_step.h"
#include "03_online_softmax/lanes.h"
#include "03_online_softmax/merge_row.cuh"
#include "row_in_registers.cuh"

static const int KEPT =
    KEPT_COLS / 4; /* float4 of a thread: half of the 64 registers of each of 1024 */

template <int LANES>
__global__ void __launch_bounds__(LANES) online_ragged(const float *input, float *output, int cols)
{
    const int lane = threadIdx.x, row = blockIdx.x;
    input += (size_t)row * cols;
    output += (size_t)row * cols;

    const int head = head_of(input, cols), vectors = (cols - head) / 4;
    const float4 *middle = (const float4 *)(input + head);
    const int first = lane, end = vectors;

    float4 e[KEPT];
    load_kept<LANES>(e, middle, first, end);
    const int end_col = end_column(head, lane, cols);
    float e_end = end_col >= 0 ? input[end_col] : -CUDART_INF_F;
    const struct running_softmax own = exponentials(e, &e_end, running_softmax_empty());

    const struct running_softmax whole = merge_row<LANES>(own);
    const float factor = __expf(own.m - whole.m) / whole.l;

    const bool aligned = ((uintptr_t)input - (uintptr_t)output) % sizeof(float4) == 0;
    store_kept<LANES>(output + head, e, first, end, factor, aligned);
    if (end_col >= 0)
        output[end_col] = e_end * factor;
}

template <int LANES>
static cudaError_t launch(const float *input, float *output, int rows, int cols,
                          cudaStream_t stream)
{
    online_ragged<LANES><<<rows, LANES, 0, stream>>>(input, output, cols);
    return cudaGetLastError();
}

extern "C" cudaError_t softmax_online_ragged(const float *input, float *output, int rows, int cols,
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
