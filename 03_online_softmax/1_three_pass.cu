/*
 * Idea: one thread computes one row, and sweeps over it three times.
 *
 *     m = max over c of x[c]      l = sum over c of e^(x[c] - m)      y[c] = e^(x[c] - m) / l
 *
 * input and output are [rows, cols], row-major; x and y are one row of them. Subtracting m ("safe
 * softmax") changes nothing in exact arithmetic and keeps every exponent at or below 0, so that no
 * exponential overflows. Each sweep needs the result of the one before: m must be complete before
 * the first term of l can be formed, and l before y.
 *
 * A block owns 128 rows, a thread one. A warp's lanes are cols floats apart: 32 sectors a request.
 *
 * Cost: 3·rows·cols global loads of 4 bytes, rows·cols stores, 2·rows·cols exponentials.
 */
#include "03_step.h"
#include "device/tiles.cuh"

#include <math_constants.h>

static const int THREADS = 128;
/* A large sum rounds small terms away one by one, so 256 at a time are added up first. */
static const int PIECE = 256;

__global__ void three_pass(const float *input, float *output, int rows, int cols)
{
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows)
        return;
    input += (size_t)row * cols;
    output += (size_t)row * cols;

    float m = -CUDART_INF_F;
    for (int col = 0; col < cols; col++)
        m = fmaxf(m, input[col]);

    float l = 0.0f;
    for (int piece = 0; piece < cols; piece += PIECE) {
        float l_piece = 0.0f;
        for (int col = piece; col < min(piece + PIECE, cols); col++)
            l_piece += expf(input[col] - m);
        l += l_piece;
    }

    const float scale = 1.0f / l;
    for (int col = 0; col < cols; col++)
        output[col] = expf(input[col] - m) * scale;
}

extern "C" cudaError_t softmax_three_pass(const float *input, float *output, int rows, int cols,
                                          cudaStream_t stream)
{
    three_pass<<<ceil_div(rows, THREADS), THREADS, 0, stream>>>(input, output, rows, cols);
    return cudaGetLastError();
}
