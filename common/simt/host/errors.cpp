/* Error codes, sticky errors and reports. */
#include "host/errors.h"
#include "host/checker.h"
#include <cstdarg>
#include <cstdio>
#include <mutex>

namespace simt
{

/* guards everything below but `last`, which each host thread has for itself */
static std::mutex mutex;
static cudaError_t failed_kernel; /* not shown yet */
static cudaError_t sticky;
static char story[2000];
static __thread cudaError_t last;

cudaError_t done(cudaError_t error)
{
    if (error != cudaSuccess)
        last = error;
    return error;
}

cudaError_t standing_error_without_waiting()
{
    std::lock_guard<std::mutex> lock(mutex);
    return done(sticky);
}

cudaError_t standing_error()
{
    std::lock_guard<std::mutex> lock(mutex);
    if (sticky == cudaSuccess)
        sticky = failed_kernel;
    return done(sticky);
}

cudaError_t refuse(cudaError_t error, const char *format, ...)
{
    std::lock_guard<std::mutex> lock(mutex);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(story, sizeof story, format, arguments);
    va_end(arguments);
    return done(error);
}

void kernel_failed(cudaError_t error, const char *text)
{
    std::lock_guard<std::mutex> lock(mutex);
    if (failed_kernel == cudaSuccess)
        failed_kernel = error;
    snprintf(story, sizeof story, "%s", text);
    checker->reported(story);
}

void clear_report()
{
    std::lock_guard<std::mutex> lock(mutex);
    story[0] = '\0';
}

const char *last_report()
{
    return story;
}

void clear_errors()
{
    std::lock_guard<std::mutex> lock(mutex);
    failed_kernel = sticky = last = cudaSuccess;
    story[0] = '\0';
}

} /* namespace simt */

using namespace simt;

extern "C" cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last;
    last = standing_error_without_waiting();
    return error != cudaSuccess ? error : last;
}

extern "C" cudaError_t cudaPeekAtLastError(void)
{
    return last;
}

extern "C" const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
#define SIMT_ERROR(name, code, description)                                                        \
    case name:                                                                                     \
        return #name;
#include <simt/error_codes.def>
#undef SIMT_ERROR
    }
    return "unrecognized error code";
}

extern "C" const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
#define SIMT_ERROR(name, code, description)                                                        \
    case name:                                                                                     \
        return description;
#include <simt/error_codes.def>
#undef SIMT_ERROR
    }
    return "unrecognized error code";
}
