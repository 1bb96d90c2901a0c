/* __half (IEEE binary16), __half2 and their functions. */
#pragma once

#include <cuda_runtime.h>

#ifndef __cplusplus

typedef struct {
    unsigned short __x;
} __half;
typedef struct __attribute__((aligned(4))) {
    __half x, y;
} __half2;

#else

#include <simt/half_bits.h>

#define SIMT_HALF __half
#define SIMT_HALF2 __half2
#define SIMT_FORMAT simt::Binary16
#define SIMT_NAMED(before, after) before##half##after
#include <simt/half_functions.inc>

typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;

#define CUDART_INF_FP16 __half::of_bits(0x7c00)
#define CUDART_NAN_FP16 __half::of_bits(0x7fff)
#define CUDART_ZERO_FP16 __half::of_bits(0x0000)
#define CUDART_ONE_FP16 __half::of_bits(0x3c00)
#define CUDART_MAX_NORMAL_FP16 __half::of_bits(0x7bff)

SIMT_INLINE(__half2, __half2half2, (__half value), {value, value})

#endif
