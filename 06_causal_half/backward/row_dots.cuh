/* D = rowsum(dO∘O), which every kernel of this ladder computes first, in a launch of its own. */
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

/* LANES neighbours have a row of dO and of O, each of them eight features. */
template <int LANES, typename T>
__global__ void backward_row_dots(const T *dO, const T *O, float *D, int head_dim, int rows)
{
    const int row = (blockIdx.x * ROW_DOTS_THREADS + threadIdx.x) / LANES;
    const int col = threadIdx.x % LANES * 8;
    float sum = 0.0f;
    if (row < rows && col < head_dim) {
        float a[8], b[8];
        load_eight(a, dO + (size_t)row * head_dim + col);
        load_eight(b, O + (size_t)row * head_dim + col);
        for (int i = 0; i < 8; i++)
            sum += a[i] * b[i];
    }
    sum = warp_sum(sum, LANES);
    if (row < rows && col == 0)
        D[row] = sum;
}

template <int LANES, typename T>
static inline void launch_row_dots_of(const struct attention_backward *call, float *D)
{
    const int rows = (int)attention_backward_query_rows(call);
    const int blocks = ceil_div(rows, ROW_DOTS_THREADS / LANES);
    backward_row_dots<LANES><<<blocks, ROW_DOTS_THREADS, 0, call->stream>>>(
        (const T *)call->dO, (const T *)call->O, D, call->head_dim, rows);
}

/* Launches it for all rows of a call. */
template <typename T>
static inline void launch_row_dots(const struct attention_backward *call, float *D)
{
    if (call->head_dim <= 64)
        launch_row_dots_of<8, T>(call, D);
    else
        launch_row_dots_of<16, T>(call, D);
}

#endif
