/*
 * A step's program prints this on stdout: the ladder as a table or as one JSON object, and the list
 * of its kernels.
 */
#ifndef COMMON_REPORT_H
#define COMMON_REPORT_H

#include "device/backend.h"
#include "options.h"
#include "trial.h"

/* A result is one kernel's outcome. */
struct result {
    const struct kernel *kernel;
    struct verdict verdict;
    double milliseconds; /* 0 where it was not timed */
    struct counters counters;
    bool counted;
};

/*
 * Reports the results in the order the kernels ran: as JSON everything; as a table what matters
 * here and fits in 100 columns, or with --wide every column that has something in it.
 */
void report_results(const struct request *request, const char *device, const struct result *results,
                    size_t count);

/* Names the kernel that is about to run, if stderr is a terminal; null erases the name. */
void report_running(const struct request *request, const struct kernel *kernel);

/* Lists the kernels in reading order. As JSON, says all that is known of the step and of each
 * kernel, with workspace and cost at the request's sizes. */
void report_list(const struct request *request);

/* Lists all of a step's kernels as JSON, without what depends on sizes or the device. */
void report_facts(const struct step *step);

#endif
