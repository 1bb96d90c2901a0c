/*
 * More elements than threads.
 *
 * The launch has 4 blocks of 128 threads, however long the arrays are. Each thread takes an
 * element, then the one that lies as many further on as there are threads in the grid, and so on.
 */
#include "common/harness/puzzle.cuh"

/* y[i] = 2 * x[i] for 0 <= i < n */
__global__ void stride(const float *x, float *y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = 2.0f * x[i];
}

int main(void)
{
    for (int n : {512, 100, 513, 10000}) {
        const struct array x = numbers("x", n), y = unwritten("y", n);
        stride<<<4, 128>>>(x.device, y.device, n);
        for (int i = 0; i < n; i++)
            y.host[i] = 2.0f * x.host[i];
        check(y, "n = %d", n);
        at_most("stores", counted().global_stores, n);
        at_most("sectors loaded", counted().global_load_sectors, (n + 7) / 8);
    }
    return right();
}
