/* Work is done when its call returns: a stream is only its making, an event a point in time. */
#include "host/errors.h"
#include <algorithm>
#include <chrono>

struct simt_stream {
    unsigned flags;
    int priority;
};

struct simt_event {
    bool recorded, timing;
    std::chrono::steady_clock::time_point time;
};

using namespace simt;

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
    if (cudaError_t error =
            standing_error_or(stream && flags <= cudaStreamNonBlocking, cudaErrorInvalidValue))
        return error;
    *stream = new simt_stream{flags, std::clamp(priority, -5, 0)};
    return cudaSuccess;
}

/* The default streams are no objects. */
static bool is_object(cudaStream_t stream)
{
    return is_own(stream) && stream != cudaStreamPerThread;
}

/* While an error stands no handle is examined: the call that should have made it has failed. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    if (cudaError_t error = standing_error_or(is_object(stream), cudaErrorInvalidResourceHandle))
        return error;
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags)
{
    if (cudaError_t error = standing_error_or(flags, cudaErrorInvalidValue))
        return error;
    *flags = is_object(stream) ? stream->flags : cudaStreamDefault;
    return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    if (cudaError_t error = standing_error_or(priority, cudaErrorInvalidValue))
        return error;
    *priority = is_object(stream) ? stream->priority : 0;
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void *argument)
{
    if (cudaError_t error = standing_error_or(function, cudaErrorInvalidValue))
        return error;
    function(argument);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    if (cudaError_t error = standing_error_or(event, cudaErrorInvalidValue))
        return error;
    *event = new simt_event{false, !(flags & cudaEventDisableTiming), {}};
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (cudaError_t error = standing_error_or(event, cudaErrorInvalidResourceHandle))
        return error;
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t)
{
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
    if (cudaError_t error = standing_error_or(milliseconds, cudaErrorInvalidValue))
        return error;
    if (!start || !stop || !start->recorded || !stop->recorded || !start->timing || !stop->timing)
        return done(cudaErrorInvalidResourceHandle);
    *milliseconds = std::chrono::duration<float, std::milli>(stop->time - start->time).count();
    return cudaSuccess;
}
