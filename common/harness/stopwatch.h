/*
 * Timing with device events.
 *
 * Every lap starts with a cold L2 cache (a buffer twice its size is overwritten) and an idle
 * device, and stops only when the whole device is idle again, so work that hides on another stream
 * is counted. That costs a few microseconds a lap: a kernel that runs for less than about 20 of
 * them appears too slow.
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

/* Begins and ends a lap; *milliseconds is the time between the two on the device. */
cudaError_t stopwatch_start(struct stopwatch *watch);
cudaError_t stopwatch_stop(struct stopwatch *watch, float *milliseconds);

/* The median of count laps; sorts them. 0 for none. */
float stopwatch_median(float *milliseconds, size_t count);

#endif
