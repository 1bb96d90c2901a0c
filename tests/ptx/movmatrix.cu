// needs: sm_75
/* movmatrix transposes, and then transposes back. */
#include "launches.cuh"
#include <ptx.cuh>

__global__ void transpose_matrix(const uint32_t *in, uint32_t *out)
{
    const int lane = threadIdx.x;
    const uint32_t transposed = movmatrix_transposed(in[lane]);
    out[lane] = transposed;
    out[32 + lane] = movmatrix_transposed(transposed);
}

PTX_KERNEL(movmatrix, transpose_matrix<<<1, 32>>>(in, out))
