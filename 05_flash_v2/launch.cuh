/* What the launchers of this step decide on the host: how many blocks, and how wide to load. */
#ifndef STEP_05_LAUNCH_CUH
#define STEP_05_LAUNCH_CUH

#include "attention.h"
#include "refusal.h"
#include "tiles.cuh"

#include <limits.h>
#include <stdint.h>

/*
 * *blocks becomes the number of blocks that cover `rows` rows of each of `heads` heads, Br rows a block; a
 * grid holds 2^31 - 1 of them, and more are refused.
 */
static inline cudaError_t blocks_for_rows(size_t heads, size_t rows, int Br, int *blocks)
{
    const size_t count = heads * (rows / Br + (rows % Br != 0));
    if (count > INT_MAX)
        return refuse(cudaErrorInvalidValue, "%zu heads of %zu rows need %zu blocks; a grid holds at most %d",
                      heads, rows, count, INT_MAX);
    *blocks = (int)count;
    return cudaSuccess;
}

/* Whether each row of the matrix can be read and written as float4: all rows start at multiples of 16 bytes.
 */
static inline bool rows_are_wide(const float *matrix, int head_dim)
{
    return head_dim % 4 == 0 && (uintptr_t)matrix % 16 == 0;
}

#endif
