/* The variables that each OS thread has for the block that it runs. */
#include "run/builtins.h"

namespace simt
{

__thread Index thread_index __asm__("threadIdx");
__thread uint3 block_index __asm__("blockIdx");
__thread dim3 block_shape __asm__("blockDim");
__thread dim3 grid_shape __asm__("gridDim");

bool is_builtin(const void *address)
{
    const char *p = static_cast<const char *>(address);
    for (const void *each :
         {static_cast<const void *>(&thread_index), static_cast<const void *>(&block_index),
          static_cast<const void *>(&block_shape), static_cast<const void *>(&grid_shape)}) {
        const char *begin = static_cast<const char *>(each);
        if (p >= begin && p < begin + sizeof(uint3))
            return true;
    }
    return false;
}

} /* namespace simt */

/* The largest block that a launch can ask for; aligned for everything that wants shared memory
 * aligned. */
__thread char simt_dynamic_shared[simt::max_shared_per_block] __attribute__((aligned(1024)));
