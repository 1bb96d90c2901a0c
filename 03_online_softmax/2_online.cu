/*
 * Idea: one thread computes one row, and finds maximum and sum in ONE sweep: two sweeps in all.
 *
 *     m' = max(m, x[c])    l' = l · e^(m - m') + e^(x[c] - m')     then     y[c] = e^(x[c] - m) / l
 *
 * input and output are [rows, cols], row-major; x and y are one row of them. The sum does not wait
 * for the final maximum: it is kept against the maximum so far and rescaled when that moves.
 * (Milakov and Gimelshein: Online normalizer calculation for softmax, 2018, algorithm 3.) The step
 * is the merge of running_softmax.cuh with one number.
 *
 * A block owns 128 rows, a thread one. A warp's lanes are cols floats apart: 32 sectors a request.
 *
 * Cost: 2·rows·cols global loads of 4 bytes, rows·cols stores, 3·rows·cols exponentials.
 */
#include "03_step.h"
#include "running_softmax.cuh"
#include "device/tiles.cuh"

static const int THREADS = 128;
/* A large sum rounds small terms away one by one, so 256 at a time are added up first. */
static const int PIECE = 256;

__global__ void online(const float *input, float *output, int rows, int cols)
{
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows)
        return;
    input += (size_t)row * cols;
    output += (size_t)row * cols;

    struct running_softmax state = running_softmax_empty();
    for (int piece = 0; piece < cols; piece += PIECE) {
        struct running_softmax state_piece = running_softmax_empty();
        for (int col = piece; col < min(piece + PIECE, cols); col++)
            state_piece = running_softmax_merge(state_piece, running_softmax_of(input[col]));
        state = running_softmax_merge(state, state_piece);
    }

    const float scale = 1.0f / state.l;
    for (int col = 0; col < cols; col++)
        output[col] = expf(input[col] - state.m) * scale;
}

extern "C" cudaError_t softmax_online(const float *input, float *output, int rows, int cols,
                                      cudaStream_t stream)
{
    online<<<ceil_div(rows, THREADS), THREADS, 0, stream>>>(input, output, rows, cols);
    return cudaGetLastError();
}
