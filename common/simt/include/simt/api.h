/* The typed C++ forms of the runtime's functions that nvcc offers beside the C ones. */
#pragma once

#include <cuda_runtime_api.h>
#include <type_traits>

/* For a pointer to a pointer of any type. */
#define SIMT_TYPED(name, function, parameters, ...)                                                \
    template <class T>                                                                             \
    cudaError_t name parameters                                                                    \
    {                                                                                              \
        return function(reinterpret_cast<void **>(pointer), __VA_ARGS__);                          \
    }
/* clang-format off */
SIMT_TYPED(cudaMalloc, cudaMalloc, (T **pointer, size_t bytes), bytes)
SIMT_TYPED(cudaMallocAsync, cudaMallocAsync, (T **pointer, size_t bytes, cudaStream_t stream), bytes, stream)
SIMT_TYPED(cudaMallocManaged, cudaMallocManaged, (T **pointer, size_t bytes, unsigned int flags = cudaMemAttachGlobal), bytes, flags)
SIMT_TYPED(cudaMallocHost, cudaHostAlloc, (T **pointer, size_t bytes, unsigned int flags = cudaHostAllocDefault), bytes, flags)
SIMT_TYPED(cudaHostAlloc, cudaHostAlloc, (T **pointer, size_t bytes, unsigned int flags), bytes, flags)
SIMT_TYPED(cudaMallocPitch, cudaMallocPitch, (T **pointer, size_t *pitch, size_t width, size_t height), pitch, width, height)
SIMT_TYPED(cudaHostGetDevicePointer, cudaHostGetDevicePointer, (T **pointer, void *host, unsigned int flags), host, flags)
/* clang-format on */
#undef SIMT_TYPED

inline cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t bytes, int device)
{
    return cudaMemPrefetchAsync(pointer, bytes, device, nullptr);
}

/* CUDA 13's forms. Managed memory is everywhere at the same time. */
inline cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t bytes, cudaMemLocation location,
                                        unsigned int, cudaStream_t stream = nullptr)
{
    const int device = location.type == cudaMemLocationTypeDevice ? location.id : cudaCpuDeviceId;
    return cudaMemPrefetchAsync(pointer, bytes, device, stream);
}

inline cudaError_t cudaMemAdvise(const void *pointer, size_t bytes, cudaMemoryAdvise advice,
                                 cudaMemLocation location)
{
    const int device = location.type == cudaMemLocationTypeDevice ? location.id : cudaCpuDeviceId;
    return cudaMemAdvise(pointer, bytes, advice, device);
}

template <class T>
cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, T *pointer, size_t bytes = 0,
                                     unsigned int flags = cudaMemAttachSingle)
{
    return cudaStreamAttachMemAsync(stream, static_cast<void *>(pointer), bytes, flags);
}

inline cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned int flags)
{
    return cudaEventCreateWithFlags(event, flags);
}

/* A symbol is a __device__, __constant__ or __managed__ variable, named without &. */
template <class T>
cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *from, size_t bytes, size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice)
{
    if (offset > sizeof symbol || bytes > sizeof symbol - offset)
        return cudaMemcpyToSymbol(static_cast<const void *>(nullptr), from, bytes, offset, kind);
    return cudaMemcpyToSymbol(static_cast<const void *>(&symbol), from, bytes, offset, kind);
}

template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T &symbol, const void *from, size_t bytes,
                                    size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyHostToDevice,
                                    cudaStream_t = nullptr)
{
    return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
}

template <class T>
cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t bytes, size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost)
{
    if (offset > sizeof symbol || bytes > sizeof symbol - offset)
        return cudaMemcpyFromSymbol(to, static_cast<const void *>(nullptr), bytes, offset, kind);
    return cudaMemcpyFromSymbol(to, static_cast<const void *>(&symbol), bytes, offset, kind);
}

template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(void *to, const T &symbol, size_t bytes, size_t offset = 0,
                                      cudaMemcpyKind kind = cudaMemcpyDeviceToHost,
                                      cudaStream_t = nullptr)
{
    return cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind);
}

template <class T>
cudaError_t cudaGetSymbolAddress(void **pointer, const T &symbol)
{
    return cudaGetSymbolAddress(pointer, static_cast<const void *>(&symbol));
}

template <class T>
cudaError_t cudaGetSymbolAddress(T **pointer, const T &symbol)
{
    return cudaGetSymbolAddress(reinterpret_cast<void **>(pointer),
                                static_cast<const void *>(&symbol));
}

template <class T>
cudaError_t cudaGetSymbolSize(size_t *bytes, const T &symbol)
{
    *bytes = sizeof symbol;
    return cudaSuccess;
}

/* Kernels by name; a template kernel needs its arguments spelled out, as in
 * cudaFuncSetAttribute(tile<16>, ...). */
template <class... Parameters>
cudaError_t cudaFuncSetCacheConfig(void (*kernel)(Parameters...), cudaFuncCache config)
{
    return cudaFuncSetCacheConfig(reinterpret_cast<const void *>(kernel), config);
}

template <class... Parameters>
cudaError_t cudaFuncSetSharedMemConfig(void (*kernel)(Parameters...), cudaSharedMemConfig config)
{
    return cudaFuncSetSharedMemConfig(reinterpret_cast<const void *>(kernel), config);
}

template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute,
                                 int value)
{
    return cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), attribute, value);
}

template <class... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, void (*kernel)(Parameters...))
{
    return cudaFuncGetAttributes(attributes, reinterpret_cast<const void *>(kernel));
}

template <class... Parameters>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                          void (*kernel)(Parameters...),
                                                          int block_size, size_t dynamic_shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks, reinterpret_cast<const void *>(kernel), block_size, dynamic_shared);
}

/* The block size with the most resident threads and the smallest grid that fills the device with
 * it. */
template <class Kernel> /* a kernel, or its address as void * */
cudaError_t cudaOccupancyMaxPotentialBlockSize(int *grid_size, int *block_size, Kernel kernel,
                                               size_t dynamic_shared = 0, int block_limit = 0)
{
    const void *entry = reinterpret_cast<const void *>(kernel);
    int multiprocessors = 0, most = 0;
    cudaError_t error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
    int largest = block_limit > 0 && block_limit < 1024 ? block_limit : 1024;
    *grid_size = *block_size = 0;
    for (int size = largest / 32 * 32; size >= 32 && error == cudaSuccess; size -= 32) {
        int blocks = 0;
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, entry, size, dynamic_shared);
        if (blocks * size > most) {
            most = blocks * size;
            *block_size = size;
            *grid_size = blocks * multiprocessors;
        }
    }
    return error;
}
