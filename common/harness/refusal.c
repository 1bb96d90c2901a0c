#include "refusal.h"

#include "device/backend.h"
#include "device/device.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char sentence[256];

cudaError_t refuse(cudaError_t error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return error;
}

const char *refusal(void)
{
    return sentence;
}

void refusal_clear(void)
{
    sentence[0] = '\0';
}

cudaError_t require_device(const struct kernel *kernel)
{
    if (kernel->architecture == NULL || kernel->falls_back)
        return cudaSuccess;
    const int device = backend_architecture();
    char *suffix;
    const int needed = (int)strtol(kernel->architecture + strlen("sm_"), &suffix, 10);
    if (device < needed)
        return refuse(cudaErrorNotSupported, "needs %s (this device is sm_%d)",
                      kernel->architecture, device);
    if (*suffix == 'a' && device > needed)
        return refuse(cudaErrorNotSupported,
                      "needs %s, of which later architectures dropped instructions (this device is "
                      "sm_%d)",
                      kernel->architecture, device);
    return cudaSuccess;
}

void launch_begins(void)
{
    cudaGetLastError();
}

cudaError_t launch_ends(cudaError_t status)
{
    if (status != cudaSuccess)
        cudaGetLastError();
    return status;
}

cudaError_t require_size(const char *name, int size)
{
    if (size < 0 || size > MAX_EXTENT)
        return refuse(cudaErrorInvalidValue, "%s is %d; it must be in 0 .. %d", name, size,
                      MAX_EXTENT);
    return cudaSuccess;
}

cudaError_t require_blocks(size_t blocks)
{
    if (blocks > INT_MAX)
        return refuse(cudaErrorInvalidValue, "these sizes need %zu blocks; a grid holds at most %d",
                      blocks, INT_MAX);
    return cudaSuccess;
}

cudaError_t require_shared(size_t bytes)
{
    int limit;
    const cudaError_t status = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &limit);
    if (status == cudaSuccess && bytes > (size_t)limit)
        return refuse(cudaErrorNotSupported,
                      "needs %zu bytes of shared memory per block (this device has %d)", bytes,
                      limit);
    return status;
}

cudaError_t require_pointer(const char *name, const void *pointer, size_t bytes, size_t alignment)
{
    if (bytes == 0)
        return cudaSuccess;
    if (pointer == NULL)
        return refuse(cudaErrorInvalidValue,
                      "%s is null; it must point to %zu bytes of device memory", name, bytes);
    if ((uintptr_t)pointer % alignment != 0)
        return refuse(cudaErrorInvalidValue, "%s is %p; it must be aligned to %zu bytes", name,
                      pointer, alignment);
    return cudaSuccess;
}

cudaError_t require_disjoint(const char *name_a, const void *a, size_t bytes_a, const char *name_b,
                             const void *b, size_t bytes_b)
{
    uintptr_t begin_a = (uintptr_t)a, begin_b = (uintptr_t)b;
    if (bytes_a > 0 && bytes_b > 0 && begin_a < begin_b + bytes_b && begin_b < begin_a + bytes_a)
        return refuse(cudaErrorInvalidValue,
                      "%s and %s overlap; an output may not share memory with another array",
                      name_a, name_b);
    return cudaSuccess;
}
