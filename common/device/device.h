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
    int memory_kHz = 0, memory_bits = 0;
    limits->architecture = backend_architecture();
    limits->multiprocessors = 1;
    limits->shared_bytes = 0;
    cudaError_t status = device_attribute(cudaDevAttrMultiProcessorCount, &limits->multiprocessors);
    if (status == cudaSuccess)
        status = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &limits->shared_bytes);
    if (status == cudaSuccess)
        status = device_attribute(cudaDevAttrMemoryClockRate, &memory_kHz);
    if (status == cudaSuccess)
        status = device_attribute(cudaDevAttrGlobalMemoryBusWidth, &memory_bits);
    /* two transfers a clock */
    limits->memory_speed = (int)(2LL * memory_kHz * (memory_bits / 8) / 1000000);
    return status;
}

#endif
