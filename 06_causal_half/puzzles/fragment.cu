/*
 * Which lane holds which element?
 *
 * After mma.m16n8k16 the 16 x 8 elements of C lie in 32 lanes, 4 in each. Four lanes share a row:
 * lanes 0 to 3 have row 0, lanes 4 to 7 row 1, up to row 7; d[0] and d[1] are neighbours there.
 * d[2] and d[3] are eight rows further down. The product is written; store it.
 */
#include "common/harness/puzzle.cuh"

#include <cuda_fp16.h>
#include <ptx.cuh>
#include <stdint.h>

enum { ROWS = 16, COLS = 8, DEPTH = 16 };

/* Stores the elements that this lane has in row-major C [ROWS, COLS]. */
__device__ void store_fragment(const float d[4], int lane, float *C)
{
    const int row = lane / 4, col = lane % 4 * 2;
    for (int e = 0; e < 4; e++)
        C[(row + e / 2 * 8) * COLS + col + e % 2] = d[e];
}

/* One warp computes C = A * B; B comes transposed, [COLS, DEPTH]. */
__global__ void fragment(const float *A, const float *B, float *C)
{
    __shared__ __align__(16) __half a_tile[ROWS][DEPTH], b_tile[COLS][DEPTH];
    const int lane = threadIdx.x;
    for (int i = lane; i < ROWS * DEPTH; i += 32)
        a_tile[i / DEPTH][i % DEPTH] = __float2half(A[i]);
    for (int i = lane; i < COLS * DEPTH; i += 32)
        b_tile[i / DEPTH][i % DEPTH] = __float2half(B[i]);
    __syncwarp();
    uint32_t a[4], b[4];
    float d[4] = {};
    ldmatrix_x4(a, shared_address(&a_tile[lane % 16][lane / 16 * 8]));
    ldmatrix_x4(b, shared_address(&b_tile[lane % 8][lane / 8 % 2 * 8]));
    mma_m16n8k16(d, a, b);
    store_fragment(d, lane, C);
}

int main(void)
{
    const struct array A = numbers("A", ROWS * DEPTH), B = numbers("B", COLS * DEPTH);
    const struct array C = unwritten("C", ROWS * COLS);
    fragment<<<1, 32>>>(A.device, B.device, C.device);
    for (int i = 0; i < ROWS * COLS; i++)
        for (int k = 0; k < DEPTH; k++)
            C.host[i] += A.host[i / COLS * DEPTH + k] * B.host[i % COLS * DEPTH + k];
    check(C, "C [16, 8] = A [16, 16] * B [16, 8]");
    return right();
}
