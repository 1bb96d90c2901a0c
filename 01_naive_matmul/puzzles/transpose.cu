/*
 * Transpose a matrix, one thread an element.
 *
 * `from` has `rows` rows and `cols` columns, `to` has `cols` rows and `rows` columns. Blocks are of
 * 16 x 16 threads, x along a row of `from`. When it is right, count: of the load and the store,
 * which one do neighbouring threads make to neighbouring addresses?
 */
#include "common/harness/puzzle.cuh"

/* element (col, row) of to = element (row, col) of from */
__global__ void transpose(const float *from, float *to, int rows, int cols)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows && col < cols)
        to[col * rows + row] = from[row * cols + col];
}

int main(void)
{
    for (int rows : {16, 37})
        for (int cols : {16, 53}) {
            const struct array from = numbers("from", rows * cols);
            const struct array to = unwritten("to", rows * cols);
            transpose<<<dim3((cols + 15) / 16, (rows + 15) / 16), dim3(16, 16)>>>(
                from.device, to.device, rows, cols);
            for (int row = 0; row < rows; row++)
                for (int col = 0; col < cols; col++)
                    to.host[col * rows + row] = from.host[row * cols + col];
            check(to, "rows = %d, cols = %d", rows, cols);
        }
    return right();
}
