#include "deferred_launches.h"

void defer_launches(void)
{
}

cudaError_t run_deferred(cudaStream_t stream, int *strays)
{
    (void)stream;
    *strays = 0;
    return cudaSuccess;
}
