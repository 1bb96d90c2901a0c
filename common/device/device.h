/* Launchers choose by what the current device can do. */
#ifndef COMMON_DEVICE_H
#define COMMON_DEVICE_H

#include "backend.h"
#include "tiles.cuh"

#include <cuda_runtime.h>

/* Reads one attribute of the current device. Returns CUDA's error when there is no device. */
static inline cudaError_t device_attribute(enum cudaDeviceAttr attribute, int *value)
{
    int device;
    const cudaError_t status = cudaGetDevice(&device);
    return status == cudaSuccess ? cudaDeviceGetAttribute(value, attribute, device) : status;
}

/* Reads the limits of the current device. When there is no device, returns CUDA's error and limits
 * that allow nothing. */
static inline cudaError_t current_device(struct device_limits *limits)
{
    limits->architecture = backend_architecture();
    limits->multiprocessors = 1;
    limits->shared_bytes = 0;
    const cudaError_t status =
        device_attribute(cudaDevAttrMultiProcessorCount, &limits->multiprocessors);
    return status == cudaSuccess
               ? device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &limits->shared_bytes)
               : status;
}

#endif
