/*
 * Every refusal has an error code and one clear message.
 *
 * CUDA's error codes say what kind of thing went wrong, but not which argument, which value, and
 * what would be allowed. Argument checks say that with refuse(); the caller reads it with
 * refusal().
 */
#ifndef COMMON_REFUSAL_H
#define COMMON_REFUSAL_H

#include "problem.h"

#include <cuda_runtime.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Stores the message (printf-style, no final newline) for this thread and returns `error`. */
cudaError_t refuse(cudaError_t error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns the message of this thread's last refuse(). It is empty after refusal_clear() or before
 * any. */
const char *refusal(void);
void refusal_clear(void);

/*
 * Returns cudaSuccess when the current device can run the kernel, or the kernel falls back to one
 * that the device can run; otherwise cudaErrorNotSupported and "needs sm_80 (this device is
 * sm_75)".
 */
cudaError_t require_device(const struct kernel *kernel);

/*
 * A problem's shared function calls these around a launch. An error that an earlier call has left
 * behind is not the launch's, and is forgotten. The launch's own error is returned, once: it is not
 * left behind for the next call. An error that has broken the device stays.
 */
void launch_begins(void);
cudaError_t launch_ends(cudaError_t status);

/* No size of a problem is larger: a tile that begins inside a matrix must end at a coordinate that
 * still fits in an int. */
enum { MAX_EXTENT = INT_MAX - 1023 };

/* Returns cudaSuccess for 0 .. MAX_EXTENT; otherwise cudaErrorInvalidValue and a message that names
 * the argument. */
cudaError_t require_size(const char *name, int size);

/* Returns cudaSuccess when one grid can have that many blocks along x; otherwise
 * cudaErrorInvalidValue and a message. */
cudaError_t require_blocks(size_t blocks);

/* Returns cudaSuccess when a block of the current device can have this much shared memory;
 * otherwise cudaErrorNotSupported and a message, or CUDA's error. */
cudaError_t require_shared(size_t bytes);

/*
 * Returns cudaSuccess when `pointer` is aligned to `alignment` bytes and, unless bytes is 0, not
 * null; otherwise cudaErrorInvalidValue and a message that names the argument.
 */
cudaError_t require_pointer(const char *name, const void *pointer, size_t bytes, size_t alignment);

/* Returns cudaSuccess when the two ranges share no byte; otherwise cudaErrorInvalidValue and a
 * message that names both. */
cudaError_t require_disjoint(const char *name_a, const void *a, size_t bytes_a, const char *name_b,
                             const void *b, size_t bytes_b);

#ifdef __cplusplus
}
#endif

#endif
