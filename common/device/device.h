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

/* The peak of the current device's memory in GB/s: two transfers a clock. 0 if it does not say. */
static inline int memory_speed_of_device(void)
{
    int kHz, bits;
    return device_attribute(cudaDevAttrMemoryClockRate, &kHz) == cudaSuccess &&
                   device_attribute(cudaDevAttrGlobalMemoryBusWidth, &bits) == cudaSuccess
               ? (int)(2LL * kHz * (bits / 8) / 1000000)
               : 0;
}

/* Reads the limits of the current device. When there is no device, returns CUDA's error and limits
 * that allow nothing. */
static inline cudaError_t current_device(struct device_limits *limits)
{
    limits->architecture = backend_architecture();
    limits->multiprocessors = 1;
    limits->shared_bytes = 0;
    limits->memory_speed = memory_speed_of_device();
    const cudaError_t status =
        device_attribute(cudaDevAttrMultiProcessorCount, &limits->multiprocessors);
    return status == cudaSuccess
               ? device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &limits->shared_bytes)
               : status;
}

#endif
