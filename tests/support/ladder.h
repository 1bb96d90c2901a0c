/*
 * Running a step's table in a test: every kernel, the sizes and inputs of one case, all three
 * thread orders.
 */
#ifndef TESTS_LADDER_H
#define TESTS_LADDER_H

#include "device/backend.h"
#include "harness/problem.h"
#include "harness/trial.h"

/* The environment variable that orders blocks and threads on the CPU backend; a GPU ignores it. */
#define ORDER_VARIABLE "SIMT_ORDER"
/* Set when an external tool watches every access (tests/run --sanitizer): cases are limited as
 * below. */
#define WATCHED_VARIABLE "LADDER_WATCHED"

/* Names of kernels, separated by blanks: only they are tested (tests/run --kernel). */
#define KERNEL_VARIABLE "LADDER_KERNEL"

/* The sizes of a problem, as its functions take them. */
#define MATMUL_SIZES(m, n, k)                                                                      \
    ((const long long[MAX_SIZES]){[MATMUL_M] = (m), [MATMUL_N] = (n), [MATMUL_K] = (k)})
#define SOFTMAX_SIZES(rows, cols)                                                                  \
    ((const long long[MAX_SIZES]){[SOFTMAX_ROWS] = (rows), [SOFTMAX_COLS] = (cols)})

/* trial_create(), which must succeed. */
struct trial ladder_trial(const struct problem *problem, const long long *sizes,
                          enum input_kind kind, uint64_t seed, size_t offset);

/* The reference of one row of each output. */
void ladder_reference(const struct problem *problem, const long long *sizes,
                      const void *const *host, size_t row, double *const *value,
                      double *const *scale);

/* Whether this kernel is to be tested, whatever the device. */
bool ladder_wants(const struct kernel *kernel);

/* Whether it is to be tested here; a line says so where the device is too old or too new. */
bool ladder_runs(const struct kernel *kernel);

/* Whether it is to be tested here, and what it does is counted. */
bool ladder_counts(const struct kernel *kernel);

/* The beginning and the end of a loop over kernels. One that is left before its end, by a `return`
 * meant as a `continue`, fails the test. */
const void *ladder_loop(const void *first);
bool ladder_loop_ends(void); /* false */

/* A loop over those rows of a step's table; the second, where accesses are counted. */
#define EACH_KERNEL(row, table) EACH_ROW_THAT (ladder_runs, row, table)
#define EACH_COUNTED(row, table) EACH_ROW_THAT (ladder_counts, row, table)
#define EACH_ROW_THAT(condition, row, table)                                                       \
    for (__typeof__(&(table)[0]) row = ladder_loop(table); row->about.name || ladder_loop_ends();  \
         row++)                                                                                    \
        if (condition(&row->about))

/* A loop over what is expected of some kernels, an array whose elements have their names, where
 * accesses are counted. */
#define EACH_EXPECTED(problem, table, entry, array)                                                \
    for (__typeof__(&(array)[0]) entry = ladder_loop(array);                                       \
         entry < (array) + sizeof(array) / sizeof *(array) || ladder_loop_ends(); entry++)         \
        if (ladder_counts(ladder_find(problem, table, entry->name)))

extern const char *const thread_orders[]; /* in order, reversed, random; ends with null */

/* True on a GPU that no tool watches: cases may have billions of elements. */
bool ladder_full_size(void);

/* ladder_full_size(), and a line that says what is skipped without it. */
bool ladder_full_size_or_skip(const char *what);

/*
 * Each kernel on arrays of more than 2^31 elements, of the sizes `whole`. The last elements of each
 * input are the inputs of a case of the sizes `last`, all before them are bytes fill[input]; the
 * last elements of each output must be that case's outputs. On a GPU with the memory for it.
 */
void ladder_past_2_to_the_31(const struct problem *problem, const void *table,
                             const long long *whole, const long long *last, const int *fill);

/* Makes the device one of this architecture, 75 for an sm_75, from here on in this process; false,
 * and a line that says so, for a GPU, which cannot be another. */
bool ladder_architecture(int architecture);

/*
 * Every kernel of the table passes on these sizes (MAX_SIZES entries), inputs and seed, in each
 * thread order, with device pointers `offset` bytes off their alignment. A failure names the
 * kernel, the sizes, the inputs, the order and the reason. A kernel that needs a newer device is
 * skipped with a line that says so; a refusal is a failure.
 *
 * On the CPU a case of more than 50,000 FLOPs runs in one order only (each run in another). Where
 * every access is watched, one of more than 30 million is skipped, which prints a line.
 */
void ladder_check(const struct problem *problem, const void *table, const long long *sizes,
                  enum input_kind kind, uint64_t seed, size_t offset);

/* The same, of one kernel, at each problem of tests/steps/failed_once.txt that is this step's
 * ("02"): where it was wrong once. What would take a CPU long needs a GPU. */
void ladder_failed_once(const struct problem *problem, const void *table, const char *step);

/* The same for inputs that the test has put into trial->host; `what` is their name. */
void ladder_check_inputs(struct trial *trial, const void *table, const char *what);

/* The row of this name; fails the test when there is none. */
const struct kernel *ladder_find(const struct problem *problem, const void *table,
                                 const char *name);

/* Where accesses are counted: what each kernel does at these sizes is what its row says. The
 * functions below, which count too, ask for the same. */
void ladder_costs(const struct problem *problem, const void *table, const long long *sizes);

/*
 * How far a kernel is from whole sectors and from no bank conflicts: 32 bytes for each sector that
 * it loads from, and for each that it stores to, over the bytes that its threads asked for;
 * wavefronts of shared memory over the ideal ones. 0 stands for 1.
 */
struct traffic {
    const char *name; /* null ends a list */
    double load, store, wavefronts;
};

/* Where accesses are counted: at these sizes the traffic of each kernel is what the list says, to
 * half a per cent, and exactly 1 where the list does not say otherwise. */
void ladder_traffic(const struct problem *problem, const void *table, const long long *sizes,
                    const struct traffic *expected);

/*
 * What one passing run of the named kernel did. Fails the test when the run does not pass, and when
 * ladder_counts() has not just said yes to this kernel, as the loops above make sure of: one that
 * is not to be tested is no reason to leave out those that are. False where the device is too
 * small.
 */
bool ladder_count(const struct problem *problem, const void *table, const char *name,
                  const long long *sizes, struct counters *counters);

/*
 * Where a launch can be made to fail (the CPU backend): every kernel of the table returns the error
 * of each launch that it makes at these sizes.
 */
void ladder_returns_errors(const struct problem *problem, const void *table,
                           const long long *sizes);

/*
 * Every kernel works on the stream that it is given: two problems of these sizes are under way at
 * the same time, on a stream each, and both come out right. Where the backend can hold a stream
 * back (the CPU backend), nothing is complete before it is asked for.
 */
void ladder_streams(const struct problem *problem, const void *table, const long long *sizes,
                    const long long *other_sizes);

/* Every kernel passes with one array that many bytes off its alignment and the others on theirs,
 * each array in turn. */
void ladder_one_off(const struct problem *problem, const void *table, const long long *sizes,
                    size_t offset);

/* Every kernel is right after many launches in a row on one stream, with nothing in between. On the
 * CPU, where they take their time, fewer, and only of those that have a workspace to leave
 * something in. */
void ladder_launches(const struct problem *problem, const void *table, const long long *sizes);

/* Each kernel refuses, and writes nothing: an array that is null (of the first `required`), not
 * aligned to an element or, of an output, that overlaps an input; no workspace where it wants one.
 */
void ladder_refused_arrays(const struct problem *problem, const void *table, const long long *sizes,
                           int required);

/* Each kernel refuses the sizes with this one in place of its own, with a message that contains
 * `words`. */
void ladder_refused_size(const struct problem *problem, const void *table, const long long *sizes,
                         int size, long long value, const char *words);

/* The named kernel refuses these sizes with a message that contains `words`, and writes nothing. */
void ladder_refuses(const struct problem *problem, const void *table, const char *name,
                    const long long *sizes, const char *words);

#endif
