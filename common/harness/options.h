/*
 * A step's program has a command line.
 *
 * The step's problem and the rows of its table decide what it offers: an option that no kernel
 * takes is not offered.
 */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include "cases.h"
#include "ladder.h"

/* A request says what is to be run, and how. */
struct request {
    const struct step *step;
    const struct problem *problem;
    const void *table;                         /* the step's rows that have this problem */
    struct size_option options[MAX_SIZES + 1]; /* those that the table takes */

    long long sizes[MAX_SIZES];
    const char *ladder; /* the ladder to run, or null for all */
    bool *selected;     /* one for each row */
    bool any_selected;  /* false when no kernel was named: then all run */
    /* Whether kernels or ladders were named that have this problem, and that have another. */
    bool named, others_named;
    bool list, help, json, wide;
    enum input_kind inputs;
    uint64_t seed;
    bool claims;           /* judge the kernels by what their rows claim */
    bool has_case;         /* the command line says sizes or inputs: only these are run */
    int cases;             /* the level of cases to judge, or -1 for one run at these sizes */
    long long part, parts; /* of these cases, every parts-th from number part on */
    char placement[160];   /* --offset and the like, as options of a case (cases.h) */
    long long repeat;      /* timed runs of each kernel */
    const char *trace;     /* the trace's file, or null */
    long long trace_block, trace_warp; /* the only ones traced; -1 for all */

    char complaint[512]; /* what is wrong with the command line; empty when nothing is */
};

/*
 * Fills in *request from the command line, with defaults that suit the backend, as far as it
 * concerns one of the step's problems. Answers --help at once. Returns false, with a complaint, for
 * a command line that it does not understand.
 */
bool options_parse(struct request *request, const struct step *step, const struct problem *problem,
                   int argc, char **argv);

/*
 * Returns whether the command line is about this problem: it names its kernels or its ladders, or
 * nobody's. Then all problems run, but a report as JSON, a trace and help are of the first.
 */
bool request_asks(const struct request *request);

/* Frees what options_parse() allocated. */
void options_free(struct request *request);

/* These return the rows of the request's table, and which of them to run. */
size_t request_kernels(const struct request *request);
const struct kernel *request_kernel(const struct request *request, size_t index);
bool request_wants(const struct request *request, size_t index);

#endif
