/*
 * Copy four elements a thread, and let the warp's addresses be neighbours.
 *
 * A block of 256 threads copies 1024 elements. Memory comes in sectors of 8 floats, and one load of
 * a warp should touch 4 of them. Which four elements does a thread take, and which one first?
 */
#include "common/harness/puzzle.cuh"

enum { EACH = 4 };

/* to[i] = from[i] for 0 <= i < n, EACH elements a thread */
__global__ void coalesce(const float *from, float *to, int n)
{
    const int first = blockIdx.x * blockDim.x * EACH + threadIdx.x;
    for (int e = 0; e < EACH; e++) {
        const int i = first + e * blockDim.x;
        if (i < n)
            to[i] = from[i];
    }
}

int main(void)
{
    for (int n : {1024, 4096, 1000, 5}) {
        const struct array from = numbers("from", n), to = unwritten("to", n);
        coalesce<<<(n + 1023) / 1024, 256>>>(from.device, to.device, n);
        for (int i = 0; i < n; i++)
            to.host[i] = from.host[i];
        check(to, "n = %d", n);
        at_most("sectors loaded", counted().global_load_sectors, (n + 7) / 8);
        at_most("sectors stored", counted().global_store_sectors, (n + 7) / 8);
    }
    return right();
}
