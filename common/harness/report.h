/*
 * A step's program prints this on stdout: the ladder as a table or as one JSON object, and the list
 * of its kernels.
 */
#ifndef COMMON_REPORT_H
#define COMMON_REPORT_H

#include "claims.h"
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

/*
 * Report a kernel that is judged case by case. Text has a line for each kernel, and one for each
 * case that it fails; JSON has a line for each case as it begins, and one for its verdict, so that
 * a reader knows which case a program did not survive.
 */
struct case_count {
    const struct kernel *kernel;
    int passed, failed, skipped;
};
void report_case(const struct request *request, const struct kernel *kernel,
                 const struct test_case *one);
void report_case_verdict(const struct request *request, const struct test_case *one,
                         const struct result *result);
void report_case_count(const struct request *request, const struct case_count *count);

/* Reports what a kernel's claims came to: as JSON a line for each. */
void report_claims(const struct request *request, const struct kernel *kernel,
                   const struct claims *claims);

/* Names the kernel that is about to run, if stderr is a terminal; null erases the name. */
void report_running(const struct request *request, const struct kernel *kernel);

/* Lists the kernels in reading order. As JSON, says all that is known of the step and of each
 * kernel, with workspace and cost at the request's sizes. */
void report_list(const struct request *request);

/* Lists all of a step's kernels as JSON, without what depends on sizes or the device. */
void report_facts(const struct step *step);

#endif
