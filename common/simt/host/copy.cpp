/* cudaMemcpy, cudaMemset and so on are done when they return, or on a stream that waits. */
#include "host/environment.h"
#include "host/errors.h"
#include "host/memory.h"
#include <cstring>

/* These enclose the program's variables, including __device__ and __constant__ ones. */
extern char __data_start, _end;

using namespace simt;

/* Refuses a copy with `bytes` at `begin` as one side, if something is wrong with that side. */
static cudaError_t check_side(const void *begin, size_t bytes, bool want_device, const char *call,
                              const char *role)
{
    const char *const p = static_cast<const char *>(begin);
    const bool device = in_device_arena(p), variable = p >= &__data_start && p + bytes <= &_end;
    const Allocation *allocation = device ? find_allocation(begin) : nullptr;
    std::string wrong;
    if (!begin)
        wrong = format("%s is a null pointer", role);
    else if (!device && want_device && !variable)
        wrong = format("%s %p is host memory, but the copy's kind says device", role, begin);
    else if (device && (!allocation || allocation->freed))
        wrong = format("%s %p is not in any living allocation", role, begin);
    else if (device && !is_device_range(begin, bytes))
        wrong = format("%zu bytes from byte %zu of an allocation of %zu bytes (%s)", bytes,
                       size_t(p - allocation->begin), allocation->bytes, role);
    else if (device && !want_device && !allocation->for_host_too())
        wrong = format("%s %p is device memory, but the copy's kind says host", role, begin);
    return wrong.empty() ? cudaSuccess : refuse(cudaErrorInvalidValue, "%s: %s", call, &wrong[0]);
}

cudaError_t simt::copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                       const char *call)
{
    if (cudaError_t error = standing_error())
        return error;
    if (bytes == 0)
        return cudaSuccess;
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
        return refuse(cudaErrorInvalidMemcpyDirection, "%s: there is no copy of kind %d", call,
                      int(kind));
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind == cudaMemcpyDefault) {
        to_device = in_device_arena(to);
        from_device = in_device_arena(from);
    }
    if (cudaError_t error = check_side(to, bytes, to_device, call, "the destination"))
        return error;
    if (cudaError_t error = check_side(from, bytes, from_device, call, "the source"))
        return error;
    OpenDeviceMemory open(to, from);
    memmove(to, from, bytes);
    checker->written(to, bytes);
    return cudaSuccess;
}

bool (*simt::put_off_fill)(void *pointer, int value, size_t bytes, cudaStream_t stream);

cudaError_t simt::fill(void *pointer, int value, size_t bytes, const char *call,
                       cudaStream_t stream)
{
    if (cudaError_t error = is_own(stream) ? standing_error_without_waiting() : standing_error())
        return error;
    if (bytes == 0)
        return cudaSuccess;
    if (cudaError_t error = check_side(pointer, bytes, true, call, "the destination"))
        return error;
    const bool may_wait = put_off_fill && is_own(stream);
    if (a_kernel_failed() || (may_wait && put_off_fill(pointer, value, bytes, stream)))
        return cudaSuccess;
    OpenDeviceMemory open(pointer, pointer);
    memset(pointer, value, bytes);
    checker->written(pointer, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                         size_t width, size_t height, enum cudaMemcpyKind kind)
{
    if (width > to_pitch || width > from_pitch)
        return refuse(cudaErrorInvalidPitchValue,
                      "cudaMemcpy2D: rows of %zu bytes do not fit pitches of %zu and %zu", width,
                      to_pitch, from_pitch);
    cudaError_t error = cudaSuccess;
    for (size_t y = 0; y < height && !error; y++)
        error = copy(static_cast<char *>(to) + y * to_pitch,
                     static_cast<const char *>(from) + y * from_pitch, width, kind, "cudaMemcpy2D");
    return error;
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
    for (size_t y = 0; y < height && !error; y++)
        error = fill(static_cast<char *>(to) + y * pitch, value, width, "cudaMemset2D", stream);
    return error;
}

cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
    char *slice = static_cast<char *>(to.ptr);
    for (size_t z = 0; z < extent.depth && !error; z++, slice += to.ysize * to.pitch)
        error = cudaMemset2DAsync(slice, to.pitch, value, extent.width, extent.height, stream);
    return error;
}
