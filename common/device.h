/* What the current device can do, for launchers that choose by it. */
#ifndef COMMON_DEVICE_H
#define COMMON_DEVICE_H

#include <cuda_runtime.h>

/* One attribute of the current device; CUDA's error when there is none. */
static inline cudaError_t device_attribute(enum cudaDeviceAttr attribute, int *value)
{
    int device;
    const cudaError_t status = cudaGetDevice(&device);
    return status == cudaSuccess ? cudaDeviceGetAttribute(value, attribute, device) : status;
}

#endif
