/* It has what the last call returned, what a kernel did wrong, and the report on it. */
#pragma once

#include <cstdarg>
#include <cuda_runtime_api.h>
#include <string>
#include <vector>

namespace simt
{

/* Every runtime function begins with `if (cudaError_t error = standing_error()) return error;` and
 * ends through done(). A kernel's failure shows at the first call that waits for it, then at every
 * call until cudaDeviceReset. A launch does not wait: it returns what has shown already. */
cudaError_t standing_error();
cudaError_t standing_error_without_waiting();
/* Returns the standing error, or otherwise what a call with such arguments returns. */
cudaError_t standing_error_or(bool arguments_are_right, cudaError_t otherwise);

/* The legacy default stream waits for all others. */
inline bool is_own(cudaStream_t stream) { return stream && stream != cudaStreamLegacy; }

/* Runs launches and fills that have been put off. */
extern void (*run_waiting_launches)();

/* Remembers an error for cudaGetLastError and passes it on. */
cudaError_t done(cudaError_t error);

/* Is done(), with the text for backend_report(). */
cudaError_t refuse(cudaError_t error, const char *pattern, ...)
    __attribute__((format(printf, 2, 3)));

std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char *pattern, va_list arguments);
/* Declares `text`: what a function's last parameter makes of the arguments behind it. */
#define SIMT_FORMATTED(text, pattern)                                                              \
    va_list arguments;                                                                             \
    va_start(arguments, pattern);                                                                  \
    const std::string text = simt::format(pattern, arguments);                                     \
    va_end(arguments)

/* Prints what the program has not heard. Returns whether anything went wrong that it was not told,
 * or that the checked build reports. Then a program that ends with success gets another status. */
bool tell_what_went_wrong();
extern int failure_status;
/* Prints all reports, in place of the failed kernel's, if set (check/exit.cpp): were there any? */
extern bool (*print_reports)(const std::vector<std::string> &);

/* A kernel failed: the error shows at the next call that waits, with the report. */
void kernel_failed(cudaError_t error, const std::string &report);
/* Returns whether a kernel has failed, shown or not: nothing follows it on the device. */
bool a_kernel_failed();

/* Returns what backend_report() returns, the first of several. A failed kernel's stays until
 * cudaDeviceReset, a refused call's until a launch after it was read, or cudaGetLastError. */
const char *last_report();
void begin_launch();

void clear_errors();

} /* namespace simt */
