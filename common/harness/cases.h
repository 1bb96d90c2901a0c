/*
 * A problem has one list of cases that every kernel must get right. Whoever judges a kernel (the
 * step's program, a test, the learner's loop) walks over that list and differs only in how much of
 * it is taken.
 */
#ifndef COMMON_CASES_H
#define COMMON_CASES_H

#include "trial.h"

/* Each level contains those before it, the hidden one excepted. */
enum case_level {
    CASES_FIRST, /* what every run of a step's program has time for */
    CASES_QUICK, /* a verdict within seconds where every access is watched */
    CASES_USUAL, /* what the tests of a step have time for */
    CASES_FULL,  /* everything */
    /* For grading: one case of each family up to usual, drawn with its inputs from the seed. */
    CASES_HIDDEN,
    CASE_LEVELS
};

extern const char *const case_level_names[CASE_LEVELS + 1]; /* "first", ...; ends with null */

/* Returns false where no level has this name. */
bool case_level_find(const char *name, enum case_level *level);

/*
 * A case_family is one line of a problem's list. Its options are those of the step's program:
 *
 *     "--m 1,2,3 --n 7 --k 1,2,3 --inputs ascending --offset 4"
 *
 * Options with several values advance together: these are three cases. "--sizes 3x5x7,9x9x9" gives
 * the problem's first sizes, in their order. A flag is set by "--causal" and takes 0,1 like any
 * other size. A range, "33..60" or "32..96/16", is its first number, and any of them in a hidden
 * case. What is left out has the value that the problem suggests where every access is
 * watched. The other options are --inputs, where "all" stands for every kind in turn, --seed, and
 * those of struct placement: --offset, --offset-of, --null, --launches.
 */
struct case_family {
    enum case_level level;
    const char *options; /* null ends a list */
    const char *wrong;   /* what may be wrong there */
};

/* A test_case is one run that is judged. */
struct test_case {
    long long sizes[MAX_SIZES];
    enum input_kind inputs;
    uint64_t seed;
    struct placement placement;
    const char *wrong;
};

/* A case_walk goes over the cases of a problem up to a level. */
struct case_walk {
    const struct problem *problem;
    const struct kernel *kernel;
    enum case_level level;
    int stage; /* the kernel's own sizes, its edges, the problem's list */
    const struct case_family *family;
    struct case_family own[2];
    int index; /* within the family */
    uint64_t seed;
    struct test_case last;
    bool unreadable; /* the walk ended at a case that cannot be read: refusal() says why */
};

/*
 * Begins a walk. With a kernel, it goes over that kernel's own sizes and edges first, and leaves
 * out or changes what the kernel does not take; without one, it goes over the problem's list as it
 * is. Inputs are made from `seed` and the case.
 */
void cases_begin(struct case_walk *walk, const struct problem *problem, const struct kernel *kernel,
                 enum case_level level, uint64_t seed);

/* Returns false when there are no more cases, or one cannot be read. */
bool cases_next(struct case_walk *walk, struct test_case *one);

/* Changes a case to what the kernel takes. Returns false where that is impossible. */
bool case_fits(const struct problem *problem, const struct kernel *kernel, struct test_case *one);

/* Makes *one the case of which nothing is said: the sizes that the problem suggests where every
 * access is watched. */
void case_default(const struct problem *problem, struct test_case *one);

/*
 * Reads options as in struct case_family, with one value each, over what *one holds. Returns false
 * with a complaint (refusal.h).
 */
bool case_read(const struct problem *problem, const char *options, struct test_case *one);

/* Returns whether two cases are the same run. */
bool case_same(const struct test_case *a, const struct test_case *b);

/* Returns the options that make this case, valid until the next call: "--m 3 --n 5 --k 7". */
const char *case_options(const struct problem *problem, const struct test_case *one);

/* Prepares a trial of the case, as trial_create() does. */
cudaError_t case_trial(struct trial *trial, const struct problem *problem,
                       const struct test_case *one);

#endif
