/*
 * Idea: the tile that fills the processor, and nothing in the loop that could be settled before it.
 *
 *     C[row][col] = sum over k of A[row][k] * B[k][col]        A [M, K], B [K, N], C [M, N], row-major
 *
 * A block computes one tile of C; sgemm_tile.cuh is that computation. What is new since 6_warp_tile:
 *
 *   - Three shapes of tile, chosen by how evenly they load the multiprocessors: 256 x 128 with 16 x 8 sums a
 *     thread, and for small or long thin products 128 x 64 and 64 x 128 with 8 x 8.
 *   - The copies in the loop compare nothing. Tiles lie along K so that they end where K ends: the ragged one
 *     comes FIRST, before the loop. A row or column past an edge is replaced by one of the BM rows or BN
 *     columns before the edge, and what it yields is not stored. (Not always by the same: lanes that copy the
 *     same word wait in line.)
 *   - The copies are spread over the steps of a tile, so that they do not stand in the way of the reads.
 *   - Tiles are 16 deep, where they were 8: half as many barriers.
 *   - The serpentine order of a step's products goes through the columns four at a time.
 *
 * Cost: M·N·K·(1/BM + 1/BN) global loads of 4 bytes, with M and N rounded up to whole tiles in the part that
 * they contribute; M·N stores, a quarter of the instructions where rows are aligned to 16 bytes. (TM + TN) / 4
 * shared loads per TM·TN multiply-adds.
 */
#include "sgemm_tile.cuh"
#include "vectors.cuh"

#include <math.h>

template <int BM, int BN, int TM, int BLOCKS_PER_MULTIPROCESSOR>
__global__ void __launch_bounds__(threads_of(BM, BN, TM), BLOCKS_PER_MULTIPROCESSOR)
    sgemm(const float *A, const float *B, float *C, int M, int N, int K, bool aligned_C)
{
    /* solution: one tile of C, all of K. */
    extern __shared__ __align__(16) float stages[];

    /* Tiles are numbered along x alone: gridDim.x goes up to 2^31 - 1, gridDim.y stops at 65535. */
    const int tiles_across = ceil_div(N, BN);
    const int row0 = (int)blockIdx.x / tiles_across * BM, col0 = (int)blockIdx.x % tiles_across * BN;

    float sum[TM][TN] = {};
    add_products<BM, BN, TM>(sum, stages, A, B, M, N, K, row0, col0, 0, tiles_along(K));

#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j += 4)
            store_4(C, row0 + tile_row<BN, TM>(i), col0 + tile_col<BN>(j), M, N, aligned_C,
                    make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]));
    /* end of solution */
}

/* Elements of C, those past an edge included, that fall to the multiprocessor with the most. */
static double heaviest_load(const struct tile_shape *shape, int M, int N, int multiprocessors)
{
    return (double)ceil_div(tiles_of_C(shape, M, N), multiprocessors) * shape->BM * shape->BN;
}

/*
 * LARGE reads shared memory least for its arithmetic; the others must lighten the heaviest load by an eighth
 * to make up for it. Of those two, the one whose load is lighter, or whose tiles are fewer.
 */
static const struct tile_shape *choose_shape(int M, int N, const struct limits *limits)
{
    const double large = heaviest_load(&LARGE, M, N, limits->multiprocessors);
    const double tall = heaviest_load(&TALL, M, N, limits->multiprocessors);
    const double wide = heaviest_load(&WIDE, M, N, limits->multiprocessors);

    if (limits->shared_bytes >= LARGE.shared_bytes && large <= 8.0 / 7.0 * fmin(tall, wide))
        return &LARGE;
    return tall < wide || (tall == wide && tiles_of_C(&TALL, M, N) <= tiles_of_C(&WIDE, M, N)) ? &TALL
                                                                                               : &WIDE;
}

extern "C" cudaError_t matmul_sgemm(const float *A, const float *B, float *C, int M, int N, int K,
                                    cudaStream_t stream)
{
    cudaError_t status = matmul_check_arguments(A, B, C, M, N, K);
    if (status != cudaSuccess || M == 0 || N == 0)
        return status;

    struct limits limits;
    if ((status = device_limits(&limits)) != cudaSuccess)
        return status;
    const struct tile_shape *shape = choose_shape(M, N, &limits);
    void (*const kernel)(const float *, const float *, float *, int, int, int, bool) =
        shape == &LARGE  ? sgemm<256, 128, 16, 1>
        : shape == &TALL ? sgemm<128, 64, 8, 3>
                         : sgemm<64, 128, 8, 3>;

    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shape->shared_bytes);
    if (status != cudaSuccess)
        return status;
    kernel<<<tiles_of_C(shape, M, N), shape->threads, shape->shared_bytes, stream>>>(A, B, C, M, N, K,
                                                                                     rows_aligned(C, N));
    return cudaGetLastError();
}
