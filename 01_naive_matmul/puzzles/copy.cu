/*
 * Copy an array, one thread an element.
 *
 * The launch has blocks of 256 threads and as many blocks as it takes, so the last block has
 * threads without an element. Which i is a thread's, and which threads have nothing to do?
 */
#include "common/harness/puzzle.cuh"

/* to[i] = from[i] for 0 <= i < n */
__global__ void copy(const float *from, float *to, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] = from[i];
}

int main(void)
{
    for (int n : {256, 1, 1000, 257}) {
        const struct array from = numbers("from", n), to = unwritten("to", n);
        copy<<<(n + 255) / 256, 256>>>(from.device, to.device, n);
        for (int i = 0; i < n; i++)
            to.host[i] = from.host[i];
        check(to, "n = %d", n);
    }
    return right();
}
