/*
 * What a step's program prints on stdout: the ladder as a table or as one JSON object, and the list
 * of its kernels.
 */
#ifndef COMMON_REPORT_H
#define COMMON_REPORT_H

#include "device/backend.h"
#include "options.h"
#include "trial.h"

/* One kernel's outcome. */
struct result {
    const struct kernel *kernel;
    struct verdict verdict;
    double milliseconds; /* 0 where it was not timed */
    struct counters counters;
    bool counted;
};

/*
 * What the kernels did, in the order they ran: as JSON all of it, as a table what matters here and
 * fits 100 columns, or with --wide every column that has something in it.
 */
void report_results(const struct request *request, const char *device, const struct result *results,
                    size_t count);

/* Names the kernel that is about to run on a terminal, on stderr; null wipes it away. */
void report_running(const struct request *request, const struct kernel *kernel);

/* The kernels in reading order; as JSON, all that is known of the step and of each kernel, with
 * workspace and costs at the request's sizes. */
void report_list(const struct request *request);

/* The same of all of a step's kernels, as JSON, but for what depends on sizes or the device. */
void report_facts(const struct step *step);

#endif
