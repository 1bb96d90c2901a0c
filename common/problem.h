/*
 * What the harness must know about a problem so that one driver can run, check, time and grade
 * every step. matmul.c, softmax.c and attention.c each fill in one `struct problem`; nothing else
 * differs between the steps.
 */
#ifndef COMMON_PROBLEM_H
#define COMMON_PROBLEM_H

#include "inputs.h"

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MAX_SIZES = 8, MAX_TENSORS = 5 };

/* One size of the problem, and the option that sets it. A flag takes no argument and is 0 or 1. */
struct size_option {
    const char *name; /* "head-dim" for --head-dim; null ends the list */
    const char *help;
    long long minimum, maximum;
    long long watched; /* the default where every access is watched (slow), a small one */
    long long device;  /* the default on a GPU */
    bool flag;
};

enum tensor_role { TENSOR_INPUT, TENSOR_OUTPUT };
enum tensor_type { TENSOR_F32, TENSOR_F16 };

/*
 * One array of the problem, seen as a matrix. Every output has the same number of rows, and row r
 * of each is computed by the reference together: a row is what a spot check of a large result looks
 * at whole.
 */
struct tensor {
    const char *name;
    enum tensor_role role;
    enum tensor_type type;
    size_t rows, cols;
};

/* A row of a step's table without its problem's types. name is null past the end. */
struct kernel_row {
    const char *name;
    const char *idea;
};

struct problem {
    const char *name;
    const struct size_option *sizes;

    struct kernel_row (*kernel)(const void *table, size_t index);

    /*
     * Fills in `tensors`, inputs first, and *count. Returns cudaErrorInvalidValue and a sentence
     * (refusal.h) for sizes that do not belong together; may replace "0 means as ..." by the value
     * meant.
     */
    cudaError_t (*tensors)(long long sizes[MAX_SIZES], struct tensor tensors[MAX_TENSORS],
                           int *count);

    /* Bytes of workspace the kernel asks for. */
    size_t (*workspace)(const void *table, size_t index, const long long sizes[MAX_SIZES]);

    /* Fills the host arrays of the inputs, in the order of `tensors`. */
    void (*inputs)(const long long sizes[MAX_SIZES], enum input_kind kind, uint64_t seed,
                   void *const *host);

    /*
     * Row `row` of every output in double precision: value[o][c] and the scale that its rounding
     * errors are measured in, scale[o][c], for output o (in the order of `tensors`, counted from
     * the first output).
     */
    void (*reference)(const long long sizes[MAX_SIZES], const void *const *host, size_t row,
                      double *const *value, double *const *scale);

    /* Multiply-adds (or comparable steps) of one reference row, for the choice of how many rows to
     * check. */
    double (*reference_cost)(const long long sizes[MAX_SIZES]);

    /* |out - value| <= bound * scale holds for a correct kernel. From the arithmetic;
     * docs/mathematics.md
     * derives it. */
    double (*bound)(const long long sizes[MAX_SIZES]);

    double (*flops)(const long long sizes[MAX_SIZES]);
    /* Each input read once, each output written once. */
    double (*compulsory_bytes)(const long long sizes[MAX_SIZES]);

    /* Calls the kernel on device pointers in the order of `tensors`. */
    cudaError_t (*run)(const void *table, size_t index, const long long sizes[MAX_SIZES],
                       void *const *device, void *workspace, cudaStream_t stream);
};

/* Length of a sum of n terms in roundings: n for short sums, 6·sqrt(n) for long ones
 * (docs/mathematics.md). */
double roundings(double n);

/* Unit roundoff of float and of half. */
#define UNIT_ROUNDOFF_F32 0x1p-24
#define UNIT_ROUNDOFF_F16 0x1p-11

#ifdef __cplusplus
}
#endif

#endif
