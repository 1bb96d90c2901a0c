/*
 * Says of an output with wrong values how many are wrong, where they are, and which known mistake
 * produces just these values.
 *
 * A mistake is named only when every wrong element that was looked at is what that mistake makes of
 * it; where none fits, nothing is claimed.
 */
#ifndef COMMON_EXPLAIN_H
#define COMMON_EXPLAIN_H

#include "check.h"

#include <stdbool.h>
#include <stddef.h>

struct explanation {
    char name[24];   /* "transposed"; empty when nothing fits */
    char where[400]; /* "64 of 660 elements of C are wrong: rows 0-31, columns 16-17" */
    char why[500];   /* what explains them, and where to look; empty when nothing fits */
    char map[1800];  /* lines of characters, each a piece of the output; empty for large outputs */
    /* Every element, row by row: "C 33 20: 18.2#" begins with 18 right and 2 wrong ones of C [33,
     * 20]. The characters are the map's; empty where that is too long. */
    char elements[6000];
};

/* A row of the first output, for which `value` has room. */
struct mistaken_row {
    const long long *sizes;
    const void *const *host; /* the inputs */
    size_t row, tile;        /* tiles of so many keys, where that matters */
    double *value;
};

/*
 * A mistake that shows in the values. Writes the row as a kernel that makes the mistake computes
 * it; false where these sizes leave it no room (then `value` is undefined).
 */
typedef bool mistake_fn(const struct mistaken_row *r);

struct mistake {
    const char *name, *says;
    mistake_fn *compute;
    size_t tile;
};

/* What can be told apart in a problem's values. */
struct mistakes {
    const struct mistake *list; /* ends with a null name; the first that fits is named */
    /* How many terms an element of the first output sums (K, columns, keys), and what they are. */
    size_t (*terms)(const long long *sizes);
    const char *term;
    /* Writes the row from the terms begin .. end - 1 alone. */
    void (*partial)(const struct mistaken_row *r, size_t begin, size_t end);
};

/* Explains the first output that has a wrong element. Returns false and an empty explanation when
 * every element that is looked at is right. */
bool explain(const struct outputs *outputs, struct explanation *explanation);

/* Replaces the explanation: two runs of one kernel on the same inputs gave different outputs. */
void explain_as_unstable(struct explanation *explanation);

#endif
