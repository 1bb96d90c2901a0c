/*
 * Idea: a BLOCK computes one row, reads it ONCE, and keeps it in registers.
 *
 *     each thread: (m, l) and the e^(x[c] - m) of its own columns; merged over the block to (M, L)
 *     then y[c] = e^(x[c] - m) · (e^(m - M) / L)
 *
 * input and output are [rows, cols], row-major; x and y are one row of them. The exponentials
 * against a thread's own maximum need nobody else's, so they are formed once, and one factor per
 * thread corrects maximum and sum together.
 *
 * LANES threads own a row, VECTORS float4 of it each: a whole block for a long row, 8, 16 or 32
 * lanes of one warp for a short one, and then a block holds several rows and needs no barrier. A
 * row of an odd number of columns begins anywhere, so float4 are read from its 16-byte-aligned
 * middle, and the up to 3 + 3 columns at its two ends one each by the first six threads. Of a row
 * too long for the registers of a block, the excess is read twice, as by the kernel before.
 *
 * Cost: rows·cols·4 bytes of global loads and as many of stores, 16 bytes at a time; rows·cols
 * exponentials; 4·VECTORS registers a thread for the row; one barrier a row where LANES > 32.
 * Beyond 32768 columns 4 bytes and an exponential more for each.
 */
#include "03_step.h"
#include "row_in_registers.cuh"
#include "tiles.cuh"

/* Threads of a block where LANES of them own a row. */
static __host__ __device__ constexpr int block_threads(int LANES)
{
    return LANES > 128 ? LANES : 128;
}

/* EXCESS: whether the row may be longer than LANES · VECTORS float4. */
template <int LANES, int VECTORS, bool EXCESS>
__global__ void __launch_bounds__(block_threads(LANES), 1)
    online_block(const float *__restrict__ input, float *__restrict__ output, int rows, int cols)
{
    static_assert(LANES >= 6, "a row's two ends need six threads");
    const int ROWS = block_threads(LANES) / LANES;
    const int lane = threadIdx.x % LANES;
    const int row = blockIdx.x * ROWS + threadIdx.x / LANES;
    if (row >= rows)
        /* past the end: nothing to load or store, but the shuffles name every lane of the warp */
        cols = 0;
    input += (size_t)row * cols;
    output += (size_t)row * cols;

    const struct row_layout layout = layout_of(input, cols);
    const float4 *middle = (const float4 *)(input + layout.head);
    const int excess = EXCESS ? max(layout.vectors - LANES * VECTORS, 0) : 0;

    /* What the registers will not hold is seen, and forgotten again. */
    struct running_softmax state = running_softmax_empty();
#pragma unroll 4
    for (int vector = lane; vector < excess; vector += LANES) {
        const float4 x = middle[vector];
        const float m = fmaxf(state.m, max4(x));
        const float shift = running_softmax_shift(m);
        state.l = state.l * __expf(state.m - shift) + sum4(exp4(x, shift));
        state.m = m;
    }

    /* The rest is kept: first the numbers, then their exponentials against the maximum of this
     * thread. */
    float4 e[VECTORS];
    load_vectors<LANES>(e, middle, excess + lane, layout.vectors);
    const int end_col = end_column(layout, lane, cols);
    float e_end = end_col >= 0 ? input[end_col] : -INFINITY;
    const struct running_softmax own = exponentials(e, &e_end, state);

    const struct running_softmax whole = merge_row<LANES>(own);
    const float factor = __expf(own.m - whole.m) / whole.l;

    const bool aligned = ((uintptr_t)input - (uintptr_t)output) % sizeof(float4) == 0;
    store_vectors<LANES>(output + layout.head, e, excess + lane, layout.vectors, factor, aligned);
    if (end_col >= 0)
        output[end_col] = e_end * factor;

        /* Backwards: what was read last is the likeliest to be in the caches still. */
#pragma unroll 4
    for (int vector = excess - 1 - lane; vector >= 0; vector -= LANES)
        store4(output + layout.head + 4 * vector, exp4(middle[vector], whole.m), 1.0f / whole.l,
               aligned);
}

template <int LANES, int VECTORS, bool EXCESS>
static cudaError_t launch(const float *input, float *output, int rows, int cols,
                          cudaStream_t stream)
{
    const int threads = block_threads(LANES);
    const int blocks = ceil_div(rows, threads / LANES);
    online_block<LANES, VECTORS, EXCESS><<<blocks, threads, 0, stream>>>(input, output, rows, cols);
    return cudaGetLastError();
}

extern "C" cudaError_t softmax_online_block(const float *input, float *output, int rows, int cols,
                                            cudaStream_t stream)
{
    /* The smallest shape that holds the row: idle threads load nothing, but their registers are
     * taken. */
    const int vectors = cols / 4;
    if (vectors <= 8 * 4)
        return launch<8, 4, false>(input, output, rows, cols, stream);
    if (vectors <= 16 * 4)
        return launch<16, 4, false>(input, output, rows, cols, stream);
    if (vectors <= 32 * 4)
        return launch<32, 4, false>(input, output, rows, cols, stream);
    if (vectors <= 32 * 8)
        return launch<32, 8, false>(input, output, rows, cols, stream);
    if (vectors <= 128 * 4)
        return launch<128, 4, false>(input, output, rows, cols, stream);
    if (vectors <= 256 * 4)
        return launch<256, 4, false>(input, output, rows, cols, stream);
    if (vectors <= 512 * 4)
        return launch<512, 4, false>(input, output, rows, cols, stream);
    if (vectors <= 512 * 8)
        return launch<512, 8, false>(input, output, rows, cols, stream);
    if (vectors <= 1024 * 8)
        return launch<1024, 8, false>(input, output, rows, cols, stream);
    return launch<1024, 8, true>(input, output, rows, cols, stream);
}
