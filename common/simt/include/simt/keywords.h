/* These are CUDA's keywords as g++ understands them. simtcc rewrites <<<>>>, __shared__. */
#pragma once

#include <vector_types.h>

/* simtcc has to see these. */
#ifndef __CUDACC__
#define __global__
#define __device__
#define __host__
#define __shared__
#define __launch_bounds__(...)
#define __constant__
#define __managed__
#endif
#define __cluster_dims__(...)                                                                      \
    SIMT_UNSUPPORTED("sizes of clusters at the kernel instead of the launch")
#define __grid_constant__
#define __maxnreg__(...)
#ifndef __clang__
#define __builtin_assume(condition) ((void)0) /* clang's and nvcc's */
#endif
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))

/* This is for lists of functions that are one expression. */
#define SIMT_INLINE(R, name, parameters, ...)                                                      \
    inline R name parameters { return __VA_ARGS__; }
