/*
 * A row that the registers of its threads hold: how they load it, form its exponentials and store
 * it. For rows that begin anywhere: float4 where 16 bytes are aligned, single columns at the ends.
 */
#ifndef ROW_IN_REGISTERS_CUH
#define ROW_IN_REGISTERS_CUH

#include "03_online_softmax/running_softmax.cuh"

#include <math_constants.h>
#include <stdint.h>

/* How many columns lie before the first multiple of 16 bytes in a row. */
static __device__ int head_of(const float *row, int cols)
{
    const int floats_to_alignment = (4 - (uintptr_t)row / sizeof(float) % 4) % 4;
    return min(floats_to_alignment, cols);
}

/* The column that thread `lane` takes from the row's ends, -1 for none: three threads an end. */
static __device__ int end_column(int head, int lane, int cols)
{
    const int tail = head + (cols - head) / 4 * 4;
    if (lane < 3)
        return lane < head ? lane : -1;
    return lane - 3 < cols - tail ? tail + lane - 3 : -1;
}

static __device__ float4 exp4(float4 x, float shift)
{
    return make_float4(__expf(x.x - shift), __expf(x.y - shift), __expf(x.z - shift),
                       __expf(x.w - shift));
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

/* A thread's part of a row: elements `first`, first + LANES, ... before `end`, and -inf past it. */
template <int LANES, int KEPT>
static __device__ void load_kept(float4 (&e)[KEPT], const float4 *row, int first, int end)
{
    const float4 nothing = {-CUDART_INF_F, -CUDART_INF_F, -CUDART_INF_F, -CUDART_INF_F};
    for (int i = 0; i < KEPT; i++) {
        const int at = first + i * LANES;
        e[i] = at < end ? row[at] : nothing;
    }
}

template <int LANES, int KEPT>
static __device__ void store_kept(float *row, const float4 (&e)[KEPT], int first, int end,
                                  float factor, bool aligned)
{
    for (int i = 0; i < KEPT; i++) {
        const int at = first + i * LANES;
        if (at < end)
            store4(row + 4 * at, e[i], factor, aligned);
    }
}

/*
 * Puts the exponentials in the place of the numbers, against the maximum of all that this thread
 * has seen: them, and what came before them. Returns its state.
 */
template <int KEPT>
static __device__ struct running_softmax exponentials(float4 (&e)[KEPT], float *e_end,
                                                      struct running_softmax before)
{
    float m = fmaxf(before.m, *e_end);
    for (int i = 0; i < KEPT; i++)
        m = fmaxf(m, fmaxf(fmaxf(e[i].x, e[i].y), fmaxf(e[i].z, e[i].w)));

    const float shift = running_softmax_shift(m);
    *e_end = __expf(*e_end - shift);
    float l = before.l * __expf(before.m - shift) + *e_end;
    for (int i = 0; i < KEPT; i++) {
        e[i] = exp4(e[i], shift);
        l += (e[i].x + e[i].y) + (e[i].z + e[i].w);
    }
    const struct running_softmax state = {m, l};
    return state;
}

#endif
