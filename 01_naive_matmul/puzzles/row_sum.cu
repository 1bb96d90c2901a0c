/*
 * Sum the rows of a matrix, one thread a row.
 *
 * A thread goes along its row, keeps the sum in a variable and stores it once. Blocks of 256
 * threads.
 */
#include "common/harness/puzzle.cuh"

/* sum[row] = the sum of the `cols` elements of this row of from */
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

int main(void)
{
    for (int rows : {256, 37, 300})
        for (int cols : {1, 53}) {
            const struct array from = numbers("from", rows * cols);
            const struct array sum = unwritten("sum", rows);
            row_sum<<<(rows + 255) / 256, 256>>>(from.device, sum.device, rows, cols);
            for (int i = 0; i < rows * cols; i++)
                sum.host[i / cols] += from.host[i];
            check(sum, "rows = %d, cols = %d", rows, cols);
            at_most("stores", counted().global_stores, rows);
        }
    return right();
}
