/*
 * Between launchers and the device. A launcher starts kernels and does not wait for them, so on the
 * CPU deferred_launches_cpu.cpp keeps what it starts and runs it when all launchers have returned:
 * host code never runs after a kernel, and nothing that a kernel leaves behind can reach it. On a
 * GPU launches are asynchronous anyhow; deferred_launches_gpu.c has nothing to do.
 */
#ifndef LABS_DEFERRED_LAUNCHES_H
#define LABS_DEFERRED_LAUNCHES_H

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From here on launches and cudaMemsetAsync are deferred. */
void defer_launches(void);

/*
 * Runs them in their order, up to the first that fails, whose error it returns. *strays is how many
 * were not for `stream`.
 */
cudaError_t run_deferred(cudaStream_t stream, int *strays);

#ifdef __cplusplus
}
#endif

#endif
