/* Device memory: allocations in a reserved range of addresses. */
#ifndef SIMT_MEMORY_H
#define SIMT_MEMORY_H

#include "internal.h"

namespace simt
{

/* What cudaGetDeviceProperties and cudaMemGetInfo call the device's memory. */
size_t device_memory_bytes();

/* True if [begin, begin + bytes) lies within one living allocation. */
bool is_device_range(const void *begin, size_t bytes);

/* Host code may only touch managed memory; kernels and copies may touch all. Calls nest. */
void open_device_memory();
void close_device_memory();

/* cudaDeviceReset. */
void free_all_device_memory();

} /* namespace simt */

#endif
