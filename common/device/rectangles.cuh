/*
 * One warp multiplies small matrices, from shared memory into registers. Each thread owns a
 * rectangle of the product and reads its operands 16 bytes at a time.
 *
 *     C[row][col] += sum over k of A[k][row] * B[k][col]
 *
 * The lanes of a warp form 4 rows (y) of 8 (x). A thread owns runs of four neighbouring rows: 4y ..
 * 4y + 3, the same 16 rows further down, and so on. Its columns form runs in the same way, 32
 * apart.
 */
#ifndef COMMON_RECTANGLES_CUH
#define COMMON_RECTANGLES_CUH

#include "warp.cuh"

static const int LANES_DOWN = 4, LANES_ACROSS = 8;

/*
 * Returns this lane's place: bits 0, 2 and 3 of its number make x, bits 1 and 4 make y. A lane
 * shares its row with lane ^ 1 and its column with lane ^ 2. Shared memory serves a 16-byte read in
 * half the cycles when lanes paired in this way read the same address.
 */
static inline __device__ int lane_x(void)
{
    const int lane = threadIdx.x % WARP;
    return (lane & 1) | (lane >> 1 & 6);
}

static inline __device__ int lane_y(void)
{
    const int lane = threadIdx.x % WARP;
    return (lane >> 1 & 1) | (lane >> 3 & 2);
}

/* Returns the largest value, or the sum, over the 8 lanes with this lane's y. All 8 get the same
 * bits. */
static inline __device__ float max_over_x(float value)
{
    value = fmaxf(value, __shfl_xor_sync(FULL_MASK, value, 1));
    value = fmaxf(value, __shfl_xor_sync(FULL_MASK, value, 4));
    return fmaxf(value, __shfl_xor_sync(FULL_MASK, value, 8));
}

static inline __device__ float sum_over_x(float value)
{
    value += __shfl_xor_sync(FULL_MASK, value, 1);
    value += __shfl_xor_sync(FULL_MASK, value, 4);
    return value + __shfl_xor_sync(FULL_MASK, value, 8);
}

/* Returns the length of a thread's runs along a side of which it owns `count`: four, or two if
 * `count` is not a multiple of four. */
static inline constexpr __host__ __device__ int run_of(int count)
{
    return count % 4 == 0 ? 4 : 2;
}

/* Returns the row (or column) that is the i-th of `count` for the thread at place `lane` of
 * `lanes`. */
static inline constexpr __host__ __device__ int spread(int i, int count, int lane, int lanes)
{
    return i / run_of(count) * run_of(count) * lanes + run_of(count) * lane + i % run_of(count);
}

/* Reads or writes the thread's COUNT elements of a row. Runs are aligned to their size. */
template <int COUNT>
static inline __device__ void read_spread(float to[COUNT], const float *from, int lane, int lanes)
{
#pragma unroll
    for (int i = 0; i < COUNT; i += run_of(COUNT)) {
        const float *run = &from[spread(i, COUNT, lane, lanes)];
        if constexpr (run_of(COUNT) == 2)
            *(float2 *)&to[i] = *(const float2 *)run;
        else
            *(float4 *)&to[i] = *(const float4 *)run;
    }
}

template <int COUNT>
static inline __device__ void write_spread(float *to, const float from[COUNT], int lane, int lanes)
{
#pragma unroll
    for (int i = 0; i < COUNT; i += run_of(COUNT)) {
        float *run = &to[spread(i, COUNT, lane, lanes)];
        if constexpr (run_of(COUNT) == 2)
            *(float2 *)run = make_float2(from[i], from[i + 1]);
        else
            *(float4 *)run = make_float4(from[i], from[i + 1], from[i + 2], from[i + 3]);
    }
}

/*
 * Adds to the thread's TM x TN rectangle the product of rows k = 0 .. depth - 1 of A, at the pitch
 * PITCH_A, and of B. TM and TN are even. A and B are in shared memory, aligned to 16 bytes; pitches
 * are multiples of TM's run and of TN's.
 */
template <int TM, int TN, int PITCH_A, int PITCH_B>
static inline __device__ void multiply_add(float C[TM][TN], const float *A, const float *B,
                                           int depth)
{
    constexpr int run = run_of(TN);
#pragma unroll 8
    for (int k = 0; k < depth; k++) {
        __align__(16) float a[TM], b[TN];
        read_spread<TM>(a, &A[k * PITCH_A], lane_y(), LANES_DOWN);
        read_spread<TN>(b, &B[k * PITCH_B], lane_x(), LANES_ACROSS);
        /* It takes a run of columns at a time, and odd rows backwards: each product shares an
         * operand with the one before. */
#pragma unroll
        for (int col0 = 0; col0 < TN; col0 += run)
#pragma unroll
            for (int row = 0; row < TM; row++)
#pragma unroll
                for (int step = 0; step < run; step++) {
                    const int col = col0 + (row % 2 == 0 ? step : run - 1 - step);
                    C[row][col] += a[row] * b[col];
                }
    }
}

#endif
