/* Error state: what the last call said, what a kernel did wrong, and the story behind it. */
#ifndef SIMT_ERRORS_H
#define SIMT_ERRORS_H

#include <cuda_runtime_api.h>

namespace simt
{

/*
 * Every runtime function begins with `if (cudaError_t error = standing_error()) return error;` and
 * ends through done().
 *
 * A kernel that failed shows at the first call that waits for it, and from then on every call
 * returns its error, until cudaDeviceReset. A launch does not wait: it only returns an error that
 * has already shown.
 */
cudaError_t standing_error();
cudaError_t standing_error_without_waiting();

/* Remembers an error for cudaGetLastError and passes it on. */
cudaError_t done(cudaError_t error);

/* done(), with the story for backend_report(). */
cudaError_t refuse(cudaError_t error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A kernel failed: the error shows at the next call that waits, with the story. */
void kernel_failed(cudaError_t error, const char *story);

/* A new launch: the last report is over. */
void clear_report();
const char *last_report();

/* cudaDeviceReset. */
void clear_errors();

} /* namespace simt */

#endif
