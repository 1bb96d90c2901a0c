/*
 * Device memory is the kernels'. On a GPU host code cannot reach it; on the CPU it could, and would
 * then compute the result without a kernel. keeper_cpu.cpp closes the memory while a launcher runs
 * and opens it for kernels and cudaMemsetAsync alone; keeper_gpu.c has nothing to do.
 */
#ifndef LABS_KEEPER_H
#define LABS_KEEPER_H

#include <cuda_runtime.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From here to keeper_end(): `stream` is the only one to use, and those `count` allocations are
 * closed to the host. */
void keeper_begin(cudaStream_t stream, void *const *memory, const size_t *bytes, int count);
/* How many operations went to another stream. */
int keeper_end(void);

#ifdef __cplusplus
}
#endif

#endif
