/* The three kernels of 01_naive_matmul/warmup/warmup.cu, which tests/steps/warmup puts in their
 * place. */
__global__ void copy(const float *from, float *to, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] = from[i];
}

__global__ void transpose(const float *from, float *to, int rows, int cols)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows && col < cols)
        to[col * rows + row] = from[row * cols + col];
}

__global__ void row_sum(const float *from, float *sum, int rows, int cols)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float total = 0.0f;
        for (int col = 0; col < cols; col++)
            total += from[row * cols + col];
        sum[row] = total;
    }
}
