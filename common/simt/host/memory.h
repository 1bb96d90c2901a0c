/* Device memory: allocations in a reserved range of addresses. */
#ifndef SIMT_MEMORY_H
#define SIMT_MEMORY_H

#include "run/internal.h"

namespace simt
{

/* What cudaGetDeviceProperties and cudaMemGetInfo call the device's memory. */
size_t device_memory_bytes();

/* True if [begin, begin + bytes) lies within one living allocation. */
bool is_device_range(const void *begin, size_t bytes);

/*
 * While one of these exists, device memory can be touched: during launches and copies. At other
 * times only managed memory can, so that host code which follows a device pointer faults, as it
 * does on a machine with a GPU.
 */
class OpenDeviceMemory
{
  public:
    OpenDeviceMemory();
    ~OpenDeviceMemory();
    OpenDeviceMemory(const OpenDeviceMemory &) = delete;
    OpenDeviceMemory &operator=(const OpenDeviceMemory &) = delete;
};

/* cudaDeviceReset. */
void free_all_device_memory();

} /* namespace simt */

#endif
