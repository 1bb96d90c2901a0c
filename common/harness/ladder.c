#include "ladder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char CORE[] = "core";

static size_t rows_of(const struct ladder *ladder)
{
    size_t count = 0;
    while (problem_kernel(ladder->problem, ladder->rows, count)->name)
        count++;
    return count;
}

const void *step_rows(const struct step *step, const struct problem *problem)
{
    static struct made {
        const struct step *step;
        const struct problem *problem;
        char *rows;
        struct made *next;
    } * made;
    for (const struct made *known = made; known; known = known->next)
        if (known->step == step && known->problem == problem)
            return known->rows;

    struct made *const table = malloc(sizeof *table);
    size_t count = 0, filled = 0;
    for (const struct ladder *ladder = step->ladders; ladder->name; ladder++)
        count += ladder->problem == problem ? rows_of(ladder) : 0;
    char *const rows = calloc(count + 1, problem->row_bytes);
    if (table == NULL || rows == NULL)
        abort(); /* there are not even a few kilobytes left */
    for (const struct ladder *ladder = step->ladders; ladder->name; ladder++) {
        if (ladder->problem != problem)
            continue;
        char *const first = rows + filled * problem->row_bytes;
        const size_t found = rows_of(ladder);
        memcpy(first, ladder->rows, found * problem->row_bytes);
        for (size_t row = 0; row < found; row++)
            ((struct kernel *)(first + row * problem->row_bytes))->ladder = ladder->name;
        filled += found;
    }
    *table = (struct made){step, problem, rows, made};
    made = table;
    return rows;
}

/* Returns the step's first ladder with this problem. */
static const struct ladder *first_with(const struct step *step, const struct problem *problem)
{
    const struct ladder *ladder = step->ladders;
    while (ladder->name && ladder->problem != problem)
        ladder++;
    return ladder;
}

const struct problem *step_problem_after(const struct step *step, const struct problem *problem)
{
    if (!problem)
        return step->ladders[0].problem;
    for (const struct ladder *next = first_with(step, problem); next->name; next++)
        if (first_with(step, next->problem) == next && next->problem != problem)
            return next->problem;
    return NULL;
}

/* Returns the first kernel that has the name, or had it where that counts, too. */
static const struct kernel *find(const struct step *step, const char *name, bool or_had,
                                 const struct problem **problem)
{
    for (const struct ladder *ladder = step->ladders; ladder->name; ladder++) {
        const struct kernel *kernel;
        *problem = ladder->problem;
        for (size_t i = 0; (kernel = problem_kernel(*problem, ladder->rows, i))->name; i++)
            if (strcmp(kernel->name, name) == 0 || (or_had && kernel_was(kernel, name)))
                return kernel;
    }
    return NULL;
}

const struct kernel *step_kernel(const struct step *step, const char *name,
                                 const struct problem **problem)
{
    return find(step, name, false, problem);
}

const struct problem *step_problem_of_kernel(const struct step *step, const char *name)
{
    const struct problem *problem;
    return find(step, name, true, &problem) ? problem : NULL;
}

const struct problem *step_problem_of_ladder(const struct step *step, const char *name)
{
    for (const struct ladder *ladder = step->ladders; ladder->name; ladder++)
        if (strcmp(ladder->name, name) == 0)
            return ladder->problem;
    return NULL;
}

bool kernel_on_ladder(const struct kernel *kernel, const char *ladder)
{
    return ladder == NULL || strcmp(kernel->ladder, ladder) == 0;
}

bool kernel_was(const struct kernel *kernel, const char *name)
{
    const size_t length = strlen(name);
    for (const char *was = kernel->was; was && *was; was += strspn(was, " ")) {
        const size_t one = strcspn(was, " ");
        if (one == length && strncmp(was, name, length) == 0)
            return true;
        was += one;
    }
    return false;
}

const char *kernel_path(const struct kernel *kernel)
{
    static char path[256];
    const bool core = kernel_on_ladder(kernel, CORE);
    snprintf(path, sizeof path, "%s%s%s", core ? "" : kernel->ladder, core ? "" : "/",
             kernel->file);
    return path;
}
