/*
 * One warp multiplies small matrices whose rows lie as they do in global memory. Lanes stand as in
 * rectangles.cuh, in 4 rows (y) of 8 (x), but a thread's rows are y, y + 4, ... and the rows of B
 * that make its columns x, x + 8, ...: at a pitch of 4 banks, lanes that read 16 bytes of
 * neighbouring rows meet no bank twice.
 */
#ifndef ROW_PRODUCTS_CUH
#define ROW_PRODUCTS_CUH

#include "device/rectangles.cuh"

static inline __device__ float element_of(float4 four, int i)
{
    return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

/* C[row][col] += sum over k < depth of A[row][k] * B[col][k]: four k at a time. */
template <int TM, int TN, int PITCH>
static inline __device__ void multiply_rows(float C[TM][TN], const float *A, const float *B,
                                            int depth)
{
#pragma unroll 2
    for (int k = 0; k < depth; k += 4) {
        float4 a[TM], b[TN];
#pragma unroll
        for (int row = 0; row < TM; row++)
            a[row] = *(const float4 *)&A[(lane_y() + LANES_DOWN * row) * PITCH + k];
#pragma unroll
        for (int col = 0; col < TN; col++)
            b[col] = *(const float4 *)&B[(lane_x() + LANES_ACROSS * col) * PITCH + k];
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int row = 0; row < TM; row++)
#pragma unroll
                for (int step = 0; step < TN; step++) {
                    const int col = row % 2 == 0 ? step : TN - 1 - step;
                    C[row][col] += element_of(a[row], i) * element_of(b[col], i);
                }
    }
}

/* C[row][col] += sum over k < depth of A[row][k] * B[k][col]; columns form runs, as in
 * rectangles.cuh. */
template <int TM, int TN, int PITCH_A, int PITCH_B>
static inline __device__ void multiply_row_column(float C[TM][TN], const float *A, const float *B,
                                                  int depth)
{
#pragma unroll 2
    for (int k = 0; k < depth; k += 4) {
        float4 a[TM];
#pragma unroll
        for (int row = 0; row < TM; row++)
            a[row] = *(const float4 *)&A[(lane_y() + LANES_DOWN * row) * PITCH_A + k];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            __align__(16) float b[TN];
            read_spread<TN>(b, &B[(k + i) * PITCH_B], lane_x(), LANES_ACROSS);
#pragma unroll
            for (int row = 0; row < TM; row++)
#pragma unroll
                for (int step = 0; step < TN; step++) {
                    const int col = row % 2 == 0 ? step : TN - 1 - step;
                    C[row][col] += element_of(a[row], i) * b[col];
                }
        }
    }
}

#endif
