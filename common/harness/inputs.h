/*
 * The input generators have names and seeds.
 *
 * Every element is a function of (seed, stream, index) alone, so any part of an input can be made
 * again without the rest. No input is all zeros or has the same value everywhere, because such
 * inputs hide indexing errors.
 */
#ifndef COMMON_INPUTS_H
#define COMMON_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum input_kind {
    INPUTS_NORMAL,     /* standard normal */
    INPUTS_UNIFORM,    /* uniform in [0, 1): one-sided sums that grow without cancelling */
    INPUTS_LARGE,      /* each row far from 0 on one side: scores of 104 to 200 in magnitude */
    INPUTS_ASCENDING,  /* row maxima rise along the row: an online softmax rescales at every step */
    INPUTS_DESCENDING, /* row maxima fall along it: it never rescales after the first step */
    INPUTS_OUTLIERS,   /* normal, with a rare 30 here and there */
    INPUTS_CONSTANT,   /* each row constant, rows different: all elements of a row tie */
    INPUTS_SPECIAL,    /* normal, with infinities and the like where the problem puts them */
    INPUTS_SUBNORMAL,  /* normal, with results below the smallest normal number */
    INPUT_KINDS
};

/* Returns the name on the command line: "normal", "uniform", "large", ... */
const char *input_kind_name(enum input_kind kind);

/* Finds a kind by name. Returns false when there is none. */
bool input_kind_find(const char *name, enum input_kind *kind);

/* Returns 64 well-mixed bits of (seed, stream, index). The stream tells the tensors of one run
 * apart. */
uint64_t input_bits(uint64_t seed, uint64_t stream, uint64_t index);

/* These return a uniform number in [0, 1) and a standard normal one, from the same bits. */
double input_uniform(uint64_t seed, uint64_t stream, uint64_t index);
double input_normal(uint64_t seed, uint64_t stream, uint64_t index);

/*
 * Returns element [row][col] of a matrix of this kind, one row at a time. LARGE is 120 to 200 with
 * one sign per row (at -120 even the largest exponential of a row vanishes unless its maximum is
 * subtracted). ASCENDING rises and DESCENDING falls from 0 to 20 along the row, with normal noise
 * of a tenth. CONSTANT is one normal value per row.
 */
double input_element(size_t row, size_t col, size_t cols, enum input_kind kind, uint64_t seed,
                     uint64_t stream);

/* Fills x, [rows, cols] row-major, with those elements. */
void input_matrix(float *x, size_t rows, size_t cols, enum input_kind kind, uint64_t seed,
                  uint64_t stream);

#ifdef __cplusplus
}
#endif

#endif
