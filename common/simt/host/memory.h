/* Device memory: allocations in a reserved range of addresses. */
#pragma once

#include "host/checker.h"
#include <csignal>
#include <cuda_runtime_api.h>
#include <string>

namespace simt
{

/* memory.cpp says how allocations lie in the arena. */
struct Allocation {
    char *begin;
    size_t bytes; /* as asked for */
    cudaMemoryType type;
    bool open; /* anybody may touch it now */
    bool freed;
    unsigned long long number; /* from 1, in order of allocation */
    check::Region *checked;

    bool for_host_too() const { return type != cudaMemoryTypeDevice; }
};

bool in_device_arena(const void *address);
/* Returns the allocation (alive or freed) that begins last at or below `address`, or null. */
const Allocation *find_allocation(const void *address);

size_t page_bytes();

/* Returns the host's address of a host pointer that the fast build gave a kernel; 0 for others. */
uintptr_t guarded_pointer(const void *address);

size_t device_memory_bytes();

/* Returns whether [begin, begin + bytes) lies within one living allocation. */
bool is_device_range(const void *begin, size_t bytes);

/* While one of these exists, device memory can be touched: in launches and copies. At other times
 * host code that follows a device pointer faults, as on a machine with a GPU. */
struct OpenDeviceMemory {
    /* Opens the allocations with these addresses, if they are device memory; null opens all. */
    explicit OpenDeviceMemory(const void *one = nullptr, const void *other = nullptr);
    ~OpenDeviceMemory();
    OpenDeviceMemory(const OpenDeviceMemory &) = delete;
    OpenDeviceMemory &operator=(const OpenDeviceMemory &) = delete;
};

cudaError_t allocate(void **pointer, size_t bytes, cudaMemoryType type);
/* Copies a memory pool's attribute to one place or from the other, of which one is null. */
cudaError_t pool_attribute(cudaMemPoolAttr attribute, void *to, const void *from);

/* They serve device code: null when none is left, false when no allocation begins there. */
void *allocate_in_kernel(size_t bytes);
bool free_in_kernel(void *pointer);

/* These are cudaMemcpy and cudaMemset, under whatever name they are called. */
cudaError_t copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, const char *call);
cudaError_t fill(void *pointer, int value, size_t bytes, const char *call,
                 cudaStream_t stream = cudaStreamLegacy);

/* Puts a fill off until something asks for the stream's results; false where streams do not wait.
 * Null in a program without launches. */
extern bool (*put_off_fill)(void *pointer, int value, size_t bytes, cudaStream_t stream);

void free_all_device_memory();

/* ---- fault.cpp: signals that bad addresses and bad arithmetic raise ---- */

/* The handler is asked first. It does not return when the fault is a kernel's. */
typedef void fault_handler(int signal, const siginfo_t *info);

/* From now on host code that follows a device pointer is told so, and the handler is asked. */
void catch_faults(fault_handler *in_kernels);

/* Returns "0x..., 12 bytes past the end of allocation 3 (400 bytes)", or what else is known. */
std::string describe_address(const void *address);

} /* namespace simt */
