/* How launchers of the tests end. */
#ifndef TESTS_FINISHED_CUH
#define TESTS_FINISHED_CUH

#include <cuda_runtime.h>

/* Waits for the kernel; the error of its launch, or its own. */
static inline cudaError_t finished(void)
{
    const cudaError_t error = cudaGetLastError();
    return error != cudaSuccess ? error : cudaDeviceSynchronize();
}

#endif
