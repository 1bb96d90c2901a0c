/*
 * What a warp does with its 16 rows, from mma on: products, softmax on scores that stay where the
 * tensor cores left them, and O from there to memory.
 *
 * T is the element type of Q, K, V and O: __half or __nv_bfloat16. Both are two bytes, so tiles,
 * copies and layouts are the same; the products and the rounding of a float differ.
 *
 * An accumulator x of 16 rows and COLS columns is x[COLS / 2] per lane. With g = lane / 4 and t =
 * lane % 4 element i is
 *
 *     row g + 8 · r, column 8 · (i / 4) + 2 · t + i % 2          r = (i / 2) % 2
 *
 * as mma_m16n8k16 and wgmma make it (ptx.cuh). So a lane has elements of two rows, r = 0 and 1, and
 * four neighbouring lanes share both. Scores are unscaled: scale_log2 = scale · log2 e is
 * multiplied inside the exponent, where it costs nothing: 2^(s · scale_log2 - shift) is one
 * multiply-add and one exponential.
 */
#ifndef SCORE_ROWS_CUH
#define SCORE_ROWS_CUH

#include "half_problem.cuh"
#include <ptx.cuh>
#include "device/warp.cuh"

/* Two elements in a register, the first in the lower half. */
template <typename T>
static __device__ __forceinline__ uint32_t pack_pair(float low, float high)
{
    if constexpr (is_bfloat16<T>) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return *(const uint32_t *)&pair;
    } else {
        const __half2 pair = __floats2half2_rn(low, high);
        return *(const uint32_t *)&pair;
    }
}

/* d += A · B, all 16 x 16, B as one ldmatrix_x4 brings it: two right factors side by side. */
template <typename T>
static __device__ __forceinline__ void mma_m16n16k16(float d[8], const uint32_t a[4],
                                                     const uint32_t b[4])
{
    mma_m16n8k16<T>(&d[0], a, &b[0]);
    mma_m16n8k16<T>(&d[4], a, &b[2]);
}

/* The lanes that share a row. */
static const int ROW_LANES = 4;

/* How many keys the lane's two rows see. first_row is the warp's first. */
template <bool CAUSAL>
static __device__ __forceinline__ void find_visible(int (&visible)[2], int first_row, int seq_q,
                                                    int seq_kv)
{
    const int row = first_row + threadIdx.x % WARP / ROW_LANES;
    for (int r = 0; r < 2; r++)
        visible[r] = visible_keys<CAUSAL>(row + 8 * r, seq_q, seq_kv);
}

/* Masks the keys that the lane's rows do not see. first_key is that of column 0; row r sees keys
 * below visible[r]. */
template <int COUNT>
static __device__ __forceinline__ void mask_scores(float (&S)[COUNT], int first_key,
                                                   const int (&visible)[2])
{
    const int lane_key = first_key + threadIdx.x % ROW_LANES * 2;
    /* that stay, counted from the lane's first */
    const int columns[2] = {visible[0] - lane_key, visible[1] - lane_key};
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        if (8 * (i / 4) + i % 2 >= columns[i / 2 % 2])
            S[i] = -CUDART_INF_F;
}

/* The lane's largest scores of row r: even columns' in chain[2r], odd ones' in chain[2r + 1]. */
template <int COUNT>
static __device__ __forceinline__ void start_maximum(const float (&S)[COUNT], float (&chain)[4])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        chain[i % 4] = i < 4 ? S[i] : fmaxf(chain[i % 4], S[i]);
}

/*
 * One step of the online softmax, online_softmax() below, in two halves: some rungs have something
 * to do in between. S becomes P = 2^(S · scale_log2 - shift), m the maximum so far
 * (of unscaled scores), l this lane's part of the row's sum so far, and rescale the factor for what
 * was summed before.
 *
 * Both rows go side by side, each in two chains for even and odd columns: a single chain of maxima
 * or sums would spend its time waiting for itself.
 */
template <int COUNT>
static __device__ __forceinline__ void new_maximum(const float (&S)[COUNT], float (&m)[2],
                                                   float (&shift)[2], float (&rescale)[2],
                                                   float scale_log2)
{
    float chain[4];
    start_maximum(S, chain);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const float m_new = fmaxf(m[r], warp_max(fmaxf(chain[2 * r], chain[2 * r + 1]), ROW_LANES));
        shift[r] = shift_of(m_new * scale_log2);
        rescale[r] = exp2_approximate(m[r] * scale_log2 - shift[r]);
        m[r] = m_new;
    }
}

template <int COUNT>
static __device__ __forceinline__ void exponentials(float (&S)[COUNT], float (&l)[2],
                                                    const float (&shift)[2],
                                                    const float (&rescale)[2], float scale_log2)
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        S[i] = exp2_approximate(S[i] * scale_log2 - shift[i / 2 % 2]);
    float chain[4] = {S[0], S[1], S[2], S[3]};
#pragma unroll
    for (int i = 4; i < COUNT; i++)
        chain[i % 4] += S[i];
#pragma unroll
    for (int r = 0; r < 2; r++)
        l[r] = l[r] * rescale[r] + (chain[2 * r] + chain[2 * r + 1]);
}

template <int COUNT>
static __device__ __forceinline__ void online_softmax(float (&S)[COUNT], float (&m)[2],
                                                      float (&l)[2], float (&rescale)[2],
                                                      float scale_log2)
{
    float shift[2];
    new_maximum(S, m, shift, rescale, scale_log2);
    exponentials(S, l, shift, rescale, scale_log2);
}

template <int COUNT>
static __device__ __forceinline__ void scale_rows(float (&x)[COUNT], const float (&factor)[2])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        x[i] *= factor[i / 2 % 2];
}

/* x as elements. Registers 4k .. 4k + 3 are the left factor of 16 columns, 16k .. 16k + 15: no lane
 * needs another's. */
template <typename T, int COUNT>
static __device__ __forceinline__ void pack_rows(uint32_t (&packed)[COUNT / 2],
                                                 const float (&x)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT / 2; i++)
        packed[i] = pack_pair<T>(x[2 * i], x[2 * i + 1]);
}

/*
 * Ends the rows: completes l, divides O by it and stores LSE (unless null) of those of the warp's
 * rows that lie inside of the sequence. first_row is the warp's first, LSE that of the head.
 */
template <int COUNT>
static __device__ __forceinline__ void finish_rows(float (&O)[COUNT], const float (&m)[2],
                                                   const float (&l)[2], float *LSE, int first_row,
                                                   int seq_q, float scale_log2)
{
    float inverse[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const float sum = warp_sum(l[r], ROW_LANES), largest = m[r] * scale_log2;
        const int row = first_row + threadIdx.x % WARP / ROW_LANES + 8 * r;
        /* no key, or no score above -inf: 0 */
        const bool empty = sum == 0.0f && largest == -CUDART_INF_F;
        inverse[r] = empty ? 0.0f : __fdividef(1.0f, sum);
        if (LSE != NULL && threadIdx.x % ROW_LANES == 0 && row >= 0 && row < seq_q)
            LSE[row] = (largest + __log2f(sum)) * LN_2;
    }
    scale_rows(O, inverse);
}

/* Stores the warp's rows, packed by pack_rows(), two elements at a time. O is [seq_q, head_dim];
 * its columns begin with first_col. */
template <typename T, int COUNT>
static __device__ __forceinline__ void store_rows(T *O, const uint32_t (&packed)[COUNT],
                                                  int first_row, int seq_q, int head_dim,
                                                  int first_col = 0)
{
    O += first_col;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const int row = first_row + threadIdx.x % WARP / ROW_LANES + 8 * (i % 2);
        const int col = 8 * (i / 2) + threadIdx.x % ROW_LANES * 2;
        if (row >= 0 && row < seq_q && first_col + col < head_dim)
            *(uint32_t *)&O[(size_t)row * head_dim + col] = packed[i];
    }
}

#endif
