// Tiled matrix multiplication: a template for the tile, one dynamic and one static variant.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

template <int BLOCK_SIZE>
__global__ void MatrixMulCUDA(float *C, const float *A, const float *B, int wA, int wB)
{
    int bx = blockIdx.x, by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;
    int aBegin = wA * BLOCK_SIZE * by, aEnd = aBegin + wA - 1, aStep = BLOCK_SIZE;
    int bBegin = BLOCK_SIZE * bx, bStep = BLOCK_SIZE * wB;
    float Csub = 0;
    for (int a = aBegin, b = bBegin; a <= aEnd; a += aStep, b += bStep) {
        __shared__ float As[BLOCK_SIZE][BLOCK_SIZE];
        __shared__ float Bs[BLOCK_SIZE][BLOCK_SIZE];
        As[ty][tx] = A[a + wA * ty + tx];
        Bs[ty][tx] = B[b + wB * ty + tx];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BLOCK_SIZE; ++k)
            Csub += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    C[wB * BLOCK_SIZE * by + BLOCK_SIZE * bx + wB * ty + tx] = Csub;
}

__global__ void MatrixMulAnySize(float *C, const float *A, const float *B, int M, int N, int K,
                                 int tile)
{
    extern __shared__ float smem[];
    float *As = smem;
    float *Bs = smem + tile * tile;
    int row = blockIdx.y * tile + threadIdx.y, col = blockIdx.x * tile + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < (K + tile - 1) / tile; ++t) {
        int k = t * tile;
        As[threadIdx.y * tile + threadIdx.x] =
            row < M && k + threadIdx.x < K ? A[row * K + k + threadIdx.x] : 0.0f;
        Bs[threadIdx.y * tile + threadIdx.x] =
            col < N && k + threadIdx.y < K ? B[(k + threadIdx.y) * N + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < tile; ++i)
            sum += As[threadIdx.y * tile + i] * Bs[i * tile + threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = sum;
}

static int verify(const float *C, const float *A, const float *B, int M, int N, int K)
{
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += (double)A[i * K + k] * B[k * N + j];
            if (!(fabs(sum - C[i * N + j]) <= 1e-5 * K)) {
                fprintf(stderr, "C[%d][%d] = %g, expected %g\n", i, j, C[i * N + j], sum);
                return 1;
            }
        }
    }
    return 0;
}

static int run(int M, int N, int K, int block_size)
{
    float *h[3], *d[3];
    const size_t count[3] = {(size_t)M * K, (size_t)K * N, (size_t)M * N};
    for (int i = 0; i < 3; i++) {
        h[i] = (float *)malloc(count[i] * sizeof(float));
        for (size_t k = 0; k < count[i]; k++)
            h[i][k] = rand() / (float)RAND_MAX - 0.5f;
        cudaMalloc(&d[i], count[i] * sizeof(float));
        cudaMemcpy(d[i], h[i], count[i] * sizeof(float), cudaMemcpyHostToDevice);
    }
    dim3 threads(abs(block_size), abs(block_size));
    dim3 grid((N + threads.x - 1) / threads.x, (M + threads.y - 1) / threads.y);
    if (block_size == 16)
        MatrixMulCUDA<16><<<grid, threads>>>(d[2], d[0], d[1], K, N);
    else if (block_size == 32)
        MatrixMulCUDA<32><<<grid, threads>>>(d[2], d[0], d[1], K, N);
    else
        MatrixMulAnySize<<<grid, threads, 2 * threads.x * threads.y * sizeof(float)>>>(
            d[2], d[0], d[1], M, N, K, threads.x);
    cudaError_t error = cudaMemcpy(h[2], d[2], count[2] * sizeof(float), cudaMemcpyDeviceToHost);
    if (error != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(error));
        return 1;
    }
    int bad = verify(h[2], h[0], h[1], M, N, K);
    for (int i = 0; i < 3; i++) {
        free(h[i]);
        cudaFree(d[i]);
    }
    return bad;
}

int main()
{
    int bad =
        run(64, 96, 128, 16) || run(64, 96, 64, 32) || run(33, 47, 61, -8) || run(1, 1, 1, -16);
    puts(bad ? "FAILED" : "PASSED");
    return bad;
}
