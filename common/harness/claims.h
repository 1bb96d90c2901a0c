/*
 * A claim says what a rung changes, in a form that a program checks: bounds on what a run counts
 * (struct counters) or on its bytes of workspace, at sizes at which the kernel itself runs.
 *
 *     --m 128 --n 128 --k 32: shared_loads <= 40960, shared_loads >= 26000; --m 64: barriers <= 8
 *
 * Options of the step's program come before a colon, bounds after it with commas between, and
 * semicolons between groups. The rung that a kernel follows does not keep the kernel's claim; one
 * that begins claims against the naive kernel of its problem. An upper bound leaves an honest
 * variant room, about a quarter; a lower one says what work has to be done.
 */
#ifndef COMMON_CLAIMS_H
#define COMMON_CLAIMS_H

#include "cases.h"

enum { MAX_CLAIMS = 32 };

struct claim {
    char options[96]; /* of the step's program, as the row says them */
    struct test_case at;
    const char *what; /* the counter's name in struct counters, or "workspace_bytes" */
    bool at_most;     /* <=, otherwise >= */
    unsigned long long bound;

    unsigned long long value; /* of the kernel that ran */
    bool kept;
};

struct claims {
    int count;
    struct claim claim[MAX_CLAIMS];
    bool kept;           /* all of them */
    bool refused;        /* nothing could be run: the text or the backend is to blame */
    char complaint[800]; /* why there is no result; empty where there is one */
};

/* Reads the row's claims: none where it makes none. Returns false, with a complaint, for a text
 * that it does not understand. */
bool claims_parse(const struct problem *problem, const struct kernel *kernel,
                  struct claims *claims);

/*
 * Runs a kernel at the sizes of the claimant's claims, and compares what it did with them. Learners
 * run theirs as `runs`, and the tests the rung before. Returns false, with a complaint and no
 * claims, where nothing is counted, for a text as above, and when a run does not pass its check.
 */
bool claims_check(const struct problem *problem, const struct kernel *claimant,
                  const struct kernel *runs, struct claims *claims);

#endif
