/*
 * Compares an output with the reference, and looks for elements that were never written.
 */
#ifndef COMMON_CHECK_H
#define COMMON_CHECK_H

#include "problem.h"

#include <stdbool.h>
#include <stddef.h>

/* struct outputs holds what a run made of its inputs, and what it should have made. Arrays are
 * indexed by tensor. */
struct outputs {
    const struct problem *problem;
    const long long *sizes;
    const struct tensor *tensors; /* inputs first */
    int tensor_count, input_count;
    const void *const *host; /* inputs as they were before the run, outputs as they are after it */
    /* These have entries only for outputs: the rows that are checked, and the reference's values
     * and scales, each [rows[t].count, cols]. */
    const struct row_list *rows;
    double *const *value, *const *scale;
};

/* struct comparison says how far outputs are from the reference. */
struct comparison {
    double bound;    /* how large rounding alone can make the error */
    double error;    /* max |out - ref| / scale over the elements that were compared */
    bool wrong;      /* some error is not <= bound */
    char first[160]; /* the first element that is wrong: "C[3][4] is 1.5, should be 2" */
};

/*
 * Returns what an output holds before a kernel runs, for device_buffer_poison(): a signalling NaN
 * of the type, which no arithmetic makes (for integers, a number near the lowest). An instruction
 * that computes with it returns a quiet NaN; on the CPU backend the other bits stay, so a NaN in a
 * result tells which array it came from. `array` is a tensor's index, 0 .. MAX_TENSORS - 1.
 */
uint32_t check_poison(enum tensor_type type, int array);

/* These stand in for an array's index: a workspace, and the shared memory of a new block, have
 * none. */
enum { POISON_OF_WORKSPACE = 14, POISON_OF_SHARED_MEMORY };

/* Returns whether element `index` still holds the poison of `array`. */
bool check_is_poison(const void *data, enum tensor_type type, size_t index, int array);

/* Returns whether the element is a NaN computed from the poison of `array`. On a GPU, where the
 * bits are lost, for integers, and for 16-bit elements and shared memory it returns false. */
bool check_comes_from(const void *data, enum tensor_type type, size_t index, int array);

/* Returns the index of the first element that still holds the poison of `array`, or count when
 * there is none. */
size_t check_unwritten(const void *data, enum tensor_type type, size_t count, int array);

/*
 * Compares `count` elements of an output, from element `first` on, with the reference's values and
 * scales. Where the reference is NaN or infinite, the output must be the same. Elsewhere the error
 * is |out - value| / scale, and an element whose error is not <= bound (a NaN never is) is wrong.
 */
void check_compare(struct comparison *comparison, const struct tensor *tensor, const void *data,
                   size_t first, size_t count, const double *value, const double *scale);

#endif
