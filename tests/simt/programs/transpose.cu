// Matrix transpose: through shared memory with a padded tile, against the naive one.
#include <stdio.h>
#include <stdlib.h>

const int TILE_DIM = 32;
const int BLOCK_ROWS = 8;

__global__ void transposeNaive(float *odata, const float *idata, int width, int height)
{
    int x = blockIdx.x * TILE_DIM + threadIdx.x;
    int y = blockIdx.y * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < width && y + j < height)
            odata[x * height + (y + j)] = idata[(y + j) * width + x];
}

__global__ void transposeNoBankConflicts(float *odata, const float *idata, int width, int height)
{
    __shared__ float tile[TILE_DIM][TILE_DIM + 1];
    int x = blockIdx.x * TILE_DIM + threadIdx.x;
    int y = blockIdx.y * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < width && y + j < height)
            tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE_DIM + threadIdx.x;
    y = blockIdx.x * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < height && y + j < width)
            odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

int main(void)
{
    const int width = 100, height = 70;
    const size_t bytes = width * height * sizeof(float);
    float *h_in = (float *)malloc(bytes), *h_out = (float *)malloc(bytes), *d_in, *d_out;
    for (int i = 0; i < width * height; i++)
        h_in[i] = (float)i;
    cudaMalloc(&d_in, bytes);
    cudaMalloc(&d_out, bytes);
    cudaMemcpy(d_in, h_in, bytes, cudaMemcpyHostToDevice);
    dim3 dimGrid((width + TILE_DIM - 1) / TILE_DIM, (height + TILE_DIM - 1) / TILE_DIM, 1);
    dim3 dimBlock(TILE_DIM, BLOCK_ROWS, 1);
    void (*kernels[])(float *, const float *, int, int) = {transposeNaive,
                                                           transposeNoBankConflicts};
    for (int k = 0; k < 2; k++) {
        cudaMemset(d_out, 0, bytes);
        kernels[k]<<<dimGrid, dimBlock>>>(d_out, d_in, width, height);
        cudaMemcpy(h_out, d_out, bytes, cudaMemcpyDeviceToHost);
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++)
                if (h_out[x * height + y] != h_in[y * width + x]) {
                    printf("kernel %d: FAILED at (%d, %d)\n", k, x, y);
                    return EXIT_FAILURE;
                }
    }
    printf("PASSED\n");
    return cudaDeviceSynchronize() == cudaSuccess ? EXIT_SUCCESS : EXIT_FAILURE;
}
