// needs: sm_75
/* ldmatrix loads rows in any order, plain and transposed. */
#include "launches.cuh"
#include <ptx.cuh>

__global__ void load_matrices(const uint32_t *in, uint32_t *out)
{
    __shared__ __align__(16) uint32_t rows[32][4];
    const int lane = threadIdx.x;
    for (int i = 0; i < 4; i++)
        rows[MATRIX_PLACE(lane)][i] = in[4 * lane + i];
    __syncthreads(); /* all rows are there */

    uint32_t r[4];
    ldmatrix_x4(r, shared_address(rows[MATRIX_PLACE(lane)]));
    for (int i = 0; i < 4; i++)
        out[4 * lane + i] = r[i];
    ldmatrix_x4_transposed(r, shared_address(rows[MATRIX_PLACE(lane)]));
    for (int i = 0; i < 4; i++)
        out[128 + 4 * lane + i] = r[i];
}

PTX_KERNEL(ldmatrix, load_matrices<<<1, 32>>>(in, out))
