/* Error codes, sticky errors and reports. */
#include "host/errors.h"
#include "host/checker.h"
#include <cstdio>
#include <mutex>

using namespace simt;

/* The mutex guards everything below but `last`, which each host thread has for itself. */
static std::mutex mutex;
static cudaError_t failed_kernel; /* not shown yet */
static cudaError_t sticky;
static std::string report;
static bool noticed; /* the report, or its error */
static __thread cudaError_t last;

/* A program that never asks for errors is told at its end that its results are not its kernels'.
 * (The checked build then prints all its reports.) */
static struct simt_farewell {
    ~simt_farewell()
    {
        if (failed_kernel && !noticed && !checker->armed)
            fprintf(stderr, "simt: %s\n", report.c_str());
    }
} farewell;

std::string simt::format(const char *pattern, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(nullptr, 0, pattern, again);
    va_end(again);
    std::string text(size_t(length), '\0');
    vsnprintf(text.data(), text.size() + 1, pattern, arguments);
    return text;
}

std::string simt::format(const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    std::string text = format(pattern, arguments);
    va_end(arguments);
    return text;
}

cudaError_t simt::done(cudaError_t error)
{
    if (error != cudaSuccess)
        last = error;
    return error;
}

cudaError_t simt::standing_error_without_waiting()
{
    std::lock_guard<std::mutex> lock(mutex);
    return done(sticky);
}

void (*simt::run_waiting_launches)() = [] {};

cudaError_t simt::standing_error()
{
    run_waiting_launches();
    std::lock_guard<std::mutex> lock(mutex);
    if (sticky == cudaSuccess)
        sticky = failed_kernel;
    return done(sticky);
}

cudaError_t simt::standing_error_or(bool arguments_are_right, cudaError_t otherwise)
{
    const cudaError_t standing = standing_error();
    return standing || arguments_are_right ? standing : done(otherwise);
}

cudaError_t simt::refuse(cudaError_t error, const char *pattern, ...)
{
    std::lock_guard<std::mutex> lock(mutex);
    va_list arguments;
    va_start(arguments, pattern);
    if (failed_kernel == cudaSuccess && (report.empty() || noticed)) {
        report = format(pattern, arguments);
        noticed = false;
    }
    va_end(arguments);
    return done(error);
}

void simt::kernel_failed(cudaError_t error, const std::string &text)
{
    std::lock_guard<std::mutex> lock(mutex);
    if (failed_kernel == cudaSuccess) {
        failed_kernel = error;
        report = text;
        noticed = false;
    }
    checker->reported(text.c_str());
}

bool simt::a_kernel_failed()
{
    std::lock_guard<std::mutex> lock(mutex);
    return failed_kernel != cudaSuccess;
}

void simt::begin_launch()
{
    std::lock_guard<std::mutex> lock(mutex);
    if (failed_kernel == cudaSuccess && noticed)
        report.clear();
}

const char *simt::last_report()
{
    std::lock_guard<std::mutex> lock(mutex);
    noticed = true;
    return report.c_str();
}

void simt::clear_errors()
{
    std::lock_guard<std::mutex> lock(mutex);
    failed_kernel = sticky = last = cudaSuccess;
    report.clear();
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last;
    if (error != cudaSuccess) {
        std::lock_guard<std::mutex> lock(mutex);
        noticed = true;
    }
    last = standing_error_without_waiting();
    return error != cudaSuccess ? error : last;
}

cudaError_t cudaPeekAtLastError(void) { return last; }

/* Returns its name and description. */
static std::pair<const char *, const char *> text_of(cudaError_t error)
{
    switch (error) {
#define SIMT_ERROR(name, code, description)                                                        \
    case name:                                                                                     \
        return {#name, description};
#include <simt/error_codes.def>
#undef SIMT_ERROR
    }
    return {"unrecognized error code", "unrecognized error code"};
}

const char *cudaGetErrorName(cudaError_t error) { return text_of(error).first; }
const char *cudaGetErrorString(cudaError_t error) { return text_of(error).second; }
