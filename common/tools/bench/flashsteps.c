#include "flashsteps.h"

#include "harness/ladder.h"

#define DECLARED(name) extern const struct step name;
EACH_STEP(DECLARED)
#define NAMED(name) &name,
static const struct step *const steps[] = {EACH_STEP(NAMED)};

const struct kernel *flashsteps_kernel(int step, int index)
{
    if (step < 1 || step > (int)(sizeof steps / sizeof *steps))
        return NULL;
    const struct problem *const problem = steps[step - 1]->ladders[0].problem;
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
