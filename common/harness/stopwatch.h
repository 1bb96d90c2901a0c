/*
 * Device events time the kernels.
 *
 * Every lap starts with a cold L2 cache (a buffer of twice its size is overwritten) and an idle
 * device. It stops only when the whole device is idle again, so work that hides on another stream
 * is counted. This costs a few microseconds per lap: a kernel that runs for less than about 20 µs
 * appears too slow.
 */
#ifndef COMMON_STOPWATCH_H
#define COMMON_STOPWATCH_H

#include <cuda_runtime.h>
#include <stddef.h>

struct stopwatch {
    cudaEvent_t start, stop;
    void *flush; /* device memory */
    size_t flush_bytes;
    cudaStream_t stream;
};

/* Prepares to time work on `stream`. Returns CUDA's error, and then *watch is empty. */
cudaError_t stopwatch_create(struct stopwatch *watch, cudaStream_t stream);
void stopwatch_destroy(struct stopwatch *watch);

/* Begin and end a lap. *milliseconds is the time between the two on the device. */
cudaError_t stopwatch_start(struct stopwatch *watch);
cudaError_t stopwatch_stop(struct stopwatch *watch, float *milliseconds);

/* Sorts the times of count laps and returns the median, 0 for no laps. */
float stopwatch_median(float *milliseconds, size_t count);

#endif
