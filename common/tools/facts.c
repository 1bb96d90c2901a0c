/*
 * Prints everything in the rows of all steps as JSON. The tools learn a kernel's name, file and
 * limits only from this. It is linked without kernels, so it is built within seconds after a clone.
 *
 *     facts                 prints [{"step": ..., "kernels": [{"name": ..., ...}, ...]}, ...]
 *     facts KERNEL LEVEL    prints the cases of a level that judge a kernel, one a line
 */
#include "harness/cases.h"
#include "harness/ladder.h"
#include "harness/options.h"
#include "harness/output.h"
#include "harness/report.h"

#include <stdio.h>

#define DECLARED(name) extern const struct step name;
EACH_STEP(DECLARED)
#define NAMED(name) &name,
static const struct step *const steps[] = {EACH_STEP(NAMED)};

/* Returns false where the step has no such kernel, or a case cannot be read. */
static bool print_cases(const struct step *step, const char *name, const char *level)
{
    const struct problem *problem;
    const struct kernel *const kernel = step_kernel(step, name, &problem);
    enum case_level wanted;
    if (!kernel || !case_level_find(level, &wanted))
        return false;
    struct case_walk walk;
    struct test_case one;
    for (cases_begin(&walk, problem, kernel, wanted, 1); cases_next(&walk, &one);)
        printf("%s\n", case_options(problem, &one));
    return !walk.unreadable;
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        bool found = false;
        for (size_t i = 0; i < sizeof steps / sizeof *steps && !found; i++)
            found = print_cases(steps[i], argv[1], argv[2]);
        return found && output_arrived(stdout) ? 0 : 2;
    }
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        printf("%s", i > 0 ? ",\n" : "[");
        report_facts(steps[i]);
    }
    printf("]\n");
    return output_arrived(stdout) ? 0 : 2;
}
