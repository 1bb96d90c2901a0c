/*
 * For an output with wrong values, says how many are wrong, where they are, and which known mistake
 * produces exactly these values.
 *
 * A mistake is named only when every wrong element that was examined is what that mistake makes of
 * it. Where no mistake fits, nothing is claimed.
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
    char map[1800];  /* lines that draw the output piece by piece; empty where it is large */
    /* All elements, row by row: "C 33 20: 18.2#" says that C is [33, 20] and begins with 18 right
     * elements and 2 wrong ones. The characters are the map's. The text is empty where it would be
     * too long. */
    char elements[6000];
};

enum { MAX_MISTAKEN = 3 };

/* A mistaken row is one of the outputs, counted from the first; `value` has room for it. */
struct mistaken_row {
    const long long *sizes;
    const void *const *host; /* the inputs */
    size_t row, tile;        /* tiles of so many keys, where the mistake depends on them */
    int output;
    double *value;
};

/*
 * Writes the row as a kernel with this mistake computes it. Returns false where the mistake cannot
 * occur at these sizes (then `value` is undefined).
 */
typedef bool mistake_fn(const struct mistaken_row *r);

struct mistake {
    const char *name, *says;
    mistake_fn *compute;
    size_t tile;
};

/* struct mistakes lists the mistakes that a problem's values reveal. */
struct mistakes {
    const struct mistake *list; /* ends with a null name; the first that fits is named */
    int outputs; /* mistakes are known of so many of the outputs, from the first on; 0 means 1 */
    /* An element of an output sums terms() terms (K, columns, keys), each called `term`. */
    size_t (*terms)(const long long *sizes, int output);
    const char *term[MAX_MISTAKEN];
    /* Writes the row computed from the terms begin .. end - 1 alone. */
    void (*partial)(const struct mistaken_row *r, size_t begin, size_t end);
    /* The elements are made of exponentials, and the threads that share a row share its sum and its
     * maximum. Otherwise they are sums of products of the inputs, and never much larger than their
     * scale. */
    bool exponentials;
};

/* Explains the first output that has a wrong element. Returns false and an empty explanation when
 * every element that is looked at is right. */
bool explain(const struct outputs *outputs, struct explanation *explanation);

/* Replaces the explanation: two runs of one kernel on the same inputs gave different outputs. */
void explain_as_unstable(struct explanation *explanation);

#endif
