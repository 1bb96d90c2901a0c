/*
 * Idea: a BLOCK computes one row; the states of its warps are merged through shared memory.
 *
 *     each thread: (m, l) of its columns; merged over its warp, then over the block to (M, L)
 *     then y[c] = e^(x[c] - M) / L
 *
 * input and output are [rows, cols], row-major; x and y are one row of them. Thread i of LANES sees
 * the columns i, i + LANES, i + 2·LANES, ...: the warp of the kernel before with more lanes. Fewer
 * rows are in work at a time, each by more threads, so that the second sweep finds more of a long
 * row in the L2 cache.
 *
 * A block of LANES threads owns a row; there are as many as give each about 32 columns, up to 1024.
 * A row of at most 1024 columns is a single warp's: online_warp has it.
 *
 * Cost, per row: 2·cols global loads of 4 bytes, cols stores, 3·cols exponentials, one barrier.
 */
#include "03_step.h"
#include "lanes.h"
#include "merge_row.cuh"

template <int LANES>
__global__ void __launch_bounds__(LANES) online_block(const float *input, float *output, int cols)
{
    const int lane = threadIdx.x, row = blockIdx.x;
    input += (size_t)row * cols;
    output += (size_t)row * cols;

    struct running_softmax state = running_softmax_empty();
    for (int col = lane; col < cols; col += LANES)
        state = running_softmax_merge(state, running_softmax_of(input[col]));
    const struct running_softmax whole = merge_row<LANES>(state);

    const float scale = 1.0f / whole.l;
    for (int col = lane; col < cols; col += LANES)
        output[col] = expf(input[col] - whole.m) * scale;
}

template <int LANES>
static cudaError_t launch(const float *input, float *output, int rows, int cols,
                          cudaStream_t stream)
{
    online_block<LANES><<<rows, LANES, 0, stream>>>(input, output, cols);
    return cudaGetLastError();
}

extern "C" cudaError_t softmax_online_block(const float *input, float *output, int rows, int cols,
                                            cudaStream_t stream)
{
    const struct row_owner owner = row_owner_of(cols);
    if (owner.lanes == 32)
        return softmax_online_warp(input, output, rows, cols, stream);
    if (owner.lanes == 128)
        return launch<128>(input, output, rows, cols, stream);
    if (owner.lanes == 512)
        return launch<512>(input, output, rows, cols, stream);
    return launch<1024>(input, output, rows, cols, stream);
}
