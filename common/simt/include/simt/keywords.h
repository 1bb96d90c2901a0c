/* CUDA's keywords as g++ understands them. The rest (<<<>>>, extern __shared__) is rewritten by
 * simtcc. */
#ifndef SIMT_KEYWORDS_H
#define SIMT_KEYWORDS_H

#include <vector_types.h>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#ifndef __clang__
#define __builtin_assume(condition) ((void)0) /* clang's and nvcc's */
#endif
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))

/*
 * One worker runs one block at a time, so a block's shared memory is a variable of its OS thread.
 * __constinit keeps g++ from guarding arrays of class type, which cannot have a run-time
 * initialiser in CUDA either. The checked build must see reads of an array that nobody writes,
 * which g++ folds to zero unless the array is "used". Arrays begin at multiples of 16, as they do
 * on a GPU when their sizes are such, because programs read arrays of float as float4.
 */
#if defined(__clang__)
#define __shared__ __attribute__((aligned(16))) static __thread
#elif defined(__SANITIZE_THREAD__)
#define __shared__ __attribute__((used, aligned(16))) static __thread __constinit
#else
#define __shared__ __attribute__((aligned(16))) static __thread __constinit
#endif

#endif
