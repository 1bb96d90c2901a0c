/*
 * Device memory is guarded and poisoned.
 *
 * Guard zones on both sides of the data hold a pattern that a write beyond either end destroys.
 * Read as float, the pattern is a huge number that shows in any result. The caller chooses the
 * poison, a word, anew before each run: check_poison() makes NaNs whose bits no kernel computes.
 */
#ifndef COMMON_DEVICE_BUFFER_H
#define COMMON_DEVICE_BUFFER_H

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A guard is wide enough to catch a ragged tile that is stored whole. In front of the data there
 * are the bytes of the offset more. */
enum { DEVICE_BUFFER_GUARD = 16384, DEVICE_BUFFER_ALIGNMENT = 256 };

struct device_buffer {
    void *data; /* device memory, `bytes` long; aligned to 256 plus the offset asked for */
    size_t bytes;
    void *base; /* the allocation, guards included */
};

/*
 * Allocates `bytes` bytes of uninitialised device memory between two guards that hold their
 * pattern. data is `offset` bytes past a multiple of 256, to prove that a kernel needs no more
 * alignment than it asks for. On failure returns CUDA's error (cudaErrorMemoryAllocation, ...) and
 * leaves *buffer empty.
 */
cudaError_t device_buffer_create(struct device_buffer *buffer, size_t bytes, size_t offset);

/* Frees the memory; an empty (all zero) buffer is fine. */
void device_buffer_destroy(struct device_buffer *buffer);

/* Fills the data with a word, and waits until it is there. */
cudaError_t device_buffer_poison(const struct device_buffer *buffer, uint32_t word);

/* Copies all of the data from or to the host and waits for it. */
cudaError_t device_buffer_upload(const struct device_buffer *buffer, const void *host);
cudaError_t device_buffer_download(const struct device_buffer *buffer, void *host);

/*
 * Checks both guards. Returns false when a byte changed, and then *distance says how far that byte
 * is from the data: -1 is the byte just before the data, 0 the byte just past its end. A CUDA error
 * also gives false, with *distance = 0 and *status set.
 */
bool device_buffer_guards_intact(const struct device_buffer *buffer, long long *distance,
                                 cudaError_t *status);

#endif
