/* Kernels access four neighbouring elements of a matrix at a time, at every size and alignment. */
#ifndef COMMON_VECTORS_CUH
#define COMMON_VECTORS_CUH

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

/* Returns whether every row of a matrix `cols` wide begins at a multiple of 16 bytes, as float4
 * accesses need. */
static inline bool rows_aligned(const float *matrix, int cols)
{
    return (uintptr_t)matrix % sizeof(float4) == 0 && cols % 4 == 0;
}

/*
 * Loads columns col .. col + 3 of a matrix's row. Elements outside the matrix are zero. With
 * aligned rows and col a multiple of 4, either all four columns lie inside or none does.
 */
static inline __device__ float4 load_4(const float *matrix, int row, int col, int rows, int cols,
                                       bool aligned)
{
    const float *p = matrix + (size_t)row * cols + col;
    const int inside = row < rows ? cols - col : 0;

    if (aligned)
        return inside > 0 ? *(const float4 *)p : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return make_float4(inside > 0 ? p[0] : 0.0f, inside > 1 ? p[1] : 0.0f, inside > 2 ? p[2] : 0.0f,
                       inside > 3 ? p[3] : 0.0f);
}

/* Stores to columns col .. col + 3 of a matrix's row, where they lie inside the matrix. */
static inline __device__ void store_4(float *matrix, int row, int col, int rows, int cols,
                                      bool aligned, float4 value)
{
    float *p = matrix + (size_t)row * cols + col;
    const int inside = row < rows ? cols - col : 0;

    if (aligned) {
        if (inside > 0)
            *(float4 *)p = value;
        return;
    }
    if (inside > 0)
        p[0] = value.x;
    if (inside > 1)
        p[1] = value.y;
    if (inside > 2)
        p[2] = value.z;
    if (inside > 3)
        p[3] = value.w;
}

#endif
