/*
 * bar.sync and bar.arrive join three warps in a row, each of which waits for the one before.
 *
 * racecheck (compute-sanitizer 2025.3, on an H100) reports `second`. It is mistaken: by PTX's
 * memory model a bar.arrive synchronizes with the bar.sync that it completes, and the machine code
 * keeps the order. racecheck follows the first pair, but not a warp that waits at one barrier and
 * then only arrives at the next; with bar.sync for that arrival it reports nothing.
 */
#include "launches.cuh"
#include <ptx.cuh>

__global__ void relay(const uint32_t *in, uint32_t *out)
{
    __shared__ uint32_t first[32], second[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0) {
        first[lane] = in[lane] + 1;
        named_barrier_arrive(1, 64); /* `first` is complete */
    } else if (warp == 1) {
        named_barrier_sync(1, 64);
        second[lane] = first[31 - lane] + 1;
        named_barrier_arrive(2, 64); /* `second` is complete */
    } else {
        named_barrier_sync(2, 64);
        out[lane] = second[31 - lane] + 1;
    }
}

PTX_KERNEL(named_barrier, relay<<<1, 96>>>(in, out))
