// 2D convolution with the filter in constant memory and a halo in shared memory.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define RADIUS 2
#define FILTER (2 * RADIUS + 1)
#define IN_TILE 16
#define OUT_TILE (IN_TILE - 2 * RADIUS)

__constant__ float F_c[FILTER][FILTER];
__constant__ const float bias = 0.5f;

__global__ void convolution_tiled_2D(const float *__restrict__ N, float *__restrict__ P, int width,
                                     int height)
{
    int col = blockIdx.x * OUT_TILE + threadIdx.x - RADIUS;
    int row = blockIdx.y * OUT_TILE + threadIdx.y - RADIUS;
    __shared__ float N_s[IN_TILE][IN_TILE];
    if (row >= 0 && row < height && col >= 0 && col < width)
        N_s[threadIdx.y][threadIdx.x] = __ldg(&N[row * width + col]);
    else
        N_s[threadIdx.y][threadIdx.x] = 0.0f;
    __syncthreads();
    int tileCol = threadIdx.x - RADIUS, tileRow = threadIdx.y - RADIUS;
    if (col >= 0 && col < width && row >= 0 && row < height)
        if (tileCol >= 0 && tileCol < OUT_TILE && tileRow >= 0 && tileRow < OUT_TILE) {
            float Pvalue = bias;
            for (int fRow = 0; fRow < FILTER; fRow++)
                for (int fCol = 0; fCol < FILTER; fCol++)
                    Pvalue += F_c[fRow][fCol] * N_s[tileRow + fRow][tileCol + fCol];
            P[row * width + col] = Pvalue;
        }
}

int main()
{
    const int width = 75, height = 50;
    float h_F[FILTER][FILTER], *N, *P, *d_N, *d_P;
    const size_t bytes = width * height * sizeof(float);
    N = (float *)malloc(bytes);
    P = (float *)malloc(bytes);
    for (int i = 0; i < FILTER * FILTER; i++)
        h_F[i / FILTER][i % FILTER] = (float)(i % 7) * 0.25f;
    for (int i = 0; i < width * height; i++)
        N[i] = (float)(i % 13) - 6.0f;
    cudaMemcpyToSymbol(F_c, h_F, FILTER * FILTER * sizeof(float));
    cudaMalloc((void **)&d_N, bytes);
    cudaMalloc((void **)&d_P, bytes);
    cudaMemcpy(d_N, N, bytes, cudaMemcpyHostToDevice);
    dim3 dimBlock(IN_TILE, IN_TILE);
    dim3 dimGrid(ceil(width / (float)OUT_TILE), ceil(height / (float)OUT_TILE));
    convolution_tiled_2D<<<dimGrid, dimBlock>>>(d_N, d_P, width, height);
    cudaError_t e = cudaMemcpy(P, d_P, bytes, cudaMemcpyDeviceToHost);
    if (e != cudaSuccess) {
        printf("%s\n", cudaGetErrorString(e));
        return 1;
    }
    for (int r = 0; r < height; r++)
        for (int c = 0; c < width; c++) {
            float want = 0.5f;
            for (int i = 0; i < FILTER; i++)
                for (int j = 0; j < FILTER; j++) {
                    int y = r + i - RADIUS, x = c + j - RADIUS;
                    if (y >= 0 && y < height && x >= 0 && x < width)
                        want += h_F[i][j] * N[y * width + x];
                }
            if (fabsf(want - P[r * width + c]) > 1e-4f) {
                printf("FAILED at %d, %d: %g, expected %g\n", r, c, P[r * width + c], want);
                return 1;
            }
        }
    printf("PASSED\n");
    return 0;
}
