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

/* The peak of the current device's memory in GB/s: two transfers a clock. 0 if it does not say.
 * What a device has told is kept: a driver takes longer to tell its clock than a short kernel runs.
 */
static inline int memory_speed_of_device(void)
{
    static int told[64]; /* one more than the speed; 0: not told yet */
    int device, kHz, bits;
    if (cudaGetDevice(&device) != cudaSuccess)
        return 0;
    const bool kept = device < (int)(sizeof told / sizeof *told);
    const int before = kept ? __atomic_load_n(&told[device], __ATOMIC_RELAXED) : 0;
    if (before > 0)
        return before - 1;
    const bool tells = device_attribute(cudaDevAttrMemoryClockRate, &kHz) == cudaSuccess &&
                       device_attribute(cudaDevAttrGlobalMemoryBusWidth, &bits) == cudaSuccess;
    const int speed = tells ? (int)(2LL * kHz * (bits / 8) / 1000000) : 0;
    if (kept && tells)
        __atomic_store_n(&told[device], speed + 1, __ATOMIC_RELAXED);
    return speed;
}

/* Reads the limits of the current device, but for its memory's speed: who needs that asks. When
 * there is no device, returns CUDA's error and limits that allow nothing. */
static inline cudaError_t current_device(struct device_limits *limits)
{
    limits->architecture = backend_architecture();
    limits->multiprocessors = 1;
    limits->shared_bytes = 0;
    limits->memory_speed = 0;
    const cudaError_t status =
        device_attribute(cudaDevAttrMultiProcessorCount, &limits->multiprocessors);
    return status == cudaSuccess
               ? device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &limits->shared_bytes)
               : status;
}

#endif
