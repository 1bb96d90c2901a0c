/*
 * A problem tells the harness all it must know, so that one driver can run, check, time and grade
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

enum { MAX_SIZES = 14, MAX_TENSORS = 12 };

/* A size_option is one size of the problem, and the option that sets it. */
struct size_option {
    const char *name; /* "head-dim" for --head-dim; null ends the list */
    const char *help;
    long long minimum, maximum;
    long long watched; /* the default where every access is watched, which is slow */
    long long device;  /* the default on a GPU */
    bool flag;         /* the option takes no argument; the size is 0 or 1 */
    /* null, or the names that the option takes; the size is the name's index */
    const char *const *choices;
    unsigned allowed; /* the allowed choices, one bit each */
    bool hidden;      /* not offered, because there is no choice: the default counts */
};

/* Elements have these types: IEEE binary32, IEEE binary16, bfloat16, and integers, for lengths and
 * the like. */
enum tensor_type { TENSOR_F32, TENSOR_F16, TENSOR_BF16, TENSOR_I32, TENSOR_TYPES };

extern const char *const tensor_type_names[TENSOR_TYPES + 1]; /* "f32", ...; ends with null */
size_t tensor_element_bytes(enum tensor_type type);
/* Returns element `index` of an array on the host, exact as a double. */
double tensor_element(const void *data, enum tensor_type type, size_t index);
/* Converts `count` elements from `first` on in the same way. */
void tensor_elements(double *value, const void *data, enum tensor_type type, size_t first,
                     size_t count);
/* Sets element `index` to the value nearest to x, ties to even. */
void tensor_store(void *data, enum tensor_type type, size_t index, double x);
/* These hold for types with a fraction: half the distance from 1 to the next larger value, and the
 * smallest normal number. */
double tensor_roundoff(enum tensor_type type);
double tensor_smallest_normal(enum tensor_type type);

enum tensor_role { TENSOR_INPUT, TENSOR_OUTPUT };

/* A tensor is one array of the problem, seen as a matrix. A spot check of a large output checks
 * whole rows. */
struct tensor {
    const char *name;
    enum tensor_role role;
    enum tensor_type type;
    size_t rows, cols;
    /* The shape has all dimensions, outermost first; zeros follow the last. With heads they are
     * [batch, heads, rows of a head, cols]; cols is left out where it is 1. */
    size_t shape[4];
};

/* A row_list has some rows of an output, in ascending order. A row that appears twice is computed
 * twice. */
struct row_list {
    size_t *row, count;
};

/*
 * This is what every kernel has, whatever its problem: the first member of a row of a step's table.
 * A table ends with a row whose name is null.
 */
struct kernel {
    const char *name; /* problem_function() makes the name of its C function of it */
    const char *file; /* in its ladder's folder */
    const char *idea; /* what is new in it, in one line */
    /* The rung that this one changes; null where it changes none. */
    const char *after;
    /* Names that mean this kernel now: its own before it was renamed, those of rungs that became
     * part of it. A space between two; null for none. */
    const char *was;
    const char *ladder; /* filled in by step_rows() */
    /* The oldest architecture that the kernel runs on, in nvcc's words: "sm_80". "sm_90a" is that
     * one alone. Null means any. */
    const char *architecture;
    /* On an older device the kernel runs an earlier one of its ladder instead. */
    bool falls_back;
    /* The kernel polls until its turn comes, so its numbers of atomics and of accesses to shared
     * memory depend on what else runs on the machine. */
    bool polls;
    /* The kernel adds to global memory by atomics, for which a subnormal number is 0 on a GPU. */
    bool flushes_subnormals;
    /* own_sizes, edges and shown_sizes are options of the step's program: "--rows 3 --cols 2053".
     * The first two are families of cases (cases.h), with semicolons between them. */
    const char *own_sizes; /* where no other kernel takes over; null: none ever does */
    const char *edges;     /* just below and above what the kernel decides by; null for none */
    /* Sizes at which its page (make show) is small and instructive; null: own_sizes, or the
     * program's defaults. */
    const char *shown_sizes;
    /* The benchmark's shape at which it pays, as common/tools/bench labels it; null: its lesson's.
     */
    const char *timed_at;
    /* What the rung changes, as bounds on what is counted at some sizes; null for a rung that only
     * a time can judge: claims.h. */
    const char *claims;
};

/* A row's initialiser begins with this. */
#define ABOUT(n, f, i) .about.name = #n, .about.file = f, .about.idea = i

/*
 * The cost says what one run does to global memory. Loads and stores are instructions of one
 * thread, or boxes of the copy engine, whatever their width. Arrays are aligned as cudaMalloc()
 * aligns them. A kernel that chooses by the device is costed on the current one.
 */
struct cost {
    long long loads, stores, bytes_read, bytes_written;
};

struct mistakes;
struct case_family;

struct problem {
    const char *name;
    const struct size_option *sizes;
    size_t row_bytes; /* the size of a table's row */

    /* Narrows a copy of `sizes` to what some kernel of the table takes. It is null where every
     * kernel takes everything. */
    void (*narrow)(const void *table, struct size_option *sizes);

    /* Prints the row's own limits as JSON members, each after a comma. It is null where there are
     * none. */
    void (*print_limits)(const struct kernel *kernel);

    /*
     * Fills in `tensors`, inputs first, and *count. Returns cudaErrorInvalidValue and a message
     * (refusal.h) for sizes that do not fit together. It may replace a 0 that means "the same as
     * ..." by that size.
     */
    cudaError_t (*tensors)(long long sizes[MAX_SIZES], struct tensor tensors[MAX_TENSORS],
                           int *count);

    /* Return the bytes of workspace that the kernel asks for (null for none), and what a run
     * costs. */
    size_t (*workspace)(const struct kernel *kernel, const long long sizes[MAX_SIZES]);
    struct cost (*cost)(const struct kernel *kernel, const long long sizes[MAX_SIZES]);

    /* Fills the host arrays of the inputs, in the order of `tensors`. */
    void (*inputs)(const long long sizes[MAX_SIZES], enum input_kind kind, uint64_t seed,
                   void *const *host);
    /* Then computes the inputs that follow from others, such as what an earlier kernel leaves for
     * this one. It is null where there are none. */
    void (*derive)(const long long sizes[MAX_SIZES], void *const *host);

    /*
     * Computes the listed rows in double precision. For output o (in the order of `tensors`,
     * counted from the first output) and rows[o], it fills value[o] [count, cols], and scale[o]
     * [count, cols], in which rounding errors are measured. Outputs with equally many rows have the
     * same list.
     */
    void (*reference)(const long long sizes[MAX_SIZES], const void *const *host,
                      const struct row_list *rows, double *const *value, double *const *scale);

    /* Returns the multiply-adds (or comparable operations) of one reference row, for the output
     * whose rows take most. The number of rows to check depends on it. */
    double (*reference_cost)(const long long sizes[MAX_SIZES]);

    /* For a correct kernel |out - value| <= bound * scale. docs/mathematics.md derives the bound
     * from the arithmetic. */
    double (*bound)(const long long sizes[MAX_SIZES]);

    double (*flops)(const long long sizes[MAX_SIZES]);
    /* Counts each input read once and each output written once. */
    double (*compulsory_bytes)(const long long sizes[MAX_SIZES]);

    /* Checks the arguments and calls the kernel on device pointers in the order of `tensors`. */
    cudaError_t (*run)(const struct kernel *kernel, const long long sizes[MAX_SIZES],
                       void *const *device, void *workspace, cudaStream_t stream);

    const struct mistakes *mistakes; /* mistakes that show in the values: explain.h */

    const struct case_family *cases; /* what every kernel must get right: cases.h */
    /* Changes sizes, and the distance of pointers from their alignment, to what the kernel takes.
     * Returns false where that is impossible. It is null where every kernel takes everything. */
    bool (*fits)(const struct kernel *kernel, long long sizes[MAX_SIZES], size_t *offset);
};

/* Returns the name of a kernel's C function, valid until the next call: the problem's name, an
 * underscore and the kernel's. A word with which both end and begin stands there once. */
const char *problem_function(const struct problem *problem, const struct kernel *kernel);

/* Returns row `index` of a table of the problem's kernels. */
const struct kernel *problem_kernel(const struct problem *problem, const void *table, size_t index);

/* Returns the bytes of workspace that the kernel asks for at these sizes, 0 for none. */
size_t problem_workspace(const struct problem *problem, const struct kernel *kernel,
                         const long long sizes[MAX_SIZES]);

/* Fills the host arrays of all inputs: calls `inputs`, then `derive`. */
void problem_inputs(const struct problem *problem, const long long sizes[MAX_SIZES],
                    enum input_kind kind, uint64_t seed, void *const *host);

/* Returns the length of a sum of n terms in roundings: n for short sums, 6·sqrt(n) for long ones
 * (docs/mathematics.md). */
double roundings(double n);

/* This is the unit roundoff of float. */
#define UNIT_ROUNDOFF_F32 0x1p-24

#ifdef __cplusplus
}
#endif

#endif
