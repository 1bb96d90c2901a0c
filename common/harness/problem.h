/*
 * What the harness must know about a problem so that one driver can run, check, time and grade
 * every step. Each file of problems/ fills in one `struct problem`; nothing else differs between
 * the steps.
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

enum { MAX_SIZES = 9, MAX_TENSORS = 12 };

/* One size of the problem, and the option that sets it. */
struct size_option {
    const char *name; /* "head-dim" for --head-dim; null ends the list */
    const char *help;
    long long minimum, maximum;
    long long watched; /* the default where every access is watched (slow), a small one */
    long long device;  /* the default on a GPU */
    bool flag;         /* takes no argument and is 0 or 1 */
    /* null, or the names that the option takes; the size is the name's index */
    const char *const *choices;
    unsigned allowed; /* of the choices, a bit each */
    bool hidden;      /* nothing to choose: not offered, the default counts */
};

/* Element types: IEEE binary32, IEEE binary16, bfloat16; integers, for lengths and the like. */
enum tensor_type { TENSOR_F32, TENSOR_F16, TENSOR_BF16, TENSOR_I32, TENSOR_TYPES };

extern const char *const tensor_type_names[TENSOR_TYPES + 1]; /* "f32", ...; ends with null */
size_t tensor_element_bytes(enum tensor_type type);
/* Element `index` of an array on the host, exact as a double. */
double tensor_element(const void *data, enum tensor_type type, size_t index);
/* The same of `count` elements from `first` on. */
void tensor_elements(double *value, const void *data, enum tensor_type type, size_t first,
                     size_t count);
/* Makes it the value nearest to x, ties to even. */
void tensor_store(void *data, enum tensor_type type, size_t index, double x);
/* Of numbers with a fraction: half the distance from 1 to the next larger value, and the smallest
 * number of full precision. */
double tensor_roundoff(enum tensor_type type);
double tensor_smallest_normal(enum tensor_type type);

enum tensor_role { TENSOR_INPUT, TENSOR_OUTPUT };

/* One array of the problem, seen as a matrix. A row is what a spot check of a large output looks at
 * whole. */
struct tensor {
    const char *name;
    enum tensor_role role;
    enum tensor_type type;
    size_t rows, cols;
    /* The same with all its dimensions, outermost first; zeros follow the last. With heads they are
     * [batch, heads, rows of a head, cols], where a single column is left out. */
    size_t shape[4];
};

/* Some rows of an output, ascending; one that is there twice is computed twice. */
struct row_list {
    size_t *row, count;
};

/*
 * What is true of a kernel, whatever its problem: the first member of a row of a step's table. A
 * table ends with a row whose name is null.
 */
struct kernel {
    const char *name; /* its C function is the problem's name, an underscore and this one */
    const char *file; /* in its ladder's folder */
    const char *idea; /* one line */
    /* The rung that it follows; null where something new begins, not to be read as a change. */
    const char *after;
    /* names that its kernel had, or of kernels that it succeeds, space-separated; null for none */
    const char *was;
    const char *ladder; /* filled in by step_rows() */
    /* The oldest it runs on, as nvcc names it: "sm_80". "sm_90a" is that one alone. Null for any.
     */
    const char *architecture;
    /* On an older device it runs an earlier kernel of the ladder instead. */
    bool falls_back;
    /* It asks for its turn until it comes: how many atomics that takes depends on what else the
     * machine does. */
    bool polls;
    /* Sizes, as options of the step's program: "--rows 3 --cols 2053". */
    const char *own_sizes; /* where it hands nothing over to another kernel; null: it never does */
    /* Where a page of it (make show) is small and tells something; null: own_sizes, or what the
     * program takes by itself. */
    const char *shown_sizes;
};

/* The beginning of a row's initialiser. */
#define ABOUT(n, f, i) .about.name = #n, .about.file = f, .about.idea = i

/*
 * What one run does to global memory: loads and stores are instructions of one thread, or boxes of
 * the copy engine, whatever their width. Arrays are aligned as cudaMalloc() aligns them. Of a
 * kernel that chooses by the device, on the current one.
 */
struct cost {
    long long loads, stores, bytes_read, bytes_written;
};

struct mistakes;

struct problem {
    const char *name;
    const struct size_option *sizes;
    size_t row_bytes; /* of a row of a table */

    /* Narrows a copy of `sizes` to what some kernel of the table takes. Null where all take all. */
    void (*narrow)(const void *table, struct size_option *sizes);

    /* Prints the row's own limits as JSON members, each after a comma. Null where there are none.
     */
    void (*print_limits)(const struct kernel *kernel);

    /*
     * Fills in `tensors`, inputs first, and *count. Returns cudaErrorInvalidValue and a message
     * (refusal.h) for sizes that do not belong together; may replace "0 means as ..." by the value
     * meant.
     */
    cudaError_t (*tensors)(long long sizes[MAX_SIZES], struct tensor tensors[MAX_TENSORS],
                           int *count);

    /* Bytes of workspace that the kernel asks for, null for none; and what a run costs. */
    size_t (*workspace)(const struct kernel *kernel, const long long sizes[MAX_SIZES]);
    struct cost (*cost)(const struct kernel *kernel, const long long sizes[MAX_SIZES]);

    /* Fills the host arrays of the inputs, in the order of `tensors`. */
    void (*inputs)(const long long sizes[MAX_SIZES], enum input_kind kind, uint64_t seed,
                   void *const *host);
    /* Then computes those that follow from the others, such as what an earlier kernel leaves for
     * this one. Null where there are none. */
    void (*derive)(const long long sizes[MAX_SIZES], void *const *host);

    /*
     * The listed rows in double precision: for output o (in the order of `tensors`, counted from
     * the first output) and rows[o], value[o] [count, cols] and the scale that its rounding errors
     * are measured in, scale[o] [count, cols]. Outputs with equally many rows have the same list.
     */
    void (*reference)(const long long sizes[MAX_SIZES], const void *const *host,
                      const struct row_list *rows, double *const *value, double *const *scale);

    /* Multiply-adds (or comparable steps) of one reference row, of the output where a row takes
     * most, for the choice of how many rows to check. */
    double (*reference_cost)(const long long sizes[MAX_SIZES]);

    /* |out - value| <= bound * scale holds for a correct kernel. From the arithmetic;
     * docs/mathematics.md derives it. */
    double (*bound)(const long long sizes[MAX_SIZES]);

    double (*flops)(const long long sizes[MAX_SIZES]);
    /* Each input read once, each output written once. */
    double (*compulsory_bytes)(const long long sizes[MAX_SIZES]);

    /* Checks the arguments and calls the kernel on device pointers in the order of `tensors`. */
    cudaError_t (*run)(const struct kernel *kernel, const long long sizes[MAX_SIZES],
                       void *const *device, void *workspace, cudaStream_t stream);

    const struct mistakes *mistakes; /* that show in its values: explain.h */
};

/* Row `index` of a table of the problem's kernels. */
const struct kernel *problem_kernel(const struct problem *problem, const void *table, size_t index);

/* Bytes of workspace that the kernel asks for at these sizes, 0 for none. */
size_t problem_workspace(const struct problem *problem, const struct kernel *kernel,
                         const long long sizes[MAX_SIZES]);

/* Fills the host arrays of all inputs: `inputs`, then `derive`. */
void problem_inputs(const struct problem *problem, const long long sizes[MAX_SIZES],
                    enum input_kind kind, uint64_t seed, void *const *host);

/* Length of a sum of n terms in roundings: n for short sums, 6·sqrt(n) for long ones
 * (docs/mathematics.md). */
double roundings(double n);

/* Unit roundoff of float. */
#define UNIT_ROUNDOFF_F32 0x1p-24

#ifdef __cplusplus
}
#endif

#endif
