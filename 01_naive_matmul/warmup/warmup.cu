/*
 * Three kernels to write before the first lesson, each easier than a matrix product. From the top
 * of the project, without a GPU:
 *
 *     common/simt/simtcc --check 01_naive_matmul/warmup/warmup.cu -o build/warmup && build/warmup
 *
 * and with one: nvcc 01_naive_matmul/warmup/warmup.cu -o build/warmup && build/warmup. The program
 * says which of the three are right; its exit status is the number of those that are not.
 *
 * Matrices are row-major: element [row][col] of `cols` columns is at row * cols + col. Each launch
 * has more threads than elements, so each thread must ask whether its element exists.
 */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef WARMUP /* a file with these kernels, in the place of those below */
#include WARMUP
#else

/* 1. to[i] = from[i] for 0 <= i < n. One thread per element; blocks of 256 threads. */
__global__ void copy(const float *from, float *to, int n)
{
    (void)from, (void)to, (void)n; /* yours to write: which i is this thread's? */
}

/* 2. to[col][row] = from[row][col]; from is [rows, cols]. One thread per element; 16 x 16 a block,
 * blockIdx.x and threadIdx.x along a row of `from`. Then count: which access is coalesced? */
__global__ void transpose(const float *from, float *to, int rows, int cols)
{
    (void)from, (void)to, (void)rows, (void)cols; /* yours to write */
}

/* 3. sum[row] = from[row][0] + ... + from[row][cols - 1]. One thread per row; blocks of 256. */
__global__ void row_sum(const float *from, float *sum, int rows, int cols)
{
    (void)from, (void)sum, (void)rows, (void)cols; /* yours to write */
}

#endif

enum { ROWS = 37, COLS = 53, COUNT = ROWS * COLS };

static void require(cudaError_t status)
{
    if (status != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(status));
        exit(1);
    }
}

/* Reads `count` results back, compares them, leaves NaN in their place. 0 when all are right. */
static int wrong(const char *name, float *device, const float *expected, int count)
{
    float got[COUNT];
    require(cudaGetLastError());
    require(cudaMemcpy(got, device, count * sizeof(float), cudaMemcpyDeviceToHost));
    require(cudaMemset(device, 0xff, COUNT * sizeof(float)));
    for (int i = 0; i < count; i++)
        if (!(fabsf(got[i] - expected[i]) <= 1e-4f)) {
            if (isnan(got[i]))
                printf("%-10s not yet: element %d is NaN, as before the launch\n", name, i);
            else
                printf("%-10s not yet: element %d is %g, not %g\n", name, i, got[i], expected[i]);
            return 1;
        }
    printf("%-10s right\n", name);
    return 0;
}

int main(void)
{
    float host[COUNT], transposed[COUNT], sums[ROWS] = {};
    for (int i = 0; i < COUNT; i++) {
        host[i] = (float)((i * 7919 + 13) % 1000) / 1000.0f;
        transposed[i % COLS * ROWS + i / COLS] = host[i];
        sums[i / COLS] += host[i];
    }
    float *from, *to;
    require(cudaMalloc(&from, sizeof host));
    require(cudaMalloc(&to, sizeof host));
    require(cudaMemcpy(from, host, sizeof host, cudaMemcpyHostToDevice));
    require(cudaMemset(to, 0xff, sizeof host));

    copy<<<(COUNT + 255) / 256, 256>>>(from, to, COUNT);
    int failed = wrong("copy", to, host, COUNT);
    transpose<<<dim3((COLS + 15) / 16, (ROWS + 15) / 16), dim3(16, 16)>>>(from, to, ROWS, COLS);
    failed += wrong("transpose", to, transposed, COUNT);
    row_sum<<<(ROWS + 255) / 256, 256>>>(from, to, ROWS, COLS);
    failed += wrong("row_sum", to, sums, ROWS);

    cudaFree(from);
    cudaFree(to);
    return failed;
}
