/* The backend imitates this device, everywhere the same, so that counts are too. SIMT_ARCH may
 * ask for more, of other architectures and limits, with memory and streams in common. */
#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>
#include <string>
#include <vector>

namespace simt
{

constexpr unsigned warp_size = 32;
constexpr unsigned max_block_threads = 1024;
constexpr int multiprocessors = 8;       /* of the first device, ... */
constexpr int other_multiprocessors = 4; /* and of each other */
constexpr int max_threads_per_multiprocessor = 2048;
constexpr int max_blocks_per_multiprocessor = 32;
constexpr size_t default_dynamic_shared = 48 << 10;
constexpr size_t max_shared_per_block = 227 << 10; /* on any architecture */

/* Each host thread has a current device: the first, if SIMT_ARCH no longer lists it. */
int current_device();
int architecture_of_device(); /* the current one: 75 for a T4 */
int multiprocessors_of_device();

/* While one of these lives, that device is the current one. */
class OnDevice
{
    const int before;

  public:
    explicit OnDevice(int device);
    ~OnDevice();
};

/* The architecture that SIMT_ARCH models has this much for blocks, in bytes. */
struct SharedMemory {
    size_t per_multiprocessor;
    size_t reserved_per_block; /* for the system */
    size_t per_block_optin;    /* what cudaFuncSetAttribute allows at most */
};

SharedMemory shared_memory();

size_t static_shared_bytes(const void *kernel);

/* Returns what cudaFuncSetAttribute allowed, or 48 KB less the static shared memory. */
size_t dynamic_shared_limit(const void *kernel);

/* Returns how many blocks of this kernel one multiprocessor holds at a time; 0 if none fits. */
int resident_blocks(const void *kernel, unsigned threads, size_t dynamic_shared);

/* ---- symbols.cpp: what the program's own symbol table says about kernels ---- */

/* This is a static __shared__ variable: where it lies in each worker's thread-local storage. */
struct SharedVariable {
    size_t offset, bytes;
};

/* It has what is known of a function: nothing, if the symbol table does not have it. */
struct Function {
    std::string symbol;
    std::string name, signature;        /* "tile<16>", "void tile<16>(float*)" */
    std::vector<SharedVariable> shared; /* those that it declares itself */
};

const Function &function_at(const void *entry); /* the reference stays valid */

/* Returns the names of a kernel with so many parameters; none where they are not known. */
std::vector<std::string> parameter_names(const std::string &kernel, size_t count);

/* Finds the last static __shared__ variable that begins at or before an offset in thread-local
 * storage. Returns its name ("" when there is none), where it begins, and how large it is. */
std::string shared_variable_before(size_t offset, size_t *begin, size_t *bytes);

} /* namespace simt */
