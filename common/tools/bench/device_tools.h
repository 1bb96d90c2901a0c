/* The benchmarks do this on the device, beside the kernels that they time. */
#ifndef TESTS_BENCH_DEVICE_TOOLS_H
#define TESTS_BENCH_DEVICE_TOOLS_H

#include "harness/problem.h"

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fills `count` elements at `data` with standard normal numbers, a function of (seed, index). */
cudaError_t fill_normal(void *data, enum tensor_type type, size_t count, uint64_t seed,
                        cudaStream_t stream);

/* Sets *relative = ||out - expected|| / ||expected||, or NaN where an element is NaN. Waits for the
 * stream. */
cudaError_t relative_difference(const void *out, const void *expected, enum tensor_type type,
                                size_t count, double *relative, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
