/*
 * What a step's program prints on stdout: the ladder as a table or as one JSON object, and the list
 * of its kernels.
 */
#ifndef COMMON_REPORT_H
#define COMMON_REPORT_H

#include "backend.h"
#include "check.h"
#include "options.h"

/* One kernel's outcome. */
struct result {
    const struct kernel *kernel;
    struct verdict verdict;
    double milliseconds; /* 0 where it was not timed */
    struct counters counters;
    bool counted;
};

/* A report: its head, a line for each kernel as it comes, its end. */
void report_begin(const struct request *request, const char *device);
void report_result(const struct request *request, const struct result *result, bool first);
void report_end(const struct request *request);

/* The kernels in reading order; as JSON, all that is known of the step and of each kernel, with
 * workspace and costs at the request's sizes. */
void report_list(const struct request *request);

#endif
