/*
 * What a program can ask about the machine it runs on, on either backend.
 *
 * There are two implementations, and the build chooses one: common/device/backend.c for a GPU, and
 * one in the CPU backend. The rest of the project asks these functions and never tests which
 * backend it was built for.
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
    X(barriers) X(atomics) X(blocks) X(threads) X(matrix_multiplies)                               \
    X(wave_accesses) X(loads_ahead) X(copies_ahead) X(copies_in_flight) X(products_in_flight)
/* clang-format on */

/*
 * Counts what kernels did since the last reset, summed over all launches. A "load" or "store" is
 * one instruction of one thread, whatever its width; a "request" is that instruction executed once
 * by a warp; a "sector" is one of the aligned 32-byte pieces of global memory that a request
 * touches. A "wavefront" is one pass of a warp's request over the 32 banks of shared memory; the
 * ideal number is what the same bytes take when no two lanes conflict. Atomics are counted apart
 * from loads and stores. A barrier counts once per block. Blocks and threads are those that ran.
 * Matrix multiplies are the multiply-adds of mma, wmma and wgmma, also those on padding.
 *
 * Wave accesses say how well a grid fills the device. A wave is as many blocks in a row as there
 * are multiprocessors. The loads and stores, of global and shared memory, of its busiest block are
 * added up over the waves of a launch.
 *
 * The last four say how much of a thread's waiting lies behind other work. All counters are the
 * same whatever the order of threads, but for kernels whose blocks draw their work.
 *
 * loads_ahead         loads from global memory after which their thread loads from shared memory
 *                     before it next stores there: what they bring waits in registers. (Where an
 *                     instruction is executed again before the whole warp has met, its first
 *                     execution decides for all.)
 * copies_ahead        cp.async copies between whose commit and whose wait their thread loaded from
 *                     shared memory
 * copies_in_flight    at each cp_async_wait, the copies of its thread that are still under way when
 *                     it goes on; so a copy counts once for each wait that it outlasts
 * products_in_flight  the same for wgmma_wait and the wgmma of a thread: once for each of its 128
 */
struct counters {
#define COUNTER(name) unsigned long long name;
    EACH_COUNTER(COUNTER)
#undef COUNTER
};

/* Returns "gpu", "cpu" (the fast build) or "check" (the build that watches every access). */
const char *backend_name(void);

/* Returns the current device's compute capability as major * 10 + minor: 75 for a T4, 0 when there
 * is no device. */
int backend_architecture(void);

/*
 * Says in one sentence what is wrong with the environment variables that the backend reads; returns
 * the empty string when nothing is. Otherwise launches fail, and backend_architecture() returns 0
 * if it cannot read the architecture.
 */
const char *backend_complaint(void);

/* Returns whether an elapsed time says anything about the kernel. */
bool backend_has_timing(void);

/* Waits for the device and copies the counters to *total. Where the backend does not count, returns
 * false and sets *total to zero. */
bool backend_counters(struct counters *total);
void backend_counters_reset(void);

/*
 * From the next launch on, writes every event of a kernel to `file`: those of the given block and
 * warp, or of all where the number is negative. common/simt/README.md describes the format. Returns
 * one sentence that says what is wrong, or the empty string.
 */
const char *backend_trace(const char *file, long long block, long long warp);

/* This is what a trace says about an array. Zeros and empty strings mean that it says nothing. No
 * pointer is null. */
struct description {
    const char *name, *type;
    size_t element_bytes;
    size_t shape[4]; /* outermost first; zeros follow the last */
};
/* Describes the `bytes` of device memory at `device` to traces and reports, until they are freed.
 */
void backend_describe(const void *device, size_t bytes, const struct description *about);

/*
 * Declares `bytes` of device memory at `device` off limits to kernels: the checked build reports
 * the first access. Elsewhere this does nothing. The fence ends when the memory is freed.
 */
void backend_fence(const void *device, size_t bytes);

/*
 * Returns the last error's full report (kernel, block, thread, source line, what was wrong) as one
 * line without a final newline. It is empty when there was no error or the backend has only error
 * codes, and valid until the next launch.
 */
const char *backend_report(void);

#ifdef __cplusplus
}
#endif

#endif
