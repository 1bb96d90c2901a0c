/*
 * From two indices to one.
 *
 * A matrix of `rows` rows and `cols` columns lies in memory row after row. Each thread has one
 * element: x counts columns and y counts rows, in blocks of 16 x 16. Write the product of a row's
 * number in `a` and a column's number in `b` to the place of that element.
 */
#include "common/harness/puzzle.cuh"

/* element (row, col) of to = a[row] * b[col] */
__global__ void outer(const float *a, const float *b, float *to, int rows, int cols)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows && col < cols)
        to[row * cols + col] = a[row] * b[col];
}

int main(void)
{
    for (int rows : {16, 5, 37})
        for (int cols : {16, 53}) {
            const struct array a = numbers("a", rows), b = numbers("b", cols);
            const struct array to = unwritten("to", rows * cols);
            outer<<<dim3((cols + 15) / 16, (rows + 15) / 16), dim3(16, 16)>>>(
                a.device, b.device, to.device, rows, cols);
            for (int i = 0; i < rows * cols; i++)
                to.host[i] = a.host[i / cols] * b.host[i % cols];
            check(to, "rows = %d, cols = %d", rows, cols);
        }
    return right();
}
