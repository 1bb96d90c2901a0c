/*
 * Every way to run kernels on a CPU can take these five small CUDA programs. cpu_peers.py compiles
 * this file for the CPU backend and for HIP-CPU, hands its kernels to OpenCL, and compares the CPU
 * time.
 *
 *     cpu_peers PROGRAM RUNS      prints the CPU time of one run in milliseconds, all threads
 * together
 */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* There is no barrier, and one thread per element of C. */
__global__ void naive_matmul(const float *a, const float *b, float *c, int n)
{
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < n; k++)
        sum += a[row * n + k] * b[k * n + col];
    c[row * n + col] = sum;
}

/* There are two barriers per tile of 16 x 16. */
__global__ void tiled_matmul(const float *a, const float *b, float *c, int n)
{
    __shared__ float tile_a[16][16];
    __shared__ float tile_b[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int first = 0; first < n; first += 16) {
        tile_a[threadIdx.y][threadIdx.x] = a[row * n + first + threadIdx.x];
        tile_b[threadIdx.y][threadIdx.x] = b[(first + threadIdx.y) * n + col];
        __syncthreads(); /* the tiles are complete */
        for (int k = 0; k < 16; k++)
            sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
        __syncthreads(); /* all threads have read: the next tiles may be loaded */
    }
    c[row * n + col] = sum;
}

/* There are nine barriers and hardly any work between them: each block of 256 threads adds 256
 * numbers. */
__global__ void block_sums(const float *x, float *sums)
{
    __shared__ float tree[256];
    int t = threadIdx.x;
    tree[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int stride = 128; stride > 0; stride /= 2) {
        if (t < stride)
            tree[t] += tree[t + stride];
        __syncthreads();
    }
    if (t == 0)
        sums[blockIdx.x] = tree[0];
}

/* There is one barrier: 32 x 8 threads move a tile of 32 x 32. */
__global__ void transpose(const float *in, float *out, int n)
{
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int row = 0; row < 32; row += 8)
        tile[threadIdx.y + row][threadIdx.x] = in[(y + row) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int row = 0; row < 32; row += 8)
        out[(y + row) * n + x] = tile[threadIdx.x][threadIdx.y + row];
}

/* Each row has one block of 256 threads, and two trees of nine barriers each. */
__global__ void softmax(const float *in, float *out, int cols)
{
    __shared__ float tree[256];
    int t = threadIdx.x, row = blockIdx.x * cols;
    float most = -INFINITY, sum = 0.0f;
    for (int col = t; col < cols; col += 256)
        most = fmaxf(most, in[row + col]);
    tree[t] = most;
    __syncthreads();
    for (int stride = 128; stride > 0; stride /= 2) {
        if (t < stride)
            tree[t] = fmaxf(tree[t], tree[t + stride]);
        __syncthreads();
    }
    most = tree[0];
    __syncthreads();
    for (int col = t; col < cols; col += 256)
        sum += expf(in[row + col] - most);
    tree[t] = sum;
    __syncthreads();
    for (int stride = 128; stride > 0; stride /= 2) {
        if (t < stride)
            tree[t] += tree[t + stride];
        __syncthreads();
    }
    for (int col = t; col < cols; col += 256)
        out[row + col] = expf(in[row + col] - most) / tree[0];
}

/* The device arrays have the largest program's size. */
static float *a, *b, *c;
static float *host_in, *host_out;

static void run(const char *program)
{
    if (!strcmp(program, "naive_matmul"))
        naive_matmul<<<dim3(32, 32), dim3(16, 16)>>>(a, b, c, 512);
    else if (!strcmp(program, "tiled_matmul"))
        tiled_matmul<<<dim3(32, 32), dim3(16, 16)>>>(a, b, c, 512);
    else if (!strcmp(program, "block_sums"))
        block_sums<<<dim3(65536), dim3(256)>>>(a, c);
    else if (!strcmp(program, "transpose"))
        transpose<<<dim3(128, 128), dim3(32, 8)>>>(a, c, 4096);
    else
        softmax<<<dim3(4096), dim3(256)>>>(a, c, 1024);
    if (cudaDeviceSynchronize() != cudaSuccess) {
        fprintf(stderr, "%s failed\n", program);
        exit(1);
    }
}

/* Returns what one element of the result should be. */
static double expected(const char *program, int i)
{
    double sum = 0.0;
    if (!strcmp(program, "naive_matmul") || !strcmp(program, "tiled_matmul"))
        for (int k = 0; k < 512; k++)
            sum += (double)host_in[i / 512 * 512 + k] * host_in[k * 512 + i % 512];
    else if (!strcmp(program, "block_sums"))
        for (int k = 0; k < 256; k++)
            sum += host_in[i * 256 + k];
    else if (!strcmp(program, "transpose"))
        sum = host_in[i % 4096 * 4096 + i / 4096];
    else {
        for (int k = 0; k < 1024; k++)
            sum += exp((double)host_in[i / 1024 * 1024 + k]);
        sum = exp((double)host_in[i]) / sum;
    }
    return sum;
}

int main(int argc, char **argv)
{
    const size_t count = 4096 * 4096, bytes = count * sizeof(float);
    if (argc != 3 || atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: cpu_peers PROGRAM RUNS\n");
        return 2;
    }
    const char *program = argv[1];
    const int runs = atoi(argv[2]);
    host_in = (float *)malloc(bytes);
    host_out = (float *)malloc(bytes);
    for (size_t i = 0; i < count; i++)
        host_in[i] = (float)(i * 2654435761u % 1000) / 1000.0f - 0.5f;
    cudaMalloc((void **)&a, bytes);
    cudaMalloc((void **)&b, bytes);
    cudaMalloc((void **)&c, bytes);
    cudaMemcpy(a, host_in, bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(b, host_in, bytes, cudaMemcpyHostToDevice);

    run(program); /* this first run creates memory and threads */
    clock_t begin = clock();
    for (int i = 0; i < runs; i++)
        run(program);
    double milliseconds = 1e3 * (double)(clock() - begin) / CLOCKS_PER_SEC / runs;

    cudaMemcpy(host_out, c, bytes, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 65536; i += 97) {
        if (fabs(host_out[i] - expected(program, i)) > 1e-3) {
            fprintf(stderr, "%s: element %d is %g, not %g\n", program, i, host_out[i],
                    expected(program, i));
            return 1;
        }
    }
    printf("%.2f\n", milliseconds);
    return 0;
}
