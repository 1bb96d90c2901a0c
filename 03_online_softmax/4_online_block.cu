/*
 * Idea: a BLOCK computes one row, reads it ONCE, and keeps it in registers.
 *
 *     each thread: (m, l) and the e^(x[c] - m) of its own columns; merged over the block to (M, L)
 *     then y[c] = e^(x[c] - m) · (e^(m - M) / L)
 *
 * input and output are [rows, cols], row-major; x and y are one row of them. The exponentials against a
 * thread's own maximum need nobody else's, so they are formed once, and one factor per thread corrects
 * maximum and sum together.
 *
 * LANES threads own a row, VECTORS float4 of it each: a whole block for a long row, 8, 16 or 32 lanes of one
 * warp for a short one, and then a block holds several rows and needs no barrier. A row of an odd number of
 * columns begins anywhere, so float4 are read from its 16-byte-aligned middle, and the up to 3 + 3 columns at
 * its two ends one each by the first six threads. Of a row too long for the registers of a block, the excess
 * is read twice, as by the kernel before.
 *
 * Cost: rows·cols·4 bytes of global loads and as many of stores, 16 bytes at a time; rows·cols exponentials;
 * 4·VECTORS registers a thread for the row; one barrier a row where LANES > 32. Beyond 32768 columns 4 bytes
 * and an exponential more for each.
 */
#include "03_step.h"
#include "running_softmax.cuh"
#include "tiles.cuh"

#include <stdint.h>

static const int WARP = 32;
static const unsigned ALL_LANES = 0xffffffffu;

/* Threads of a block where LANES of them own a row. */
static __host__ __device__ constexpr int block_threads(int LANES)
{
    return LANES > 128 ? LANES : 128;
}

/* How a row lies in memory: columns 0 .. head - 1, then `vectors` aligned float4, then columns tail .. cols
 * - 1. */
struct row_layout {
    int head, vectors, tail;
};

/* solution: helpers of your own go here. */

static __device__ struct row_layout layout_of(const float *row, int cols)
{
    const int floats_to_alignment = (4 - (uintptr_t)row / sizeof(float) % 4) % 4;
    struct row_layout layout;
    layout.head = min(floats_to_alignment, cols);
    layout.vectors = (cols - layout.head) / 4;
    layout.tail = layout.head + 4 * layout.vectors;
    return layout;
}

/* The column that thread `lane` takes from the row's ends, -1 for none: three threads for each end. */
static __device__ int end_column(struct row_layout layout, int lane, int cols)
{
    if (lane < 3)
        return lane < layout.head ? lane : -1;
    return lane - 3 < cols - layout.tail ? layout.tail + lane - 3 : -1;
}

static __device__ float max4(float4 x)
{
    return fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w));
}

static __device__ float sum4(float4 x)
{
    return (x.x + x.y) + (x.z + x.w);
}

static __device__ float4 exp4(float4 x, float shift)
{
    return make_float4(__expf(x.x - shift), __expf(x.y - shift), __expf(x.z - shift), __expf(x.w - shift));
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

/*
 * The merged state of each group of LANES lanes, the same in all of them to the last bit: a maximum and a
 * plain sum commute exactly, so a butterfly serves.
 */
template <int LANES>
static __device__ struct running_softmax merge_lanes(struct running_softmax state)
{
    float m = state.m;
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        m = fmaxf(m, __shfl_xor_sync(ALL_LANES, m, distance));
    float l = state.l * __expf(state.m - running_softmax_shift(m));
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        l += __shfl_xor_sync(ALL_LANES, l, distance);
    const struct running_softmax merged = {m, l};
    return merged;
}

/* The merged state of the LANES threads that own a row. Called once a launch: its shared cells are not
 * reused. */
template <int LANES>
static __device__ struct running_softmax merge_row(struct running_softmax state)
{
    if constexpr (LANES <= WARP) {
        return merge_lanes<LANES>(state);
    } else {
        __shared__ struct running_softmax of_warp[WARP];
        const int lane = threadIdx.x % WARP;
        state = merge_lanes<WARP>(state);
        if (lane == 0)
            of_warp[threadIdx.x / WARP] = state;
        __syncthreads(); /* every warp's state is in shared memory before any warp reads them all */
        return merge_lanes<WARP>(lane < LANES / WARP ? of_warp[lane] : running_softmax_empty());
    }
}

/* end of solution */

/* EXCESS: whether the row may be longer than LANES · VECTORS float4. */
template <int LANES, int VECTORS, bool EXCESS>
__global__ void __launch_bounds__(block_threads(LANES), 1)
    online_block(const float *__restrict__ input, float *__restrict__ output, int rows, int cols)
{
    /* solution: read the row once, keep it in registers, merge over the block, write it once. */
    static_assert(LANES >= 6, "a row's two ends need six threads");
    const int ROWS = block_threads(LANES) / LANES;
    const int lane = threadIdx.x % LANES;
    const int row = blockIdx.x * ROWS + threadIdx.x / LANES;
    if (row >= rows)
        cols = 0; /* past the end: nothing to load or store, but the shuffles name every lane of the warp */
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

    /* The rest is kept: first the numbers, then their exponentials against the maximum of this thread. */
    float4 e[VECTORS];
    for (int i = 0; i < VECTORS; i++) {
        const int vector = excess + lane + i * LANES;
        e[i] = vector < layout.vectors ? middle[vector]
                                       : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
    }
    const int end_col = end_column(layout, lane, cols);
    float e_end = end_col >= 0 ? input[end_col] : -INFINITY;

    float m = fmaxf(state.m, e_end);
    for (int i = 0; i < VECTORS; i++)
        m = fmaxf(m, max4(e[i]));

    const float shift = running_softmax_shift(m);
    e_end = __expf(e_end - shift);
    float l = state.l * __expf(state.m - shift) + e_end;
    for (int i = 0; i < VECTORS; i++) {
        e[i] = exp4(e[i], shift);
        l += sum4(e[i]);
    }
    state.m = m;
    state.l = l;

    const struct running_softmax whole = merge_row<LANES>(state);
    const float factor = __expf(m - whole.m) / whole.l;

    const bool aligned = ((uintptr_t)input - (uintptr_t)output) % sizeof(float4) == 0;
    for (int i = 0; i < VECTORS; i++) {
        const int vector = excess + lane + i * LANES;
        if (vector < layout.vectors)
            store4(output + layout.head + 4 * vector, e[i], factor, aligned);
    }
    if (end_col >= 0)
        output[end_col] = e_end * factor;

        /* Backwards: what was read last is the likeliest to be in the caches still. */
#pragma unroll 4
    for (int vector = excess - 1 - lane; vector >= 0; vector -= LANES)
        store4(output + layout.head + 4 * vector, exp4(middle[vector], whole.m), 1.0f / whole.l, aligned);
    /* end of solution */
}

template <int LANES, int VECTORS, bool EXCESS>
static cudaError_t launch(const float *input, float *output, int rows, int cols, cudaStream_t stream)
{
    const int threads = block_threads(LANES);
    const int blocks = ceil_div(rows, threads / LANES);
    online_block<LANES, VECTORS, EXCESS><<<blocks, threads, 0, stream>>>(input, output, rows, cols);
    return cudaGetLastError();
}

extern "C" cudaError_t softmax_online_block(const float *input, float *output, int rows, int cols,
                                            cudaStream_t stream)
{
    cudaError_t status = softmax_check_arguments(input, output, rows, cols);
    if (status != cudaSuccess || rows == 0 || cols == 0)
        return status;

    /* The smallest shape that holds the row: idle threads load nothing, but their registers are taken. */
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
