/*
 * Idea: EVERY length of row gets threads and registers that fit it.
 *
 *     each thread: (m, l) and the e^(x[c] - m) of its own columns; merged over the row to (M, L)
 *     then y[c] = e^(x[c] - m) · (e^(m - M) / L)
 *
 * input and output are [rows, cols], row-major; x and y are one row of them. LANES threads own a
 * row, KEPT float4 of it each: a whole block for a long row, 8, 16 or 32 lanes of one warp for a
 * short one, and then a block holds several rows and needs no barrier. Of a row too long for the
 * registers of a block, the excess is read twice.
 *
 * A row of an odd number of columns begins anywhere, so float4 are read from its 16-byte-aligned
 * middle, and the up to 3 + 3 columns at its two ends one each by the first six threads.
 *
 * Cost: rows·cols·4 bytes of global loads and as many of stores, 16 bytes at a time but for the
 * ends; rows·cols exponentials; 4·KEPT registers a thread for the row; a barrier a row where
 * LANES > 32. Beyond 32768 columns 4 bytes and an exponential more for each.
 */
#include "03_online_softmax/03_step.h"
#include "8_online_lanes.h"
#include "03_online_softmax/merge_row.cuh"
#include "row_in_registers.cuh"

/* EXCESS: whether the row may be longer than LANES · KEPT float4. */
template <int LANES, int KEPT, bool EXCESS>
__global__ void __launch_bounds__(BLOCK_THREADS(LANES), 1)
    online_lanes(const float *__restrict__ input, float *__restrict__ output, int rows, int cols)
{
    static_assert(LANES >= 6, "a row's two ends need six threads");
    const int ROWS = BLOCK_THREADS(LANES) / LANES;
    const int lane = threadIdx.x % LANES;
    const int row = blockIdx.x * ROWS + threadIdx.x / LANES;
    if (row >= rows)
        /* past the end: nothing to load or store, but the shuffles name every lane of the warp */
        cols = 0;
    input += (size_t)row * cols;
    output += (size_t)row * cols;

    const int head = head_of(input, cols), vectors = (cols - head) / 4;
    const float4 *middle = (const float4 *)(input + head);
    const int excess = EXCESS ? max(vectors - LANES * KEPT, 0) : 0;
    const int first = excess + lane, end = vectors;

    /* What the registers will not hold is seen, and forgotten again. */
    struct running_softmax state = running_softmax_empty();
#pragma unroll 4
    for (int vector = lane; vector < excess; vector += LANES) {
        const float4 x = middle[vector];
        const float m = fmaxf(state.m, fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w)));
        const float shift = running_softmax_shift(m);
        const float4 e = exp4(x, shift);
        state.l = state.l * __expf(state.m - shift) + ((e.x + e.y) + (e.z + e.w));
        state.m = m;
    }

    float4 e[KEPT];
    load_kept<LANES>(e, middle, first, end);
    const int end_col = end_column(head, lane, cols);
    float e_end = end_col >= 0 ? input[end_col] : -CUDART_INF_F;
    const struct running_softmax own = exponentials(e, &e_end, state);

    const struct running_softmax whole =
        LANES <= WARP ? merge_lanes<LANES>(own) : merge_row<LANES>(own);
    const float factor = __expf(own.m - whole.m) / whole.l;

    const bool aligned = ((uintptr_t)input - (uintptr_t)output) % sizeof(float4) == 0;
    store_kept<LANES>(output + head, e, first, end, factor, aligned);
    if (end_col >= 0)
        output[end_col] = e_end * factor;

#pragma unroll 4
    for (int vector = excess - 1 - lane; vector >= 0; vector -= LANES)
        /* The loop runs backwards: what was read last is likeliest to be in the caches still. */
        store4(output + head + 4 * vector, exp4(middle[vector], whole.m), 1.0f / whole.l, aligned);
}

template <int LANES, int KEPT, bool EXCESS>
static cudaError_t launch(const float *input, float *output, int rows, int cols,
                          cudaStream_t stream)
{
    const struct row_shape shape = row_shape_of(rows, cols);
    online_lanes<LANES, KEPT, EXCESS>
        <<<shape.blocks, shape.threads, 0, stream>>>(input, output, rows, cols);
    return cudaGetLastError();
}

#define LAUNCH(COLS, LANES, KEPT, EXCESS) launch<LANES, KEPT, EXCESS>

extern "C" cudaError_t softmax_online_lanes(const float *input, float *output, int rows, int cols,
                                            cudaStream_t stream)
{
    static softmax_fn *const launch_shape[] = {ROW_SHAPES(LAUNCH)};
    return launch_shape[row_shape_of(rows, cols).number](input, output, rows, cols, stream);
}
