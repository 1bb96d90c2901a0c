/* Properties, attributes and occupancy of the device that the backend pretends to be. */
#include "host/device.h"
#include "host/checker.h"
#include "host/errors.h"
#include "host/memory.h"
#include "host/environment.h"
#include "host/symbols.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

namespace simt
{

static std::mutex mutex;
static std::map<const void *, size_t>
    raised_limits; /* kernel -> cudaFuncAttributeMaxDynamicSharedMemorySize */

/* The architecture, or 90 with the complaint left for the next launch, which fails. */
static int architecture()
{
    int value;
    read_architecture(&value);
    return value;
}

/* CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". */
SharedMemory shared_memory()
{
    const int arch = architecture();
    const size_t per_multiprocessor = arch < 75                  ? 96 << 10
                                      : arch < 80                ? 64 << 10
                                      : arch == 80 || arch == 87 ? 164 << 10
                                      : arch < 90 || arch >= 120 ? 100 << 10
                                                                 : 228 << 10;
    const size_t reserved = arch < 80 ? 0 : 1 << 10;
    return {per_multiprocessor, reserved, per_multiprocessor - reserved};
}

size_t static_shared_bytes(const void *kernel)
{
    size_t bytes = 0;
    for (const SharedVariable &variable : shared_variables(kernel))
        bytes += variable.bytes;
    return bytes;
}

size_t dynamic_shared_limit(const void *kernel)
{
    std::lock_guard<std::mutex> lock(mutex);
    auto found = raised_limits.find(kernel);
    if (found != raised_limits.end())
        return found->second;
    size_t fixed = static_shared_bytes(kernel);
    return fixed < default_dynamic_shared ? default_dynamic_shared - fixed : 0;
}

void forget_kernel_attributes()
{
    std::lock_guard<std::mutex> lock(mutex);
    raised_limits.clear();
}

int resident_blocks(const void *kernel, unsigned threads, size_t dynamic_shared)
{
    if (threads == 0 || threads > max_block_threads)
        return 0;
    size_t shared = static_shared_bytes(kernel) + dynamic_shared;
    const SharedMemory device = shared_memory();
    if (shared > device.per_block_optin)
        return 0;
    unsigned whole_warps = (threads + warp_size - 1) / warp_size * warp_size;
    size_t by_threads = max_threads_per_multiprocessor / whole_warps;
    size_t blocks = std::min(by_threads, size_t(max_blocks_per_multiprocessor));
    if (const size_t each = shared + device.reserved_per_block)
        blocks = std::min(blocks, device.per_multiprocessor / each);
    return static_cast<int>(blocks);
}

static cudaError_t bad_device(int device)
{
    return refuse(cudaErrorInvalidDevice, "device %d: there is one device, and its number is 0",
                  device);
}

/* What a question with a place for its answer ends with. */
template <class T>
static cudaError_t answer(T *place, T value)
{
    if (!place)
        return done(cudaErrorInvalidValue);
    *place = value;
    return cudaSuccess;
}

} /* namespace simt */

using namespace simt;

extern "C" cudaError_t cudaGetDeviceCount(int *count)
{
    if (!count)
        return done(cudaErrorInvalidValue);
    /* as on a GPU: set and empty hides all of them */
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    *count = visible && !*visible ? 0 : 1;
    return *count > 0 ? cudaSuccess : done(cudaErrorNoDevice);
}

extern "C" cudaError_t cudaGetDevice(int *device) { return answer(device, 0); }

extern "C" cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : bad_device(device);
}

extern "C" cudaError_t cudaInitDevice(int device, unsigned int, unsigned int)
{
    return cudaSetDevice(device);
}

extern "C" cudaError_t cudaSetDeviceFlags(unsigned int) { return cudaSuccess; }

extern "C" cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    if (!properties)
        return done(cudaErrorInvalidValue);
    if (device != 0)
        return bad_device(device);
    const SharedMemory shared = shared_memory();
    struct cudaDeviceProp p = {};
    snprintf(p.name, sizeof p.name, "CPU (simt)");
    p.totalGlobalMem = device_memory_bytes();
    p.sharedMemPerBlock = default_dynamic_shared;
    p.regsPerBlock = 65536;
    p.warpSize = warp_size;
    p.memPitch = 2147483647;
    p.maxThreadsPerBlock = max_block_threads;
    p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
    p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = 2147483647;
    p.maxGridSize[1] = p.maxGridSize[2] = 65535;
    p.clockRate = 1000000; /* kHz: clock64() counts nanoseconds */
    p.totalConstMem = 65536;
    p.major = architecture() / 10;
    p.minor = architecture() % 10;
    p.textureAlignment = 512;
    p.multiProcessorCount = multiprocessors;
    p.canMapHostMemory = 1;
    p.concurrentKernels = 1;
    p.unifiedAddressing = 1;
    p.memoryClockRate = 1000000;
    p.memoryBusWidth = 128;
    p.l2CacheSize = 4 << 20;
    p.maxThreadsPerMultiProcessor = max_threads_per_multiprocessor;
    p.globalL1CacheSupported = p.localL1CacheSupported = 1;
    p.sharedMemPerMultiprocessor = shared.per_multiprocessor;
    p.regsPerMultiprocessor = 65536;
    p.managedMemory = 1;
    p.concurrentManagedAccess = 1;
    p.singleToDoublePrecisionPerfRatio = 2;
    p.cooperativeLaunch = 1;
    p.clusterLaunch = architecture() >= 90;
    p.sharedMemPerBlockOptin = shared.per_block_optin;
    p.maxBlocksPerMultiProcessor = max_blocks_per_multiprocessor;
    p.reservedSharedMemPerBlock = shared.reserved_per_block;
    *properties = p;
    return cudaSuccess;
}

extern "C" cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    struct cudaDeviceProp p;
    if (!value)
        return done(cudaErrorInvalidValue);
    if (cudaError_t error = cudaGetDeviceProperties(&p, device))
        return error;
    switch (attribute) {
#define SIMT_ATTRIBUTE(name, code, value_of_it)                                                    \
    case name:                                                                                     \
        *value = static_cast<int>(value_of_it);                                                    \
        return cudaSuccess;
#include <simt/attributes.def>
#undef SIMT_ATTRIBUTE
    }
    return refuse(cudaErrorInvalidValue,
                  "cudaDeviceGetAttribute: the CPU backend has no attribute %d",
                  static_cast<int>(attribute));
}

extern "C" cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    if (least)
        *least = 0;
    if (greatest)
        *greatest = 0;
    return cudaSuccess;
}

extern "C" cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    if (!text || length < 13)
        return done(cudaErrorInvalidValue);
    if (device != 0)
        return bad_device(device);
    snprintf(text, static_cast<size_t>(length), "0000:00:00.0");
    return cudaSuccess;
}

extern "C" cudaError_t cudaDeviceSynchronize(void) { return standing_error(); }

/* its old name */
extern "C" cudaError_t cudaThreadSynchronize(void) __attribute__((alias("cudaDeviceSynchronize")));

extern "C" cudaError_t cudaDeviceReset(void)
{
    free_all_device_memory();
    forget_kernel_attributes();
    clear_errors();
    return cudaSuccess;
}

/* its old name */
extern "C" cudaError_t cudaThreadExit(void) __attribute__((alias("cudaDeviceReset")));

extern "C" cudaError_t cudaDeviceSetLimit(enum cudaLimit, size_t) { return standing_error(); }

extern "C" cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
    return answer(value, size_t(limit == cudaLimitStackSize ? 1 << 10 : 8 << 20));
}

extern "C" cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache) { return standing_error(); }

extern "C" cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config)
{
    return answer(config, cudaFuncCachePreferNone);
}

/* Banks are 4 bytes wide, as on every device since Maxwell, whatever a program asks for. */
extern "C" cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig)
{
    return standing_error();
}

extern "C" cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *config)
{
    return answer(config, cudaSharedMemBankSizeFourByte);
}

extern "C" cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    return device == 0 && peer == 0 ? answer(can, 0) : bad_device(device ? device : peer);
}

/* Asynchronous allocation needs no pool here; programs may still ask for it and set it up. */
extern "C" cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    return device == 0 ? answer(pool, cudaMemPool_t(nullptr)) : bad_device(device);
}

extern "C" cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, enum cudaMemPoolAttr, void *)
{
    return standing_error();
}

extern "C" cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return standing_error(); }
extern "C" cudaError_t cudaDriverGetVersion(int *version) { return cudaRuntimeGetVersion(version); }

extern "C" cudaError_t cudaRuntimeGetVersion(int *version)
{
    return answer(version, CUDART_VERSION);
}

extern "C" cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
extern "C" cudaError_t cudaProfilerStop(void) { return cudaSuccess; }

/* ---- Kernels ---- */

extern "C" cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute,
                                            int value)
{
    if (cudaError_t error = standing_error_without_waiting())
        return error;
    if (!kernel)
        return done(cudaErrorInvalidDeviceFunction);
    if (cudaError_t error = fail_if_injected("cudaFuncSetAttribute"))
        return error;
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout)
        return value >= -1 && value <= 100 ? cudaSuccess : done(cudaErrorInvalidValue);
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return done(cudaErrorInvalidValue);
    const size_t fixed = static_shared_bytes(kernel), most = shared_memory().per_block_optin;
    if (value < 0 || static_cast<size_t>(value) + fixed > most)
        return refuse(
            cudaErrorInvalidValue,
            "cudaFuncSetAttribute: %d bytes of dynamic shared memory beside %zu of static; on "
            "sm_%d a block has at most %zu",
            value, fixed, architecture(), most);
    std::lock_guard<std::mutex> lock(mutex);
    raised_limits[kernel] = static_cast<size_t>(value);
    return cudaSuccess;
}

extern "C" cudaError_t cudaFuncSetCacheConfig(const void *kernel, enum cudaFuncCache)
{
    return kernel ? standing_error_without_waiting() : done(cudaErrorInvalidDeviceFunction);
}

extern "C" cudaError_t cudaFuncSetSharedMemConfig(const void *kernel, enum cudaSharedMemConfig)
{
    return kernel ? standing_error_without_waiting() : done(cudaErrorInvalidDeviceFunction);
}

extern "C" cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes,
                                             const void *kernel)
{
    if (!attributes)
        return done(cudaErrorInvalidValue);
    if (!kernel)
        return done(cudaErrorInvalidDeviceFunction);
    memset(attributes, 0, sizeof *attributes);
    attributes->sharedSizeBytes = static_shared_bytes(kernel);
    attributes->maxThreadsPerBlock = max_block_threads;
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = architecture();
    attributes->maxDynamicSharedSizeBytes = static_cast<int>(dynamic_shared_limit(kernel));
    attributes->preferredShmemCarveout = cudaSharedmemCarveoutDefault;
    return cudaSuccess;
}

extern "C" cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                                     const void *kernel,
                                                                     int block_size,
                                                                     size_t dynamic_shared)
{
    if (!blocks || block_size <= 0)
        return done(cudaErrorInvalidValue);
    if (!kernel)
        return done(cudaErrorInvalidDeviceFunction);
    *blocks = resident_blocks(kernel, static_cast<unsigned>(block_size), dynamic_shared);
    return cudaSuccess;
}

extern "C" cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *kernel, int block_size, size_t dynamic_shared, unsigned int)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, block_size,
                                                         dynamic_shared);
}
