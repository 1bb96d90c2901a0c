/* A step and its ladders. */
#ifndef COMMON_LADDER_H
#define COMMON_LADDER_H

#include "problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels that a person climbs in one go. The core ladder lies in the step's folder, every other in
 * a folder of its name. */
struct ladder {
    const char *name;
    const struct problem *problem;
    const void *rows; /* of the problem's kernels, in reading order; the last one's name is null */
};

enum { MAX_LADDERS = 6 };

struct step {
    const char *name;                       /* of its folder */
    struct ladder ladders[MAX_LADDERS + 1]; /* core first; a null name ends them */
};

/*
 * The rows of a step's ladders that have this problem, in one table; each row knows its ladder. The
 * table is made once for each problem and stays.
 */
const void *step_rows(const struct step *step, const struct problem *problem);

/* Whether the kernel is of the ladder with this name; of any, if it is null. */
bool kernel_on_ladder(const struct kernel *kernel, const char *ladder);

/* Whether the name is one that the kernel's row says it had: struct kernel. */
bool kernel_was(const struct kernel *kernel, const char *name);

/* "limit/07_warp_tile.cu": the kernel's file in the step's folder. It lasts until the next call. */
const char *kernel_path(const struct kernel *kernel);

#ifdef __cplusplus
}
#endif

#endif
