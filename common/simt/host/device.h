/* The backend imitates this device. It is everywhere the same, so that counts are too. */
#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>

namespace simt
{

constexpr unsigned warp_size = 32;
constexpr unsigned max_block_threads = 1024;
constexpr int multiprocessors = 8;
constexpr int max_threads_per_multiprocessor = 2048;
constexpr int max_blocks_per_multiprocessor = 32;
constexpr size_t default_dynamic_shared = 48 << 10;
constexpr size_t max_shared_per_block = 227 << 10; /* on any architecture */

/* The architecture that SIMT_ARCH models has this much for blocks, in bytes. */
struct SharedMemory {
    size_t per_multiprocessor;
    size_t reserved_per_block; /* for the system */
    size_t per_block_optin;    /* what cudaFuncSetAttribute allows at most */
};

SharedMemory shared_memory();

/* Returns the kernel's static shared memory, as far as the program's symbols tell. */
size_t static_shared_bytes(const void *kernel);

/* Returns what cudaFuncSetAttribute allowed for the kernel, or 48 KB less its static shared
 * memory. */
size_t dynamic_shared_limit(const void *kernel);

/* Returns how many blocks of this kernel one multiprocessor holds at a time; 0 where not even one
 * fits. */
int resident_blocks(const void *kernel, unsigned threads, size_t dynamic_shared);

} /* namespace simt */
