/*
 * The tests of the checked build use these kernels: what it must count, what it must report, and
 * correct programs that look suspicious and must not be reported. Each function launches on `data`
 * (CHECK_INTS ints of device memory, zero) and returns the error of the launch and a
 * synchronisation.
 */
#ifndef CHECK_KERNELS_H
#define CHECK_KERNELS_H

#include "tests/support/finished.cuh"
#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CHECK_INTS = 1 << 16 };

typedef cudaError_t check_run(int *data);

struct check_case {
    const char *name;
    check_run *run;
    const char *says; /* in check_scopes.cu: a part of the report, or null */
};

/* check_counts.cu */
cudaError_t count_naive_matmul(const float *A, const float *B, float *C, int N);
cudaError_t count_tiled_matmul(const float *A, const float *B, float *C,
                               int N); /* 16 x 16 tiles, N a multiple */
cudaError_t count_strided_loads(const float *in, float *out, int threads, int stride, int offset);
cudaError_t count_strided_stores(float *out, int threads, int stride, int offset);
/* one warp, 2 or 4 floats a thread */
cudaError_t count_wide_loads(const float *in, float *out, int width);
cudaError_t count_half_loads(const unsigned short *in, unsigned short *out);
/* 32 x 32 in shared memory, 32 or 33 wide */
cudaError_t count_pitch(float *out, int pitch, int by_column);
cudaError_t count_shared_width(float *out,
                               int width); /* one warp stores and loads 1, 2 or 4 floats a thread */
/* one warp stores and loads every stride-th float */
cudaError_t count_shared_stride(float *out, int stride);
cudaError_t count_broadcast(float *out);
cudaError_t count_uneven_loops(const float *in, float *out,
                               int meet); /* lane x loads x % 4 + 1 times, twice */
cudaError_t count_barriers(int *out, int barriers, int blocks);
cudaError_t count_atomics(int *out, int blocks);
/* one warp loads a second row before or after it uses the first */
cudaError_t count_loads_ahead(const float *in, float *out, int ahead);
/* one warp copies three rows, and waits for all but `pending` before it uses the first */
cudaError_t count_copies(const float *in, float *out, int pending);
/* all blocks wait for a flag that the first one sets */
cudaError_t count_waiting(int *data, int blocks);

/* check_broken.cu, check_correct.cu, check_scopes.cu: tables that end with a null name */
enum { MOST_PROGRAMS = 64 };
extern struct check_case broken_programs[MOST_PROGRAMS], correct_programs[MOST_PROGRAMS],
    scope_programs[MOST_PROGRAMS];
int host_reads_device(const int *data);
cudaError_t run_many_locks(int *data, int rounds); /* check_scopes.cu */

#ifdef __cplusplus
}

/* Begins a function that runs a program on `data`, and puts it into the table. */
#define CHECK_PROGRAM(table, name)                                                                 \
    static cudaError_t run_##name(int *data);                                                      \
    [[maybe_unused]] static const bool added_##name = add_program(table, #name, run_##name);       \
    static cudaError_t run_##name([[maybe_unused]] int *data)

static inline bool add_program(struct check_case (&table)[MOST_PROGRAMS], const char *name,
                               check_run *run)
{
    int end = 0;
    while (table[end].name)
        end++;
    table[end] = {name, run, nullptr};
    return end < MOST_PROGRAMS - 1;
}

static inline struct check_case *last_program(struct check_case (&table)[MOST_PROGRAMS])
{
    struct check_case *last = table;
    while (last[1].name)
        last++;
    return last;
}
#endif

#endif
