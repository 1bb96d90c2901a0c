/* This declares what nvcc's header of that name declares. C programs get the host functions, C++
 * programs also the typed forms, kernel launches and the device side. */
#pragma once
#define __CUDA_RUNTIME_H__ /* programs ask for it, as in driver_types.h */

#if defined(SIMT_CHECKED) && defined(__cplusplus)
#include <stddef.h>
/* In the checked build, memcpy and its relatives call the checker in code compiled with the
 * kernels, because the compiler does not announce them. This comes before <string.h>. */
extern "C" {
void *memcpy(void *to, const void *from, size_t bytes) noexcept __asm__("simt_memcpy");
void *memmove(void *to, const void *from, size_t bytes) noexcept __asm__("simt_memmove");
void *memset(void *to, int value, size_t bytes) noexcept __asm__("simt_memset");
}
#endif
#undef SIMT_CHECKED /* no program can ask for it */

#include <cuda_runtime_api.h>
/* These are for C too, as in nvcc's header: host and device share small functions. */
#include <simt/keywords.h>

#ifdef __cplusplus

/* nvcc's header includes these by itself, and programs have come to rely on them. */
#include <assert.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <math.h>
#include <time.h>

#include <simt/api.h>
#include <simt/launch.h>
#include <simt/builtins.h>
#include <simt/collectives.h>
#include <simt/atomics.h>
#include <simt/math.h>

#endif
