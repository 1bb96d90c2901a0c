// needs: sm_80
#include "02_step.h"
#include "ptx.cuh"
#include "refusal.h"
#include "tiles.cuh"
#include "vectors.cuh"

static const int BK = 16, TN = 8, STAGES = 4, PAD = 4;
static const int LANES_DOWN = 4, LANES_ACROSS = 8;

template <int BM, int BN, int TM, int BLOCKS, typename Offset>
__global__ void __launch_bounds__(BM / TM * (BN / TN), BLOCKS)
    sgemm(const float *A, const float *B, float *C, int M, int N, int K, int splits, bool aligned_C)
{
    constexpr int THREADS = BM / TM * (BN / TN);
    constexpr int WARPS_ACROSS = BN / (LANES_ACROSS * TN);
    constexpr int PITCH = BM + PAD;
    constexpr int STAGE = BK * (PITCH + BN);
    constexpr int COPIES_A = BM * BK / THREADS, COPIES_B = BK * BN / THREADS;
    constexpr int COPIES_PER_STEP = (COPIES_A + COPIES_B + BK - 2) / (BK - 1);
    constexpr int ROW_STEP = THREADS / 8, K_STEP = THREADS / BN;
    extern __shared__ __align__(16) float stages[];

    const int tiles_across = ceil_div(N, BN);
    const int tile_of_C = blockIdx.x / splits, split = blockIdx.x % splits;
    const int row0 = tile_of_C / tiles_across * BM, col0 = tile_of_C % tiles_across * BN;

    const int first_row = max(min(row0, M - BM), 0), first_col = max(min(col0, N - BN), 0);
    const int rows = min(M, BM), cols = min(N, BN);

    const int k_tiles = ceil_div(K, BK);
    const int missing = k_tiles * BK - K;
    const int first = (int)((long long)k_tiles * split / splits), last = (int)((long long)k_tiles * (split + 1) / splits);
    int skip = split == 0 ? missing : 0;

    const int k_A = threadIdx.x % 8, row_A = threadIdx.x / 8;
    const int k_B = threadIdx.x / BN, col_B = threadIdx.x % BN;
    Offset offset_A[COPIES_A / 2];
    for (int i = 0; i < COPIES_A / 2; i++)
        offset_A[i] = (Offset)((row_A + i * ROW_STEP + row0 - first_row) % rows) * K + k_A;
    const Offset offset_B = (Offset)k_B * N + (col_B + col0 - first_col) % cols;

    const float *next_A = A + (ptrdiff_t)first_row * K + (ptrdiff_t)first * BK - missing;
    const float *next_B = B + ((ptrdiff_t)first * BK - missing) * N + first_col;

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int lane_x = (lane & 1) | (lane >> 1 & 6), lane_y = (lane >> 1 & 1) | (lane >> 3 & 2);
    const int y = warp / WARPS_ACROSS * LANES_DOWN * TM + 4 * lane_y;
    const int x = warp % WARPS_ACROSS * LANES_ACROSS * TN + 4 * lane_x;

    const uint32_t copy_A = shared_address(stages + k_A * PITCH + row_A);
    const uint32_t copy_B = shared_address(stages + BK * PITCH + k_B * BN + col_B);
    
    for (int tile = 0; tile < STAGES - 1; tile++) {
        const bool exists = first + tile < last;
        for (int i = 0; i < COPIES_A; i++) {
            cp_async_4_zero_fill(copy_A + 4 * (tile * STAGE + i % 2 * 8 * PITCH + i / 2 * ROW_STEP), next_A + offset_A[i / 2] + i % 2 * 8,
                exists && k_A + i % 2 * 8 >= skip ? 4 : 0);
        }
        for (int i = 0; i < COPIES_B; i++) {
            cp_async_4_zero_fill(copy_B + 4 * (tile * STAGE + i * K_STEP * BN), next_B + offset_B, exists && k_B + i * K_STEP >= skip ? 4 : 0);
            next_B += (size_t)K_STEP * N;
        }
        next_A += BK;
        skip = 0;
        cp_async_commit();
    }

    float sum[TM][TN] = {};
    __align__(16) float a[2][TM], b[2][TN];

    cp_async_wait<STAGES - 2>();
    __syncthreads();
    int read = 0, write = (STAGES - 1) * STAGE;
    for (int i = 0; i < TM; i += 4)
        *(float4 *)&a[0][i] = *(const float4 *)&stages[read + y + i * LANES_DOWN];
    for (int j = 0; j < TN; j += 4)
        *(float4 *)&b[0][j] = *(const float4 *)&stages[read + BK * PITCH + x + j * LANES_ACROSS];

    for (int tile = first; tile < last; tile++) {
        const int bytes = tile + STAGES - 1 < last ? 4 : 0;
#pragma unroll
        for (int k = 0; k < BK; k++) {
            if (k == BK - 1) {
                cp_async_commit();
                cp_async_wait<STAGES - 2>();
                __syncthreads();
                write = read;
                read = read + STAGE == STAGES * STAGE ? 0 : read + STAGE;
            }
            for (int i = 0; i < TM; i += 4)
                *(float4 *)&a[(k + 1) % 2][i] = *(const float4 *)&stages[read + (k + 1) % BK * PITCH + y + i * LANES_DOWN];
            for (int j = 0; j < TN; j += 4)
                *(float4 *)&b[(k + 1) % 2][j] = *(const float4 *)&stages[read + BK * PITCH + (k + 1) % BK * BN + x + j * LANES_ACROSS];
            for (int c = k * COPIES_PER_STEP; c < (k + 1) * COPIES_PER_STEP && c < COPIES_A + COPIES_B; c++) {
                if (c < COPIES_A) {
                    cp_async_4_zero_fill(copy_A + 4 * (write + c % 2 * 8 * PITCH + c / 2 * ROW_STEP), next_A + offset_A[c / 2] + c % 2 * 8, bytes);
                } else {
                    const int i = c - COPIES_A;
                    cp_async_4_zero_fill(copy_B + 4 * (write + i * K_STEP * BN), next_B + offset_B, bytes);
                    next_B += (size_t)K_STEP * N;
                }
            }
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++) {
                    const int jj = i % 2 ? TN - 1 - j : j;
                    sum[i][jj] += a[k % 2][i] * b[k % 2][jj];
                }
        }
        next_A += BK;
    }
    cp_async_wait<0>();

    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4) {
            const int row = row0 + y + i / 4 * 4 * LANES_DOWN + i % 4, col = col0 + x + j * LANES_ACROSS;
            const float4 v = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            if (splits == 1)
                store_4(C, row, col, M, N, aligned_C, v);
            else
                for (int n = 0; n < 4; n++)
                    if (row < M && col + n < N)
                        atomicAdd(&C[(size_t)row * N + col + n], sum[i][j + n]);
        }
}

template __global__ void sgemm<256, 128, 16, 1, uint32_t>(const float *A, const float *B, float *C, int M, int N, int K, int splits, bool aligned_C);
template __global__ void sgemm<64, 128, 8, 3, uint32_t>(const float *A, const float *B, float *C, int M, int N, int K, int splits, bool aligned_C);
template __global__ void sgemm<128, 64, 8, 3, uint32_t>(const float *A, const float *B, float *C, int M, int N, int K, int splits, bool aligned_C);
template __global__ void sgemm<128, 64, 8, 3, size_t>(const float *A, const float *B, float *C, int M, int N, int K, int splits, bool aligned_C);
