/* threadIdx and its relatives, which kernels see as constants and the engine sets. */
#pragma once

#include "run/state.h"

namespace simt
{

extern __thread Index thread_index __asm__("threadIdx") SIMT_OWN;
extern __thread uint3 block_index __asm__("blockIdx") SIMT_OWN;
extern __thread dim3 block_shape __asm__("blockDim") SIMT_OWN;
extern __thread dim3 grid_shape __asm__("gridDim") SIMT_OWN;

inline void set_block_index(const uint3 &index, const dim3 &block, const dim3 &grid)
{
    block_index = index;
    block_shape = block;
    grid_shape = grid;
}

/* Whether an address is part of one of them: they lie among the calling OS thread's shared
 * variables. */
bool is_builtin(const void *address);

} /* namespace simt */
