/*
 * What the main() of a puzzle needs: arrays on the host and on the device, and a verdict. A puzzle
 * is a file NN_step/puzzles/NAME.cu with one function to write in five minutes. `make learn` puts
 * it into work/ without its answer and judges it; by hand, from the top of the project:
 *
 *     common/simt/simtcc --check -I. work/01_naive_matmul/puzzles/copy.cu -o build/copy &&
 * build/copy
 *
 * or, on a GPU, which does not count: nvcc -I. -Icommon/device/gpu FILE common/device/backend.c
 *
 * The first thing that is wrong ends the program with status 1. Memory is freed when it ends.
 */
#ifndef COMMON_PUZZLE_CUH
#define COMMON_PUZZLE_CUH

#include "common/device/backend.h"

#include <cuda_runtime.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* An array of floats on the device. On the host are the same values, or, of an array that a kernel
 * is to write, those that it should have: a plain loop puts them there. */
struct array {
    const char *name;
    int count;
    float *host, *device;
};

static void require(cudaError_t status)
{
    if (status == cudaSuccess)
        return;
    printf("%s\n", cudaGetErrorString(status));
    exit(1);
}

/* Makes an array whose device copy is filled with bytes. 0xff makes floats that are not numbers. */
static struct array filled(const char *name, int count, int byte)
{
    struct array made = {name, count, (float *)calloc(count, sizeof(float)), NULL};
    require(cudaMalloc(&made.device, count * sizeof(float)));
    require(cudaMemset(made.device, byte, count * sizeof(float)));
    backend_counters_reset();
    return made;
}

/* Makes an array for a kernel to write. */
static inline struct array unwritten(const char *name, int count)
{
    return filled(name, count, 0xff);
}

/* Copies what is on the host to the device. */
static void to_device(struct array array)
{
    require(
        cudaMemcpy(array.device, array.host, array.count * sizeof(float), cudaMemcpyHostToDevice));
}

/* Makes an array of multiples of 1/8 between -62.5 and 62.4, in no order, and each array of others.
 * Sums of them are exact. */
static inline struct array numbers(const char *name, int count)
{
    static int start = 0;
    const struct array made = filled(name, count, 0);
    start += 13;
    for (int i = 0; i < count; i++)
        made.host[i] = (float)((i * 7919 + start) % 1000 - 500) / 8.0f;
    to_device(made);
    return made;
}

/* Compares what the kernel wrote with what is on the host. The format says at which sizes. */
static void check(struct array array, const char *format, ...)
{
    char sizes[100];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sizes, sizeof sizes, format, arguments);
    va_end(arguments);
    cudaError_t status = cudaGetLastError();
    if (status == cudaSuccess)
        status = cudaDeviceSynchronize();
    if (status != cudaSuccess) {
        const char *report = backend_report();
        printf("WRONG at %s\n%s\n", sizes, report[0] ? report : cudaGetErrorString(status));
        exit(1);
    }
    float *got = (float *)malloc(array.count * sizeof(float));
    require(cudaMemcpy(got, array.device, array.count * sizeof(float), cudaMemcpyDeviceToHost));
    int wrong = 0, first = 0;
    for (int i = array.count - 1; i >= 0; i--)
        if (got[i] != array.host[i] &&
            !(fabsf(got[i] - array.host[i]) <= 1e-5f * fmaxf(1.0f, fabsf(array.host[i])))) {
            wrong++;
            first = i;
        }
    if (wrong) {
        printf("WRONG at %s\n", sizes);
        if (isnan(got[first]))
            printf("%s[%d] is not a number: nothing was written there, or NaN was", array.name,
                   first);
        else
            printf("%s[%d] is %g and should be %g", array.name, first, got[first],
                   array.host[first]);
        printf("; %d of %d elements are wrong\n", wrong, array.count);
        exit(1);
    }
    free(got);
}

/* Judges a number that the checked build counted since the arrays were made. */
static inline void at_most(const char *what, unsigned long long counted, unsigned long long bound)
{
    if (counted > bound) {
        printf("RIGHT, BUT IT COSTS TOO MUCH\n%llu %s, and %llu are enough\n", counted, what,
               bound);
        exit(1);
    }
}

/* Returns what was counted since the arrays were made, zeros where nothing counts. */
static inline struct counters counted(void)
{
    struct counters total;
    backend_counters(&total);
    return total;
}

/* Ends a main() that got here. */
static inline int right(void)
{
    printf("RIGHT\n");
    return 0;
}

#endif
