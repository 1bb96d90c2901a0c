/* Launchers of the tests end with finished(). */
#ifndef TESTS_FINISHED_CUH
#define TESTS_FINISHED_CUH

#include <cuda_runtime.h>

/* Waits for the kernel. Returns the error of its launch, or its own. */
static inline cudaError_t finished(void)
{
    const cudaError_t error = cudaGetLastError();
    return error != cudaSuccess ? error : cudaDeviceSynchronize();
}

#endif
