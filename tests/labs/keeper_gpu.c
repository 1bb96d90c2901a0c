#include "keeper.h"

void keeper_begin(void)
{
}

cudaError_t keeper_run(cudaStream_t stream, int *strays)
{
    (void)stream;
    *strays = 0;
    return cudaSuccess;
}
