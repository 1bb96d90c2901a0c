/*
 * Seeded, named input generators.
 *
 * Every element is a function of (seed, stream, index) alone, so any part of an input can be made
 * again without the rest. Never all zeros, never the same value everywhere: such inputs hide
 * indexing errors.
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
    INPUTS_NORMAL,  /* standard normal */
    INPUTS_UNIFORM, /* uniform in [0, 1): one-sided sums that grow without cancelling */
    INPUTS_LARGE, /* all of a row far from 0 on one side of it: scores of 104 to 200 in magnitude */
    INPUTS_ASCENDING,  /* row maxima that rise along the row: an online softmax rescales at every
                          step */
    INPUTS_DESCENDING, /* row maxima that fall: it never rescales after the first */
    INPUTS_OUTLIERS,   /* normal with rare values of 30 planted */
    INPUTS_CONSTANT,   /* every row constant, rows different: ties everywhere */
    INPUT_KINDS
};

/* The name on the command line: "normal", "uniform", "large", ... */
const char *input_kind_name(enum input_kind kind);

/* Finds a kind by name; false when there is none. */
bool input_kind_find(const char *name, enum input_kind *kind);

/* Sixty-four well-mixed bits of (seed, stream, index). stream tells the tensors of one run
 * apart. */
uint64_t input_bits(uint64_t seed, uint64_t stream, uint64_t index);

/* Uniform in [0, 1) and standard normal, from the same bits. */
double input_uniform(uint64_t seed, uint64_t stream, uint64_t index);
double input_normal(uint64_t seed, uint64_t stream, uint64_t index);

/*
 * Element [row][col] of a matrix of the kind, taken row by row: LARGE is 120 to 200 with one sign
 * for the row (at -120 even the largest exponential of a row vanishes unless its maximum is
 * subtracted), ASCENDING rises and DESCENDING falls from 0 to 20 along the row with normal noise of
 * a tenth, CONSTANT is one normal value per row.
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
