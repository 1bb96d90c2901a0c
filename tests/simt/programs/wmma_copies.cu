// Tensor cores work on tiles in shared memory that the program does not align, and which
// <cuda_pipeline.h> copies one step ahead.
#include <assert.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
#include <stdio.h>

#define M 32
#define N 48
#define K 64

using namespace nvcuda;

__device__ void copy_tile(__half *tile, const __half *matrix, int pitch)
{
    const int row = threadIdx.x / 2, col = threadIdx.x % 2 * 8;
    __pipeline_memcpy_async(&tile[row * 16 + col], &matrix[row * pitch + col], 16);
}

__global__ void product(const __half *A, const __half *B, float *C)
{
    extern __shared__ __half stages[]; // [2][2][16 * 16]
    __shared__ float result[16 * 16];
    assert(blockDim.x == 32);
    A += blockIdx.y * 16 * K;
    B += blockIdx.x * 16;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int stage = 0; stage <= K / 16; stage++) {
        if (stage < K / 16) {
            __half *tiles = stages + stage % 2 * 512;
            copy_tile(tiles, A + stage * 16, K);
            copy_tile(tiles + 256, B + stage * 16 * N, N);
        }
        __pipeline_commit();
        if (stage == 0)
            continue;
        __pipeline_wait_prior(1);
        __syncwarp();
        const __half *tiles = stages + (stage - 1) % 2 * 512;
        wmma::load_matrix_sync(a, tiles, 16);
        wmma::load_matrix_sync(b, tiles + 256, 16);
        wmma::mma_sync(c, a, b, c);
        __syncwarp();
    }
    wmma::store_matrix_sync(result, c, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32)
        C[(blockIdx.y * 16 + i / 16) * N + blockIdx.x * 16 + i % 16] = result[i];
}

// The last four of 16 bytes must be zeros.
__global__ void fill_up(const float4 *in, float4 *out)
{
    __shared__ float4 copy[32];
    __pipeline_memcpy_async(&copy[threadIdx.x], &in[threadIdx.x], sizeof(float4), 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[threadIdx.x] = copy[31 - threadIdx.x];
}

int main()
{
    __half *A, *B;
    float *C;
    int wrong = 0;
    cudaMallocManaged(&A, M * K * sizeof *A);
    cudaMallocManaged(&B, K * N * sizeof *B);
    cudaMallocManaged(&C, M * N * sizeof *C);
    for (int i = 0; i < M * K; i++)
        A[i] = __float2half(i % 7 - 3);
    for (int i = 0; i < K * N; i++)
        B[i] = __float2half(i % 5 - 2);
    product<<<dim3(N / 16, M / 16), 32, 2 * 2 * 16 * 16 * sizeof(__half)>>>(A, B, C);
    wrong += cudaDeviceSynchronize() != cudaSuccess;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0;
            for (int k = 0; k < K; k++)
                sum += __half2float(A[i * K + k]) * __half2float(B[k * N + j]);
            wrong += C[i * N + j] != sum;
        }

    float4 *in, *out;
    cudaMallocManaged(&in, 32 * sizeof *in);
    cudaMallocManaged(&out, 32 * sizeof *out);
    for (int i = 0; i < 32; i++)
        in[i] = make_float4(i, i + 1, i + 2, i + 3);
    fill_up<<<1, 32>>>(in, out);
    wrong += cudaDeviceSynchronize() != cudaSuccess;
    for (int i = 0; i < 32; i++)
        wrong += out[i].x != 31 - i || out[i].z != 33 - i || out[i].w != 0;
    printf(wrong ? "FAILED\n" : "PASSED\n");
    return wrong != 0;
}
