/* How the engine sets threadIdx and its relatives, which kernels see as constants. */
#ifndef SIMT_SRC_BUILTINS_H
#define SIMT_SRC_BUILTINS_H

#include "run/internal.h"

namespace simt
{

extern __thread uint3 thread_index __asm__("threadIdx");
extern __thread uint3 block_index __asm__("blockIdx");
extern __thread dim3 block_shape __asm__("blockDim");
extern __thread dim3 grid_shape __asm__("gridDim");

inline void set_thread_index(const Fiber &fiber)
{
    thread_index = uint3{fiber.x, fiber.y, fiber.z};
}

inline void set_block_index(const uint3 &index, const dim3 &block, const dim3 &grid)
{
    block_index = index;
    block_shape = block;
    grid_shape = grid;
}

} /* namespace simt */

#endif
