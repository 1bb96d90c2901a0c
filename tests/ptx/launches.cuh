/* How the launchers here are written. */
#ifndef TESTS_PTX_LAUNCHES_CUH
#define TESTS_PTX_LAUNCHES_CUH

#include "ptx_kernels.h"

/* What every launcher ends with: the launch's error, or the kernel's. */
static inline cudaError_t finished(void)
{
    const cudaError_t status = cudaGetLastError();
    return status != cudaSuccess ? status : cudaDeviceSynchronize();
}

/* A launcher of these statements, which read words at `in` and write words at `out`. */
#define PTX_KERNEL(name, ...)                                                                      \
    cudaError_t ptx_##name(const uint32_t *in, uint32_t *out)                                      \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
        return finished();                                                                         \
    }

#endif
