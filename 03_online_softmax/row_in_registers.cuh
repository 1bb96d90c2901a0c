/*
 * A row that the registers of its threads hold: how they load it, form its exponentials, merge
 * their states and store it. For rows that begin anywhere: float4 where 16 bytes are aligned,
 * single columns at the ends.
 */
#ifndef ROW_IN_REGISTERS_CUH
#define ROW_IN_REGISTERS_CUH

#include "running_softmax.cuh"

#include <stdint.h>

static const int WARP = 32;
static const unsigned ALL_LANES = 0xffffffffu;

/* How a row lies in memory: columns 0 .. head - 1, then `vectors` aligned float4, then columns tail
 * .. cols
 * - 1. */
struct row_layout {
    int head, vectors, tail;
};

static __device__ struct row_layout layout_of(const float *row, int cols)
{
    const int floats_to_alignment = (4 - (uintptr_t)row / sizeof(float) % 4) % 4;
    struct row_layout layout;
    layout.head = min(floats_to_alignment, cols);
    layout.vectors = (cols - layout.head) / 4;
    layout.tail = layout.head + 4 * layout.vectors;
    return layout;
}

/* The column that thread `lane` takes from the row's ends, -1 for none: three threads for each
 * end. */
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

/* A thread's float4 of a row: `first`, first + LANES, ... as far as they lie before `end`;
 * elsewhere -inf. */
template <int LANES, int VECTORS>
static __device__ void load_vectors(float4 (&e)[VECTORS], const float4 *row, int first, int end)
{
    for (int i = 0; i < VECTORS; i++) {
        const int vector = first + i * LANES;
        e[i] = vector < end ? row[vector] : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
    }
}

template <int LANES, int VECTORS>
static __device__ void store_vectors(float *row, const float4 (&e)[VECTORS], int first, int end,
                                     float factor, bool aligned)
{
    for (int i = 0; i < VECTORS; i++) {
        const int vector = first + i * LANES;
        if (vector < end)
            store4(row + 4 * vector, e[i], factor, aligned);
    }
}

/*
 * Puts the exponentials in the place of the numbers, against the maximum of all that this thread
 * has seen: them, and what came before them. Returns its state.
 */
template <int VECTORS>
static __device__ struct running_softmax exponentials(float4 (&e)[VECTORS], float *e_end,
                                                      struct running_softmax before)
{
    float m = fmaxf(before.m, *e_end);
    for (int i = 0; i < VECTORS; i++)
        m = fmaxf(m, max4(e[i]));

    const float shift = running_softmax_shift(m);
    *e_end = __expf(*e_end - shift);
    float l = before.l * __expf(before.m - shift) + *e_end;
    for (int i = 0; i < VECTORS; i++) {
        e[i] = exp4(e[i], shift);
        l += sum4(e[i]);
    }
    const struct running_softmax state = {m, l};
    return state;
}

/*
 * The merged state of each group of LANES lanes, the same in all of them to the last bit: a maximum
 * and a plain sum commute exactly, so a butterfly serves.
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

/* The merged state of the LANES threads that own a row. Called once a launch: its shared cells are
 * not reused. */
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

#endif
