#include "flashsteps.h"

#include "harness/ladder.h"

#include <string.h>

#define DECLARED(name) extern const struct step name;
EACH_STEP(DECLARED)
#define NAMED(name) &name,
static const struct step *const steps[] = {EACH_STEP(NAMED)};

static const struct problem *problem_of(const struct step *step, const char *name)
{
    for (const struct ladder *ladder = step->ladders; ladder->name; ladder++)
        if (strcmp(ladder->problem->name, name) == 0)
            return ladder->problem;
    return NULL;
}

const struct kernel *flashsteps_kernel(int step, const char *problem_name, int index)
{
    if (step < 1 || step > (int)(sizeof steps / sizeof *steps))
        return NULL;
    const struct problem *const problem = problem_of(steps[step - 1], problem_name);
    if (!problem)
        return NULL;
    const void *const rows = step_rows(steps[step - 1], problem);
    for (int i = 0; i <= index; i++) {
        const struct kernel *kernel = problem_kernel(problem, rows, (size_t)i);
        if (kernel->name == NULL || i == index)
            return kernel->name ? kernel : NULL;
    }
    return NULL;
}

size_t flashsteps_workspace(const struct attention_kernel *row, const struct attention *call)
{
    return row->workspace ? row->workspace(call) : 0;
}

size_t flashsteps_backward_workspace(const struct attention_backward_kernel *row,
                                     const struct attention_backward *call)
{
    return row->workspace ? row->workspace(call) : 0;
}
