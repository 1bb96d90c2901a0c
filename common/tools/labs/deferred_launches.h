/*
 * This stands between launchers and the device. A launcher starts kernels and does not wait for
 * them. So on the CPU deferred_launches_cpu.cpp keeps what it starts and runs it when all launchers
 * have returned: host code never runs after a kernel, and nothing that a kernel leaves behind can
 * reach it. On a GPU launches are asynchronous anyhow, and deferred_launches_gpu.c has nothing to
 * do.
 */
#ifndef LABS_DEFERRED_LAUNCHES_H
#define LABS_DEFERRED_LAUNCHES_H

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Defers launches and cudaMemsetAsync from here on. */
void defer_launches(void);

/*
 * Runs the deferred work in its order, up to the first that fails, and returns that error. *strays
 * counts what was not for `stream`.
 */
cudaError_t run_deferred(cudaStream_t stream, int *strays);

#ifdef __cplusplus
}
#endif

#endif
