/*
 * The maximum of a warp, by shuffles.
 *
 * Each lane has one number. After five shuffles every lane knows the largest of the 32, without
 * shared memory and without a barrier. From which lane does a lane fetch in each of the five?
 */
#include "common/harness/puzzle.cuh"

/* to[i] = the largest of the 32 elements of from that the warp of thread i has */
__global__ void warp_max(const float *from, float *to)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float largest = from[i];
    for (int distance = 16; distance > 0; distance /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, distance));
    to[i] = largest;
}

int main(void)
{
    for (int blocks : {1, 3}) {
        const int n = blocks * 64;
        const struct array from = numbers("from", n), to = unwritten("to", n);
        for (int i = 0; i < n; i++) /* some warps have no number above 0 */
            from.host[i] -= i / 32 % 2 * 100.0f;
        to_device(from);
        warp_max<<<blocks, 64>>>(from.device, to.device);
        for (int i = 0; i < n; i++) {
            to.host[i] = from.host[i];
            for (int lane = 0; lane < 32; lane++)
                to.host[i] = fmaxf(to.host[i], from.host[i / 32 * 32 + lane]);
        }
        check(to, "blocks = %d of 64 threads", blocks);
        at_most("loads", counted().global_loads, n);
        at_most("loads from shared memory", counted().shared_loads, 0);
    }
    return right();
}
