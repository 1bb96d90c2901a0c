/* A step has ladders, and a ladder has kernels. */
#ifndef COMMON_LADDER_H
#define COMMON_LADDER_H

#include "problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A reader climbs the kernels of a ladder one after another. The core ladder is in the step's
 * folder, every other ladder in a folder of its name. */
struct ladder {
    const char *name;
    const struct problem *problem;
    const void *rows; /* the problem's kernels in reading order; the last row's name is null */
};

enum { MAX_LADDERS = 6 };

struct step {
    const char *name;                       /* the folder's name */
    struct ladder ladders[MAX_LADDERS + 1]; /* core first; a null name ends them */
};

/*
 * Returns the rows of a step's ladders that have this problem, in one table. Each row knows its
 * ladder. The table is made once for each problem and stays.
 */
const void *step_rows(const struct step *step, const struct problem *problem);

/*
 * Returns the first of the step's problems, or the one that follows another in the order of the
 * ladders; null after the last.
 */
const struct problem *step_problem_after(const struct step *step, const struct problem *problem);

/* Returns the kernel that has this name now, and its problem; null where the step has none. Its row
 * is the ladder's own, which does not know its ladder. */
const struct kernel *step_kernel(const struct step *step, const char *name,
                                 const struct problem **problem);

/* Returns the problem whose kernel has, or had, this name, or of the ladder with this name; null
 * where the step has none. */
const struct problem *step_problem_of_kernel(const struct step *step, const char *name);
const struct problem *step_problem_of_ladder(const struct step *step, const char *name);

/* Returns whether the kernel is on the ladder with this name; true for any kernel if the name is
 * null. */
bool kernel_on_ladder(const struct kernel *kernel, const char *ladder);

/* Returns whether the name is one that the kernel's row says it had: struct kernel. */
bool kernel_was(const struct kernel *kernel, const char *name);

/* Returns the kernel's file in the step's folder, such as "limit/07_warp_tile.cu". The string lasts
 * until the next call. */
const char *kernel_path(const struct kernel *kernel);

#ifdef __cplusplus
}
#endif

#endif
