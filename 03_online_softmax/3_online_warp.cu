/*
 * Idea: a WARP computes one row; its 32 running states are merged by shuffles.
 *
 *     state = (m1, l1) + ... + (m32, l32)      then      y[c] = e^(x[c] - m) / l
 *
 * input and output are [rows, cols], row-major; x and y are one row of them. Lane i sees the
 * columns i, i + 32, i + 64, ...: neighbouring lanes read neighbouring floats, and because the
 * merge is associative and commutative the row may be dealt out like that.
 *
 * A block owns 8 rows, a warp one. A request is 32 floats side by side: 4 sectors, 5 where the row
 * begins off a multiple of 32 bytes.
 *
 * Cost: 2·rows·cols global loads of 4 bytes, rows·cols stores, 3·rows·cols exponentials, and 10
 * shuffles and an exponential a lane for the merge.
 */
#include "03_step.h"
#include "running_softmax.cuh"
#include "device/tiles.cuh"
#include "device/warp.cuh"

static const int ROWS = 8; /* of a block */

/* The merged state of the warp's 32, the same in every lane: first their maximum, then the sum of
 * their sums, each brought to that maximum once. */
static __device__ struct running_softmax merge_warp(struct running_softmax state)
{
    const float m = warp_max(state.m);
    const float l = warp_sum(state.l * expf(state.m - running_softmax_shift(m)));
    const struct running_softmax merged = {m, l};
    return merged;
}

__global__ void online_warp(const float *input, float *output, int rows, int cols)
{
    const int lane = threadIdx.x % WARP;
    const int row = blockIdx.x * ROWS + threadIdx.x / WARP;
    if (row >= rows)
        return; /* the whole warp: no lane is missing from the shuffles */
    input += (size_t)row * cols;
    output += (size_t)row * cols;

    struct running_softmax state = running_softmax_empty();
    for (int col = lane; col < cols; col += WARP)
        state = running_softmax_merge(state, running_softmax_of(input[col]));
    const struct running_softmax whole = merge_warp(state);

    const float scale = 1.0f / whole.l;
    for (int col = lane; col < cols; col += WARP)
        output[col] = expf(input[col] - whole.m) * scale;
}

extern "C" cudaError_t softmax_online_warp(const float *input, float *output, int rows, int cols,
                                           cudaStream_t stream)
{
    online_warp<<<ceil_div(rows, ROWS), ROWS * WARP, 0, stream>>>(input, output, rows, cols);
    return cudaGetLastError();
}
