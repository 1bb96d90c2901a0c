/* Rows have sizes as text, in the words of their step's program: "--rows 3 --cols 2053". */
#ifndef COMMON_SIZES_H
#define COMMON_SIZES_H

#include "problem.h"

/*
 * Reads such options into `sizes`. The table's kernels decide what is allowed. A size that the text
 * does not mention has the default of a backend where every access is watched, so it is the same
 * everywhere. Returns false, with a complaint, for a text that it does not understand.
 */
bool sizes_parse(const struct problem *problem, const void *table, const char *text,
                 long long sizes[MAX_SIZES], char *complaint, size_t room);

#endif
