/* __nv_bfloat16, __nv_bfloat162 and their functions. */
#pragma once

#include <cuda_runtime.h>
#include <simt/half_bits.h>

#define SIMT_HALF __nv_bfloat16
#define SIMT_HALF2 __nv_bfloat162
#define SIMT_FORMAT simt::Brain16
#define SIMT_NAMED(before, after) before##bfloat16##after
#include <simt/half_functions.inc>

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

SIMT_INLINE(__nv_bfloat162, __bfloat162bfloat162, (__nv_bfloat16 value), {value, value})
