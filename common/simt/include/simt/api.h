/* These are nvcc's typed C++ forms of the runtime's functions, and those that are lacking here. */
#pragma once

#include <cuda_runtime_api.h>
#include <simt/keywords.h>

namespace simt
{

/* clang-format off */
template <class T> void **untyped(T **pointer) { return reinterpret_cast<void **>(pointer); }
template <class... T> const void *untyped(void (*kernel)(T...)) { return reinterpret_cast<const void *>(kernel); }
/* clang-format on */

/* Returns the variable's address; null, which calls refuse, if it has too few bytes. */
template <class T> const void *variable(const T &symbol, size_t bytes = 0, size_t offset = 0)
{
    return offset > sizeof symbol || bytes > sizeof symbol - offset ? nullptr : &symbol;
}

inline int device_of(cudaMemLocation location)
{
    return location.type == cudaMemLocationTypeDevice ? location.id : cudaCpuDeviceId;
}

} /* namespace simt */

/* Returns the block size with the most resident threads, and a grid that fills the device. */
template <class Kernel> /* a kernel, or its address as void * */
cudaError_t cudaOccupancyMaxPotentialBlockSize(int *grid_size, int *block_size, Kernel kernel,
                                               size_t dynamic_shared = 0, int block_limit = 0)
{
    const void *entry = reinterpret_cast<const void *>(kernel);
    int device = 0, all = 0, most = 0; /* multiprocessors; resident threads */
    (void)cudaGetDevice(&device);
    cudaError_t error = cudaDeviceGetAttribute(&all, cudaDevAttrMultiProcessorCount, device);
    int largest = block_limit > 0 && block_limit < 1024 ? block_limit : 1024;
    *grid_size = *block_size = 0;
    for (int size = largest / 32 * 32; size >= 32 && error == cudaSuccess; size -= 32) {
        int blocks = 0;
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, entry, size, dynamic_shared);
        if (blocks * size > most) {
            most = blocks * size;
            *block_size = size;
            *grid_size = blocks * all;
        }
    }
    return error;
}

/* clang-format off */
/* These take pointers to pointers of any type. */
template <class T> SIMT_INLINE(cudaError_t, cudaMalloc, (T **pointer, size_t bytes), cudaMalloc(simt::untyped(pointer), bytes))
template <class T> SIMT_INLINE(cudaError_t, cudaMallocAsync, (T **pointer, size_t bytes, cudaStream_t stream), cudaMallocAsync(simt::untyped(pointer), bytes, stream))
template <class T> SIMT_INLINE(cudaError_t, cudaMallocManaged, (T **pointer, size_t bytes, unsigned int flags = cudaMemAttachGlobal), cudaMallocManaged(simt::untyped(pointer), bytes, flags))
template <class T> SIMT_INLINE(cudaError_t, cudaMallocHost, (T **pointer, size_t bytes, unsigned int flags = cudaHostAllocDefault), cudaHostAlloc(simt::untyped(pointer), bytes, flags))
template <class T> SIMT_INLINE(cudaError_t, cudaHostAlloc, (T **pointer, size_t bytes, unsigned int flags), cudaHostAlloc(simt::untyped(pointer), bytes, flags))
template <class T> SIMT_INLINE(cudaError_t, cudaMallocPitch, (T **pointer, size_t *pitch, size_t width, size_t height), cudaMallocPitch(simt::untyped(pointer), pitch, width, height))
template <class T> SIMT_INLINE(cudaError_t, cudaHostGetDevicePointer, (T **pointer, void *host, unsigned int flags), cudaHostGetDevicePointer(simt::untyped(pointer), host, flags))
template <class T> SIMT_INLINE(cudaError_t, cudaStreamAttachMemAsync, (cudaStream_t stream, T *pointer, size_t bytes = 0, unsigned int flags = cudaMemAttachSingle), cudaStreamAttachMemAsync(stream, static_cast<void *>(pointer), bytes, flags))

/* These take CUDA 13's parameters, and C++'s own. Managed memory is everywhere at the same time. */
SIMT_INLINE(cudaError_t, cudaMemPrefetchAsync, (const void *pointer, size_t bytes, cudaMemLocation location, unsigned int, cudaStream_t stream = nullptr), cudaMemPrefetchAsync(pointer, bytes, simt::device_of(location), stream))
SIMT_INLINE(cudaError_t, cudaMemAdvise, (const void *pointer, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location), cudaMemAdvise(pointer, bytes, advice, simt::device_of(location)))
SIMT_INLINE(cudaError_t, cudaEventCreate, (cudaEvent_t *event, unsigned int flags), cudaEventCreateWithFlags(event, flags))

/* A symbol is a __device__, __constant__ or __managed__ variable, named without &. */
template <class T> SIMT_INLINE(cudaError_t, cudaMemcpyToSymbol, (const T &symbol, const void *from, size_t bytes, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyHostToDevice), cudaMemcpyToSymbol(simt::variable(symbol, bytes, offset), from, bytes, offset, kind))
template <class T> SIMT_INLINE(cudaError_t, cudaMemcpyToSymbolAsync, (const T &symbol, const void *from, size_t bytes, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t = nullptr), cudaMemcpyToSymbol(symbol, from, bytes, offset, kind))
template <class T> SIMT_INLINE(cudaError_t, cudaMemcpyFromSymbol, (void *to, const T &symbol, size_t bytes, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyDeviceToHost), cudaMemcpyFromSymbol(to, simt::variable(symbol, bytes, offset), bytes, offset, kind))
template <class T> SIMT_INLINE(cudaError_t, cudaMemcpyFromSymbolAsync, (void *to, const T &symbol, size_t bytes, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyDeviceToHost, cudaStream_t = nullptr), cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind))
template <class T> SIMT_INLINE(cudaError_t, cudaGetSymbolAddress, (void **pointer, const T &symbol), cudaGetSymbolAddress(pointer, simt::variable(symbol)))
template <class T> SIMT_INLINE(cudaError_t, cudaGetSymbolAddress, (T **pointer, const T &symbol), cudaGetSymbolAddress(simt::untyped(pointer), simt::variable(symbol)))
template <class T> SIMT_INLINE(cudaError_t, cudaGetSymbolSize, (size_t *bytes, const T &symbol), (*bytes = sizeof symbol, cudaSuccess))

/* These take kernels by name, a template with arguments: cudaFuncSetAttribute(tile<16>, ...). */
template <class... Parameters> SIMT_INLINE(cudaError_t, cudaFuncSetCacheConfig, (void (*kernel)(Parameters...), cudaFuncCache config), cudaFuncSetCacheConfig(simt::untyped(kernel), config))
template <class... Parameters> SIMT_INLINE(cudaError_t, cudaFuncSetSharedMemConfig, (void (*kernel)(Parameters...), cudaSharedMemConfig config), cudaFuncSetSharedMemConfig(simt::untyped(kernel), config))
template <class... Parameters> SIMT_INLINE(cudaError_t, cudaFuncSetAttribute, (void (*kernel)(Parameters...), cudaFuncAttribute attribute, int value), cudaFuncSetAttribute(simt::untyped(kernel), attribute, value))
template <class... Parameters> SIMT_INLINE(cudaError_t, cudaFuncGetAttributes, (cudaFuncAttributes *attributes, void (*kernel)(Parameters...)), cudaFuncGetAttributes(attributes, simt::untyped(kernel)))
template <class... Parameters> SIMT_INLINE(cudaError_t, cudaOccupancyMaxActiveBlocksPerMultiprocessor, (int *blocks, void (*kernel)(Parameters...), int block_size, size_t dynamic_shared), cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, simt::untyped(kernel), block_size, dynamic_shared))

/* These say so when used. "..." makes a program's own overload a better match. */
SIMT_UNSUPPORTED("CUDA graphs")
cudaError_t cudaGraphCreate(...), cudaGraphInstantiate(...), cudaGraphLaunch(...),
    cudaStreamBeginCapture(...), cudaStreamEndCapture(...);
SIMT_UNSUPPORTED("textures") cudaError_t cudaCreateTextureObject(...);
SIMT_UNSUPPORTED("surfaces") cudaError_t cudaCreateSurfaceObject(...);
SIMT_UNSUPPORTED("CUDA arrays (textures and surfaces)")
cudaError_t cudaMallocArray(...), cudaMalloc3DArray(...);
SIMT_UNSUPPORTED("3D copies") cudaError_t cudaMemcpy3D(...);
SIMT_UNSUPPORTED("handles shared between processes") cudaError_t cudaIpcGetMemHandle(...);

/* These are missing as in CUDA from compute capability 7.0 on. */
#define SIMT_WITHOUT_MASK(name)                                                                    \
    SIMT_UNSUPPORTED("shuffles and votes without a mask (" #name "_sync has one)") int name(...);
SIMT_WITHOUT_MASK(__shfl) SIMT_WITHOUT_MASK(__shfl_up) SIMT_WITHOUT_MASK(__shfl_down) SIMT_WITHOUT_MASK(__shfl_xor)
SIMT_WITHOUT_MASK(__ballot) SIMT_WITHOUT_MASK(__any) SIMT_WITHOUT_MASK(__all)
#undef SIMT_WITHOUT_MASK

template <class T, int dimensions = 1, int mode = 0> class SIMT_UNSUPPORTED("textures") texture;
template <class T, int dimensions = 1> class SIMT_UNSUPPORTED("surfaces") surface;

/* Many programs include <cuda_fp8.h> and use none of it. */
typedef SIMT_UNSUPPORTED("8-bit floating-point numbers") unsigned char __nv_fp8_storage_t,
    __nv_fp8_e4m3, __nv_fp8_e5m2;
