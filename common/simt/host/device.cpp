/* These are properties, attributes and occupancy of the device that the backend imitates. */
#include "host/device.h"
#include "host/errors.h"
#include "host/memory.h"
#include "host/environment.h"
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

/* cudaDeviceProp's last members are 0. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

using namespace simt;

static std::mutex mutex;
/* device, kernel -> cudaFuncAttributeMaxDynamicSharedMemorySize */
static std::map<std::pair<int, const void *>, size_t> raised_limits;
static thread_local int chosen_device;

static int count_devices() { return int(read_architectures().size()); }

int simt::current_device() { return chosen_device < count_devices() ? chosen_device : 0; }

int simt::architecture_of_device() { return read_architectures()[size_t(current_device())]; }

int simt::multiprocessors_of_device()
{
    return current_device() == 0 ? multiprocessors : other_multiprocessors;
}

simt::OnDevice::OnDevice(int device) : before(chosen_device) { chosen_device = device; }
simt::OnDevice::~OnDevice() { chosen_device = before; }

/* CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". */
SharedMemory simt::shared_memory()
{
    const int arch = architecture_of_device();
    const size_t per_multiprocessor = arch < 75                  ? 96 << 10
                                      : arch < 80                ? 64 << 10
                                      : arch == 80 || arch == 87 ? 164 << 10
                                      : arch < 90 || arch >= 120 ? 100 << 10
                                                                 : 228 << 10;
    const size_t reserved = arch < 80 ? 0 : 1 << 10;
    return {per_multiprocessor, reserved, per_multiprocessor - reserved};
}

size_t simt::static_shared_bytes(const void *kernel)
{
    size_t bytes = 0;
    for (const SharedVariable &variable : function_at(kernel).shared)
        bytes += variable.bytes;
    return bytes;
}

size_t simt::dynamic_shared_limit(const void *kernel)
{
    std::lock_guard<std::mutex> lock(mutex);
    auto found = raised_limits.find({current_device(), kernel});
    if (found != raised_limits.end())
        return found->second;
    size_t fixed = static_shared_bytes(kernel);
    return fixed < default_dynamic_shared ? default_dynamic_shared - fixed : 0;
}

int simt::resident_blocks(const void *kernel, unsigned threads, size_t dynamic_shared)
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
    return int(blocks);
}

static cudaError_t bad_device(int device)
{
    const int all = count_devices();
    const std::string there =
        all == 1 ? "is one device, and its number is 0" : format("are %d devices, from 0 on", all);
    return refuse(cudaErrorInvalidDevice, "device %d: there %s", device, there.c_str());
}

static bool is_device(int device) { return device >= 0 && device < count_devices(); }

static cudaError_t check_limit(cudaLimit limit)
{
    return limit <= cudaLimitMallocHeapSize || limit >= cudaLimitMaxL2FetchGranularity
               ? cudaSuccess
               : refuse(cudaErrorUnsupportedLimit, "there is no dynamic parallelism to limit");
}

static cudaError_t does_not_fit(size_t bytes, size_t offset, const char *call)
{
    return refuse(cudaErrorInvalidValue, "%s: %zu bytes at offset %zu do not fit the variable",
                  call, bytes, offset);
}

/* A question with a place for its answer ends with this. */
template <class T> static cudaError_t answer(T *place, T value)
{
    if (!place)
        return done(cudaErrorInvalidValue);
    *place = value;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    if (!count)
        return done(cudaErrorInvalidValue);
    /* As on a GPU, a variable that is set and empty hides all devices. */
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    *count = visible && !*visible ? 0 : count_devices();
    return *count > 0 ? cudaSuccess : done(cudaErrorNoDevice);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    if (!properties)
        return done(cudaErrorInvalidValue);
    if (!is_device(device))
        return bad_device(device);
    const OnDevice on(device);
    *properties = {
#define SIMT_PROPERTY(type, name, ...) __VA_ARGS__,
#define SIMT_ATTRIBUTE(name, code, value)
#include <simt/device_properties.def>
    };
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    struct cudaDeviceProp p;
    if (!value)
        return done(cudaErrorInvalidValue);
    if (cudaError_t error = cudaGetDeviceProperties(&p, device))
        return error;
    switch (attribute) {
#define SIMT_PROPERTY(type, name, ...)
#define SIMT_ATTRIBUTE(name, code, value_of_it)                                                    \
    case name:                                                                                     \
        *value = int(value_of_it);                                                                 \
        return cudaSuccess;
#include <simt/device_properties.def>
    }
    return refuse(cudaErrorInvalidValue,
                  "cudaDeviceGetAttribute: the CPU backend has no attribute %d", int(attribute));
}

cudaError_t cudaDeviceReset(void)
{
    free_all_device_memory();
    clear_errors();
    std::lock_guard<std::mutex> lock(mutex);
    raised_limits.clear();
    return cudaSuccess;
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define SIMT_DEFAULT(value) /* the header says it */
#define SIMT_CALL(name, parameters, value)                                                         \
    cudaError_t name parameters { return value; }
#include <simt/short_calls.def>
#undef SIMT_CALL

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value)
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
    if (value < 0 || size_t(value) + fixed > most)
        return refuse(cudaErrorInvalidValue,
                      "cudaFuncSetAttribute: %d bytes of dynamic shared memory beside %zu of "
                      "static; on sm_%d a block has at most %zu",
                      value, fixed, architecture_of_device(), most);
    std::lock_guard<std::mutex> lock(mutex);
    raised_limits[{current_device(), kernel}] = size_t(value);
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
    if (!attributes)
        return done(cudaErrorInvalidValue);
    if (!kernel)
        return done(cudaErrorInvalidDeviceFunction);
    memset(attributes, 0, sizeof *attributes);
    attributes->sharedSizeBytes = static_shared_bytes(kernel);
    attributes->maxThreadsPerBlock = max_block_threads;
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = architecture_of_device();
    attributes->maxDynamicSharedSizeBytes = int(dynamic_shared_limit(kernel));
    attributes->preferredShmemCarveout = cudaSharedmemCarveoutDefault;
    return cudaSuccess;
}
