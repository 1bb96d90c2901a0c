/*
 * What a program can ask about the machine it runs on, on either backend.
 *
 * Two implementations, chosen by the build: common/device/backend.c for a GPU, and one beside the
 * CPU backend. The rest of the project asks here and never which backend it was built for.
 */
#ifndef COMMON_BACKEND_H
#define COMMON_BACKEND_H

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define EACH_COUNTER(X) X(launches)                                                                \
    X(global_loads) X(global_load_bytes) X(global_load_requests) X(global_load_sectors)            \
    X(global_stores) X(global_store_bytes) X(global_store_requests) X(global_store_sectors)        \
    X(shared_loads) X(shared_stores) X(shared_wavefronts) X(shared_wavefronts_ideal)               \
    X(barriers) X(atomics)
/* clang-format on */

/*
 * What kernels did since the last reset, summed over all launches. A "load" or "store" is one
 * instruction of one thread, whatever its width; a "request" is that instruction executed once by a
 * warp; a "sector" is one of the aligned 32-byte pieces of global memory that a request touches. A
 * "wavefront" is one pass of a warp's request over the 32 banks of shared memory; the ideal is the
 * number of passes for the same bytes with no two lanes in conflict. Atomics are counted apart from
 * loads and stores. Barriers are counted once per block.
 */
struct counters {
#define COUNTER(name) unsigned long long name;
    EACH_COUNTER(COUNTER)
#undef COUNTER
};

/* "gpu", "cpu" (the fast build) or "check" (the build that watches every access). */
const char *backend_name(void);

/* The current device's compute capability as major * 10 + minor, 75 for a T4; 0 when there is no
 * device. */
int backend_architecture(void);

/*
 * What is wrong with the environment variables that the backend reads, one sentence; the empty
 * string when nothing is. A launch would fail, and a device that cannot be told looks too old.
 */
const char *backend_complaint(void);

/* True where an elapsed time says something about the kernel. */
bool backend_has_timing(void);

/* Copies the counters to *total. False, and *total all zero, where the backend does not count.
 * Waits for the device. */
bool backend_counters(struct counters *total);
void backend_counters_reset(void);

/*
 * From the next launch on, writes what kernels do to `file`, event by event: of the block and the
 * warp with these numbers, or of all where they are negative. common/simt/README.md describes the
 * format. Returns what is wrong, one sentence; the empty string when nothing is.
 */
const char *backend_trace(const char *file, long long block, long long warp);

/* What a trace says about an array: for 0 and "" it says nothing. No string is null. */
struct description {
    const char *name, *type;
    size_t element_bytes;
    size_t shape[4]; /* outermost first; zeros follow the last */
};
/* Of `bytes` of device memory at `device`, until they are freed. */
void backend_describe(const void *device, size_t bytes, const struct description *about);

/*
 * Declares `bytes` of device memory at `device` off limits to kernels: the checked build reports
 * the first access. Elsewhere this does nothing. The fence ends when the memory is freed.
 */
void backend_fence(const void *device, size_t bytes);

/*
 * The last error's full report (kernel, block, thread, source line, what was wrong), one line
 * without a final newline; the empty string when there is none or the backend only has error codes.
 * Valid until the next launch.
 */
const char *backend_report(void);

#ifdef __cplusplus
}
#endif

#endif
