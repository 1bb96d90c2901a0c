// needs: sm_75
/* wmma runs with all layouts, and with arithmetic on the elements of two fragments of one kind. */
#include "launches.cuh"

#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

template <class A_LAYOUT, class B_LAYOUT>
__global__ void multiply(const __half *A, const __half *B, const float *C, const float *F, float *D,
                         wmma::layout_t D_layout)
{
    __shared__ __align__(32) __half tile_A[16 * 24]; /* rows are 24 halves apart */
    for (int i = threadIdx.x; i < 256; i += 32)
        tile_A[i / 16 * 24 + i % 16] = A[i];
    __syncwarp(); /* the tile is complete */

    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, A_LAYOUT> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, B_LAYOUT> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c, factor, sum;
    wmma::load_matrix_sync(a, tile_A, 24);
    wmma::load_matrix_sync(b, B, 16);
    wmma::load_matrix_sync(c, C, 16, wmma::mem_row_major);
    wmma::load_matrix_sync(factor, F, 16, wmma::mem_row_major);
    wmma::fill_fragment(sum, 0.0f);
    wmma::mma_sync(sum, a, b, c);
    for (int i = 0; i < sum.num_elements; i++)
        sum.x[i] *= factor.x[i];
    wmma::store_matrix_sync(D, sum, 16, D_layout);
}

cudaError_t ptx_wmma(const uint32_t *in, uint32_t *out)
{
    const __half *A = (const __half *)in, *B = (const __half *)(in + 128);
    const float *C = (const float *)(in + 256), *F = C + 256;
    for (int store = 0; store < 2; store++) {
        const wmma::layout_t layout = store ? wmma::mem_col_major : wmma::mem_row_major;
        float *D = (float *)out + 4 * 256 * store;
        multiply<wmma::row_major, wmma::row_major><<<1, 32>>>(A, B, C, F, D, layout);
        multiply<wmma::col_major, wmma::row_major><<<1, 32>>>(A, B, C, F, D + 256, layout);
        multiply<wmma::row_major, wmma::col_major><<<1, 32>>>(A, B, C, F, D + 512, layout);
        multiply<wmma::col_major, wmma::col_major><<<1, 32>>>(A, B, C, F, D + 768, layout);
    }
    return finished();
}
