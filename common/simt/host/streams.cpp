/*
 * Streams and events. Work is done by the time the call that starts it returns, so a stream has
 * nothing to remember and an event is a point in time.
 */
#include "host/errors.h"
#include <chrono>
#include <new>

struct simt_stream {
    unsigned flags;
};

struct simt_event {
    bool recorded, timing;
    std::chrono::steady_clock::time_point time;
};

using namespace simt;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    if (cudaError_t error = standing_error())
        return error;
    if (!stream || flags > cudaStreamNonBlocking)
        return done(cudaErrorInvalidValue);
    *stream = new (std::nothrow) simt_stream{flags};
    return *stream ? cudaSuccess : done(cudaErrorMemoryAllocation);
}

/* With an error standing no handle is looked at: the call that should have made it has failed. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    if (cudaError_t error = standing_error())
        return error;
    if (!stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread)
        return done(cudaErrorInvalidResourceHandle);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags)
{
    if (cudaError_t error = standing_error())
        return error;
    if (!flags)
        return done(cudaErrorInvalidValue);
    bool own = stream && stream != cudaStreamLegacy && stream != cudaStreamPerThread;
    *flags = own ? stream->flags : cudaStreamDefault;
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void *argument)
{
    if (!function)
        return done(cudaErrorInvalidValue);
    if (cudaError_t error = standing_error())
        return error;
    function(argument);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    if (cudaError_t error = standing_error())
        return error;
    if (!event)
        return done(cudaErrorInvalidValue);
    *event = new (std::nothrow) simt_event{false, !(flags & cudaEventDisableTiming), {}};
    return *event ? cudaSuccess : done(cudaErrorMemoryAllocation);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (cudaError_t error = standing_error())
        return error;
    if (!event)
        return done(cudaErrorInvalidResourceHandle);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t)
{
    if (run_waiting_launches)
        run_waiting_launches();
    if (cudaError_t error = standing_error_without_waiting())
        return error;
    if (!event)
        return done(cudaErrorInvalidResourceHandle);
    event->recorded = true;
    event->time = std::chrono::steady_clock::now();
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t stop)
{
    if (cudaError_t error = standing_error())
        return error;
    if (!milliseconds)
        return done(cudaErrorInvalidValue);
    if (!start || !stop || !start->recorded || !stop->recorded || !start->timing || !stop->timing)
        return done(cudaErrorInvalidResourceHandle);
    *milliseconds = std::chrono::duration<float, std::milli>(stop->time - start->time).count();
    return cudaSuccess;
}
