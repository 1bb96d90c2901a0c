/*
 * What every kernel of this ladder but the last does first, in a launch of its own: D =
 * rowsum(dO∘O), and zeros for what dQ will be added to. It is one launch because both only wait for
 * memory.
 */
#ifndef HALF_ROW_DOTS_CUH
#define HALF_ROW_DOTS_CUH

#include "06_causal_half/score_rows.cuh"

static const int ROW_DOTS_THREADS = 128;

/* Eight neighbouring elements as floats. */
template <typename T>
static __device__ __forceinline__ void load_eight(float (&x)[8], const T *from)
{
    const uint4 eight = *(const uint4 *)from;
    const T *element = (const T *)&eight;
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] = (float)element[i];
}

/* LANES neighbours have a row of dO and of O, each of them eight features. Each thread has eight of
 * the sums, of which there are `eights` times eight. */
template <int LANES, typename T>
__global__ void backward_row_dots(const T *dO, const T *O, float *D, float *sums, size_t eights,
                                  int head_dim, size_t rows)
{
    const size_t thread = (size_t)blockIdx.x * ROW_DOTS_THREADS + threadIdx.x, row = thread / LANES;
    const int col = threadIdx.x % LANES * 8;
    if (thread < eights) {
        float4 *const own = (float4 *)sums + 2 * thread;
        own[0] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        own[1] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    float sum = 0.0f;
    if (row < rows && col < head_dim) {
        float a[8], b[8];
        load_eight(a, dO + row * head_dim + col);
        load_eight(b, O + row * head_dim + col);
        for (int i = 0; i < 8; i++)
            sum += a[i] * b[i];
    }
    sum = warp_sum(sum, LANES);
    if (row < rows && col == 0)
        D[row] = sum;
}

template <int LANES, typename T>
static inline void launch_row_dots_of(const struct attention_backward *call, float *D, float *sums,
                                      size_t eights)
{
    const size_t rows = attention_backward_query_rows(call);
    const size_t threads = rows * LANES > eights ? rows * LANES : eights;
    const unsigned blocks = (threads + ROW_DOTS_THREADS - 1) / ROW_DOTS_THREADS;
    backward_row_dots<LANES><<<blocks, ROW_DOTS_THREADS, 0, call->stream>>>(
        (const T *)call->dO, (const T *)call->O, D, sums, eights, call->head_dim, rows);
}

/* Launches it for all rows of a call, and for `count` sums, a multiple of eight. */
template <typename T>
static inline void launch_row_dots(const struct attention_backward *call, float *D, float *sums,
                                   size_t count)
{
    if (call->head_dim <= 64)
        launch_row_dots_of<8, T>(call, D, sums, count / 8);
    else
        launch_row_dots_of<16, T>(call, D, sums, count / 8);
}

#endif
