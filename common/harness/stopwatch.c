#include "stopwatch.h"

#include <stdlib.h>

cudaError_t stopwatch_create(struct stopwatch *watch, cudaStream_t stream)
{
    *watch = (struct stopwatch){.stream = stream};
    struct cudaDeviceProp properties;
    cudaError_t status = cudaGetDeviceProperties(&properties, 0);
    if (status != cudaSuccess)
        return status;
    watch->flush_bytes =
        2 * (size_t)(properties.l2CacheSize > 0 ? properties.l2CacheSize : 1 << 20);
    if ((status = cudaMalloc(&watch->flush, watch->flush_bytes)) != cudaSuccess ||
        (status = cudaEventCreate(&watch->start)) != cudaSuccess ||
        (status = cudaEventCreate(&watch->stop)) != cudaSuccess)
        stopwatch_destroy(watch);
    return status;
}

void stopwatch_destroy(struct stopwatch *watch)
{
    if (watch->start)
        cudaEventDestroy(watch->start);
    if (watch->stop)
        cudaEventDestroy(watch->stop);
    cudaFree(watch->flush);
    *watch = (struct stopwatch){0};
}

cudaError_t stopwatch_start(struct stopwatch *watch)
{
    cudaError_t status;
    if ((status = cudaMemset(watch->flush, 0, watch->flush_bytes)) != cudaSuccess ||
        (status = cudaDeviceSynchronize()) != cudaSuccess)
        return status;
    return cudaEventRecord(watch->start, watch->stream);
}

cudaError_t stopwatch_stop(struct stopwatch *watch, float *milliseconds)
{
    cudaError_t status;
    if ((status = cudaDeviceSynchronize()) != cudaSuccess ||
        (status = cudaEventRecord(watch->stop, watch->stream)) != cudaSuccess ||
        (status = cudaEventSynchronize(watch->stop)) != cudaSuccess)
        return status;
    return cudaEventElapsedTime(milliseconds, watch->start, watch->stop);
}

static int ascending(const void *left, const void *right)
{
    const float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

float stopwatch_median(float *milliseconds, size_t count)
{
    if (count == 0)
        return 0.0f;
    qsort(milliseconds, count, sizeof *milliseconds, ascending);
    return count % 2 == 1 ? milliseconds[count / 2]
                          : (milliseconds[count / 2 - 1] + milliseconds[count / 2]) / 2;
}
