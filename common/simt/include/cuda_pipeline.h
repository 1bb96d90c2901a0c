/* <cuda_pipeline.h>: asynchronous copies of one thread to shared memory, which are cp.async as
 * on a GPU. They are done when waited for; unfinished ones are reported. */
#pragma once

#include <cuda_runtime.h>

/* <ptx.cuh> takes these three from here. */
namespace ptx
{
void cp_async(uint32_t shared, const void *global, unsigned bytes, unsigned given, simt::Site site);
void cp_async_commit(void);
void cp_async_wait(unsigned pending);
} /* namespace ptx */

/* `bytes` is 4, 8 or 16, and divides both addresses. The last `zero_fill` become zero. */
__forceinline__ void __pipeline_memcpy_async(void *to, const void *from, size_t bytes,
                                             size_t zero_fill = 0, SIMT_CALL_SITE)
{
    ptx::cp_async(simt_shared_address(to), from, unsigned(bytes), unsigned(bytes - zero_fill),
                  site);
}

__forceinline__ void __pipeline_commit() { ptx::cp_async_commit(); }

/* Waits until all but the last `prior` commits are done. */
__forceinline__ void __pipeline_wait_prior(size_t prior) { ptx::cp_async_wait(unsigned(prior)); }
