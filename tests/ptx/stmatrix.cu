// needs: sm_90
/* stmatrix stores rows in any order. */
#include "launches.cuh"
#include <ptx.cuh>

__global__ void store_matrices(const uint32_t *in, uint32_t *out)
{
    __shared__ __align__(16) uint32_t rows[32][4];
    const int lane = threadIdx.x;
    uint32_t r[4];
    for (int i = 0; i < 4; i++)
        r[i] = in[4 * lane + i];
    stmatrix_x4(shared_address(rows[MATRIX_PLACE(lane)]), r);
    __syncthreads(); /* all rows are there */
    for (int i = 0; i < 4; i++)
        out[4 * lane + i] = rows[lane][i];
}

PTX_KERNEL(stmatrix, store_matrices<<<1, 32>>>(in, out))
