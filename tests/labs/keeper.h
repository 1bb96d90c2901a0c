/*
 * Between launchers and the device. A launcher starts kernels and does not wait for them, so on the
 * CPU keeper_cpu.cpp keeps what it starts and runs it when all launchers have returned: host code
 * never runs after a kernel, and nothing that a kernel leaves behind can reach it. A GPU needs no
 * keeper; keeper_gpu.c has nothing to do.
 */
#ifndef LABS_KEEPER_H
#define LABS_KEEPER_H

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From here on launches and cudaMemsetAsync are kept. */
void keeper_begin(void);

/*
 * Runs them in their order, up to the first that fails, whose error it returns. *strays is how many
 * were not for `stream`.
 */
cudaError_t keeper_run(cudaStream_t stream, int *strays);

#ifdef __cplusplus
}
#endif

#endif
