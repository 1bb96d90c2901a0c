/* The variables that each OS thread has for the block that it runs. */
#include "run/engine.h"

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

/* The largest that a launch can ask for. */
extern "C" {
__thread char simt_dynamic_memory[simt::dynamic_shared_offset + simt::max_shared_per_block]
    __attribute__((aligned(1024)));
}
__asm__(".globl simt_dynamic_shared\n"
        ".set simt_dynamic_shared, simt_dynamic_memory + 16\n"
        ".type simt_dynamic_shared, @tls_object\n");
static_assert(simt::dynamic_shared_offset == 16, "as it says above");

char *simt_aligned_dynamic_shared(void)
{
    simt::Worker &w = *simt::worker;
    if (w.dynamic_begin != simt_dynamic_memory) {
        w.dynamic_end -= w.dynamic_begin - simt_dynamic_memory;
        w.dynamic_begin = simt_dynamic_memory;
    }
    return simt_dynamic_memory;
}
