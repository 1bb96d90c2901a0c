/* Error state: what the last call said, what a kernel did wrong, and the report on it. */
#pragma once

#include <cstdarg>
#include <cuda_runtime_api.h>
#include <string>
#include <vector>

namespace simt
{

/* Every runtime function begins with `if (cudaError_t error = standing_error()) return error;` and
 * ends through done().
 *
 * A kernel that failed shows at the first call that waits for it, and from then on every call
 * returns its error, until cudaDeviceReset. A launch does not wait: it returns what has shown. */
cudaError_t standing_error();
cudaError_t standing_error_without_waiting();
/* The same, or else what a call with such arguments returns. */
cudaError_t standing_error_or(bool arguments_are_right, cudaError_t otherwise);

/* Runs launches and fills that have been put off. */
extern void (*run_waiting_launches)();

/* Remembers an error for cudaGetLastError and passes it on. */
cudaError_t done(cudaError_t error);

/* done(), with the text for backend_report(). */
cudaError_t refuse(cudaError_t error, const char *pattern, ...)
    __attribute__((format(printf, 2, 3)));

/* The same of a launch, a copy or a fill. What the program never fetches is told at its end, and of
 * these, or of a kernel that failed, the exit status tells, too. */
cudaError_t refuse_work(cudaError_t error, const char *pattern, ...)
    __attribute__((format(printf, 2, 3)));
/* Says so at once, too. */
cudaError_t refuse_environment(const std::string &complaint);

/* Says what nobody has heard of, once: at the program's end, or when it is about to crash. */
void tell_at_end();
extern void (*say_at_end)(const std::vector<std::string> &untold);

/* As printf writes it, of any length. */
std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char *pattern, va_list arguments);

/* A kernel failed: the error shows at the next call that waits, with the report. */
void kernel_failed(cudaError_t error, const std::string &report);
/* Whether one has, shown or not: what was to come after it on the device does not happen. */
bool a_kernel_failed();

/* What backend_report() says. Of several reports it keeps the first: that of a kernel that failed
 * until cudaDeviceReset, that of a refused call until a launch follows after it has been read, or
 * has taken its error with cudaGetLastError or cudaPeekAtLastError. */
const char *last_report();
void begin_launch();

/* cudaDeviceReset. */
void clear_errors();

} /* namespace simt */
