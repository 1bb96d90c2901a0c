/*
 * Prints everything in the rows of all steps as JSON. The tools learn a kernel's name, file and
 * limits only from this. It is linked without kernels, so it is built within seconds after a clone.
 *
 *     facts        prints [{"step": ..., "kernels": [{"name": ..., ...}, ...]}, ...]
 */
#include "harness/ladder.h"
#include "harness/options.h"
#include "harness/output.h"
#include "harness/report.h"

#include <stdio.h>

#define DECLARED(name) extern const struct step name;
EACH_STEP(DECLARED)
#define NAMED(name) &name,
static const struct step *const steps[] = {EACH_STEP(NAMED)};

int main(void)
{
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        printf("%s", i > 0 ? ",\n" : "[");
        report_facts(steps[i]);
    }
    printf("]\n");
    return output_arrived(stdout) ? 0 : 2;
}
