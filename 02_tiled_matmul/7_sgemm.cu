/*
 * Idea: the tile that fills the processor, and nothing in the loop that could be settled before it.
 *
 *     C[row][col] = sum over k of A[row][k] * B[k][col]     A [M, K], B [K, N], C [M, N], row-major
 *
 * A block computes one tile of C; sgemm_tile.cuh is that computation. What is new since
 * 6_warp_tile:
 *
 *   - Three shapes of tile, chosen by how evenly they load the multiprocessors: 128 x 256 with 8 x
 *     16 sums a
 *     thread, and for small or long thin products 128 x 64 and 64 x 128 with 8 x 8.
 *   - The copies in the loop compare nothing. Tiles lie along K so that they end where K ends: the
 *     ragged one
 *     comes FIRST, before the loop. A row or column past an edge is replaced by one of the BM rows
 *     or BN
 *     columns before the edge, and what it yields is not stored. (Not always by the same: lanes
 *     that copy the
 *     same word wait in line.)
 *   - B, whose tile needs no transposing, is copied 16 bytes at a time where its rows are aligned
 *     to them.
 *   - The copies are spread over the steps of a tile, so that they do not stand in the way of the
 *     reads, and the reads
 *     stay a whole step ahead of the products: the compiler may not move them.
 *   - Tiles are 16 deep, where they were 8: half as many barriers.
 *   - The serpentine order of a step's products goes down one column of sums and up the next.
 *
 * Cost: M·N·K·(1/BM + 1/BN) global loads of 4 bytes, with M and N rounded up to whole tiles; B's
 * are a quarter as many where its rows are aligned to 16 bytes, and so are the M·N stores where C's
 * are. (TM + TN) / 4 shared loads per TM·TN multiply-adds.
 */
#include "sgemm_tile.cuh"

template <int BM, int BN, int TN, int WIDTH, int BLOCKS_PER_MULTIPROCESSOR>
__global__ void __launch_bounds__(threads_of(BM, BN, TN), BLOCKS_PER_MULTIPROCESSOR)
    sgemm(const float *A, const float *B, float *C, int M, int N, int K, bool aligned_C)
{
    extern __shared__ __align__(16) float stages[];

    /* Tiles are numbered along x alone: gridDim.x goes up to 2^31 - 1, gridDim.y stops at 65535. */
    const int tiles_across = ceil_div(N, BN);
    const int row0 = (int)blockIdx.x / tiles_across * BM,
              col0 = (int)blockIdx.x % tiles_across * BN;

    float sum[TM][TN] = {};
    add_products<BM, BN, TN, WIDTH, 1>(sum, stages, A, B, M, N, K, row0, col0, 0, tiles_along(K));
    store_tile<BM, BN, TN>(C, sum, row0, col0, M, N, aligned_C);
}

typedef void sgemm_kernel(const float *A, const float *B, float *C, int M, int N, int K,
                          bool aligned_C);

static const struct choice {
    const struct tile_shape *shape;
    /* for any B, and for one whose rows are aligned to 16 bytes */
    sgemm_kernel *kernel, *aligned_B;
} choices[] = {
    {&LARGE, sgemm<128, 256, 16, 1, 1>, sgemm<128, 256, 16, 4, 1>},
    {&WIDE, sgemm<64, 128, 8, 1, 3>, sgemm<64, 128, 8, 4, 3>},
    {&TALL, sgemm<128, 64, 8, 1, 3>, sgemm<128, 64, 8, 4, 3>},
};

/* How long the busiest multiprocessor works, in arbitrary units: its tiles, times a tile's
 * multiply-adds. */
static double expected_time(const struct tile_shape *shape, int M, int N, int multiprocessors)
{
    const double busiest = ceil_div(tiles_of_C(shape, M, N), multiprocessors);
    return busiest * shape->BM * shape->BN * (shape == &LARGE ? LARGE_TIME : 1.0);
}

/* The quickest, and of equally quick ones that with the fewest tiles. */
static const struct choice *choose(int M, int N, const struct limits *limits)
{
    const struct choice *best = NULL;
    double best_time = 0.0;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        if (choices[i].shape->shared_bytes > limits->shared_bytes)
            continue;
        const double time = expected_time(choices[i].shape, M, N, limits->multiprocessors);
        if (best == NULL || time < best_time ||
            (time == best_time &&
             tiles_of_C(choices[i].shape, M, N) < tiles_of_C(best->shape, M, N))) {
            best = &choices[i];
            best_time = time;
        }
    }
    return best;
}

extern "C" struct cost matmul_sgemm_cost(const struct matmul_kernel *, int M, int N, int K)
{
    struct limits limits;
    if (device_limits(&limits) != cudaSuccess)
        return {};
    return cost_of_tiles(choose(M, N, &limits)->shape, M, N, K);
}

extern "C" cudaError_t matmul_sgemm(const float *A, const float *B, float *C, int M, int N, int K,
                                    cudaStream_t stream)
{
    struct limits limits;
    cudaError_t status = device_limits(&limits);
    if (status != cudaSuccess)
        return status;
    const struct choice *choice = choose(M, N, &limits);
    const struct tile_shape *shape = choice->shape;
    sgemm_kernel *const kernel = rows_aligned(B, N) ? choice->aligned_B : choice->kernel;

    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  shape->shared_bytes);
    if (status != cudaSuccess)
        return status;
    kernel<<<tiles_of_C(shape, M, N), shape->threads, shape->shared_bytes, stream>>>(
        A, B, C, M, N, K, rows_aligned(C, N));
    return cudaGetLastError();
}
