/* What every launcher here ends with: the launch's error, or the kernel's. */
#ifndef TESTS_PTX_FINISHED_CUH
#define TESTS_PTX_FINISHED_CUH

#include <cuda_runtime.h>

static inline cudaError_t finished(void)
{
    const cudaError_t status = cudaGetLastError();
    return status != cudaSuccess ? status : cudaDeviceSynchronize();
}

#endif
