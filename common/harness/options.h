/*
 * The command line of a step's program.
 *
 * What it offers follows from the step's problem and from the rows of its table: an option that no
 * kernel takes is not offered.
 */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include "ladder.h"

/* What is to be run, and how. */
struct request {
    const struct step *step;
    const struct problem *problem;
    const void *table;                         /* the step's rows of the problem */
    struct size_option options[MAX_SIZES + 1]; /* the problem's, narrowed to the table */

    long long sizes[MAX_SIZES];
    const char *ladder; /* the one to run, or null for all */
    bool *selected;     /* of each row; */
    bool any_selected;  /* false when none was named: then all are */
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
bool options_parse(struct request *request, const struct step *step, int argc, char **argv);

/* Frees what options_parse() took. */
void options_free(struct request *request);

/* The rows of the request's table, and which of them are to be run. */
size_t request_kernels(const struct request *request);
const struct kernel *request_kernel(const struct request *request, size_t index);
bool request_wants(const struct request *request, size_t index);

#endif
