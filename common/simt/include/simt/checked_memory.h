/*
 * In the checked build, memcpy and its relatives in code compiled with the kernels call functions
 * of the checker, which see what they touch: the compiler does not announce it. To be included
 * before <string.h>.
 */
#pragma once

#if defined(__SANITIZE_THREAD__) && defined(__cplusplus)

#include <stddef.h>

extern "C" {
void *memcpy(void *to, const void *from, size_t bytes) noexcept __asm__("simt_memcpy");
void *memmove(void *to, const void *from, size_t bytes) noexcept __asm__("simt_memmove");
void *memset(void *to, int value, size_t bytes) noexcept __asm__("simt_memset");
}

#endif
