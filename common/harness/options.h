/*
 * The command line of a step's program.
 *
 * What it offers follows from the step's problem and from the rows of its table: an option that no
 * kernel takes is not offered.
 */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include "problem.h"

enum { MAX_KERNELS = 32 };

/* What is to be run, and how. */
struct request {
    const char *step;
    const struct problem *problem;
    const void *table;
    struct size_option options[MAX_SIZES + 1]; /* the problem's, narrowed to the table */

    long long sizes[MAX_SIZES];
    bool selected[MAX_KERNELS];
    bool any_selected;
    bool list, help, json, wide;
    enum input_kind inputs;
    uint64_t seed;
    long long repeat;                  /* timed runs of a kernel */
    const char *trace;                 /* the file, or null; ... */
    long long trace_block, trace_warp; /* ... the only ones, or -1 */

    char complaint[512]; /* what is wrong with the command line; empty when nothing is */
};

/*
 * Fills in *request from the command line, with defaults that suit the backend; --help is answered
 * at once. Returns false, with a complaint, for a command line that is not understood.
 */
bool options_parse(struct request *request, const char *step, const struct problem *problem,
                   const void *table, int argc, char **argv);

/* The rows of the request's table. */
size_t request_kernels(const struct request *request);
const struct kernel *request_kernel(const struct request *request, size_t index);

#endif
