/*
 * What becomes of an output: compare it with the reference, look for elements that were never
 * written.
 */
#ifndef COMMON_CHECK_H
#define COMMON_CHECK_H

#include "problem.h"

#include <stdbool.h>
#include <stddef.h>

/* What a run made of its inputs, and what it should have made. Arrays are indexed by tensor. */
struct outputs {
    const struct problem *problem;
    const long long *sizes;
    const struct tensor *tensors; /* inputs first */
    int tensor_count, input_count;
    const void *const *host; /* inputs as they were, outputs as they are */
    /* Of outputs alone: the rows that are looked at, and value and scale of the reference, each
     * [rows[t].count, cols]. */
    const struct row_list *rows;
    double *const *value, *const *scale;
};

/* How far outputs are from the reference. */
struct comparison {
    double bound;    /* what rounding alone can make of the error */
    double error;    /* max |out - ref| / scale over the elements that were compared */
    bool wrong;      /* not error <= bound */
    char first[160]; /* the first element that is wrong: "C[3][4] is 1.5, should be 2" */
};

/*
 * What an output holds before a kernel runs, for device_buffer_poison(): a signalling NaN of the
 * type, which no arithmetic makes (of integers, one near the lowest). An instruction that computes
 * with it gives a quiet NaN, on the CPU backend with the rest of the bits unchanged; so a NaN in a
 * result tells which array it comes from. `array` is a tensor's index, 0 .. MAX_TENSORS - 1.
 */
uint32_t check_poison(enum tensor_type type, int array);

/* Of memory that has no array's index: a workspace, and shared memory of a new block. */
enum { POISON_OF_WORKSPACE = 14, POISON_OF_SHARED_MEMORY };

/* Whether element `index` still holds the poison of `array`. */
bool check_is_poison(const void *data, enum tensor_type type, size_t index, int array);

/* Whether it is a NaN that was computed from that poison. A GPU forgets, and an integer is no NaN:
 * then nothing does. */
bool check_comes_from(const void *data, enum tensor_type type, size_t index, int array);

/* Index of the first element that still holds the poison of `array`; count when there is none. */
size_t check_unwritten(const void *data, enum tensor_type type, size_t count, int array);

/*
 * Takes `count` elements of an output, from element `first` on, into the comparison. value and
 * scale are the reference's. A reference that is NaN or infinite must be met exactly. Otherwise the
 * element's error is |out - value| / scale, and one that is not <= bound (a NaN never is) is wrong.
 */
void check_compare(struct comparison *comparison, const struct tensor *tensor, const void *data,
                   size_t first, size_t count, const double *value, const double *scale);

#endif
