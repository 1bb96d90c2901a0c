/* Two streams work on the same state of the device. */
#include "features.h"

enum { BLOCKS = 40 };

__device__ int counters[2];

__global__ void begin_at_zero(int counter)
{
    counters[counter] = 0;
}

/* Each block draws a number. The numbers of a launch must be 0 to BLOCKS - 1. */
__global__ void draw_numbers(int *drawn, int counter)
{
    drawn[blockIdx.x] = atomicAdd(&counters[counter], 1);
}

int streams_that_count(int shared)
{
    int *drawn[2], lost = 0;
    cudaStream_t stream[2];
    for (int s = 0; s < 2; s++) {
        drawn[s] = shared_array<int>(BLOCKS);
        cudaStreamCreate(&stream[s]);
    }
    for (int s = 0; s < 2; s++) {
        const int counter = shared ? 0 : s;
        begin_at_zero<<<1, 1, 0, stream[s]>>>(counter);
        draw_numbers<<<BLOCKS, 1, 0, stream[s]>>>(drawn[s], counter);
    }
    const int wrong = wait_for_kernel();
    for (int s = 0; wrong >= 0 && s < 2; s++) {
        int seen[BLOCKS] = {0};
        for (int i = 0; i < BLOCKS; i++)
            if (drawn[s][i] >= 0 && drawn[s][i] < BLOCKS)
                seen[drawn[s][i]]++;
        for (int i = 0; i < BLOCKS; i++)
            lost += seen[i] != 1;
    }
    return wrong < 0 ? wrong : lost;
}
