/*
 * Tests run a step's table with this: every kernel, the sizes and inputs of one case, all three
 * thread orders.
 */
#ifndef TESTS_LADDER_H
#define TESTS_LADDER_H

#include "device/backend.h"
#include "harness/cases.h"
#include "harness/ladder.h"

/* This environment variable orders blocks and threads on the CPU backend; a GPU ignores it. */
#define ORDER_VARIABLE "SIMT_ORDER"
/* This is set when an external tool watches every access (tests/run --sanitizer). Cases are then
 * limited as below. */
#define WATCHED_VARIABLE "LADDER_WATCHED"

/* This holds names of kernels, separated by blanks: only they are tested (tests/run --kernel). */
#define KERNEL_VARIABLE "LADDER_KERNEL"

/* These are the sizes of a problem, as its functions take them. */
#define MATMUL_SIZES(m, n, k)                                                                      \
    ((const long long[MAX_SIZES]){[MATMUL_M] = (m), [MATMUL_N] = (n), [MATMUL_K] = (k)})
#define SOFTMAX_SIZES(rows, cols)                                                                  \
    ((const long long[MAX_SIZES]){[SOFTMAX_ROWS] = (rows), [SOFTMAX_COLS] = (cols)})

/* Calls trial_create(), which must succeed. */
struct trial ladder_trial(const struct problem *problem, const long long *sizes,
                          enum input_kind kind, uint64_t seed, size_t offset);

/* Computes the reference of one row of each output. */
void ladder_reference(const struct problem *problem, const long long *sizes,
                      const void *const *host, size_t row, double *const *value,
                      double *const *scale);

/* Returns whether this kernel is under test, whatever the device. */
bool ladder_wants(const struct kernel *kernel);

/* Returns whether this kernel is under test here. Prints a line where the device is too old or too
 * new. */
bool ladder_runs(const struct kernel *kernel);

/* Returns whether this kernel is under test here, on a backend that counts. */
bool ladder_counts(const struct kernel *kernel);

/* Begins and ends a loop over kernels. A loop that is left before its end, by a `return` meant as a
 * `continue`, fails the test. */
const void *ladder_loop(const void *first);
bool ladder_loop_ends(void); /* returns false */

/* Loops over the rows of a step's table for which ladder_runs() is true, or ladder_counts() in the
 * second. */
#define EACH_KERNEL(row, table) EACH_ROW_THAT (ladder_runs, row, table)
#define EACH_COUNTED(row, table) EACH_ROW_THAT (ladder_counts, row, table)
#define EACH_ROW_THAT(condition, row, table)                                                       \
    for (__typeof__(&(table)[0]) row = ladder_loop(table); row->about.name || ladder_loop_ends();  \
         row++)                                                                                    \
        if (condition(&row->about))

/* Where accesses are counted, loops over an array of what is expected of kernels; its elements have
 * their names. */
#define EACH_EXPECTED(problem, table, entry, array)                                                \
    for (__typeof__(&(array)[0]) entry = ladder_loop(array);                                       \
         entry < (array) + sizeof(array) / sizeof *(array) || ladder_loop_ends(); entry++)         \
        if (ladder_counts(ladder_find(problem, table, entry->name)))

extern const char *const thread_orders[]; /* forward, reversed, random; ends with null */

/* Returns true on a GPU that no tool watches: cases may then have billions of elements. */
bool ladder_full_size(void);

/* Returns ladder_full_size(). Prints what is skipped when that is false. */
bool ladder_full_size_or_skip(const char *what);

/*
 * Runs each kernel on arrays of more than 2^31 elements, of the sizes `whole`, on a GPU with enough
 * memory. The last elements of each input are the inputs of a case of the sizes `last`; every byte
 * before them is fill[input]. The last elements of each output must be that case's outputs.
 */
void ladder_past_2_to_the_31(const struct problem *problem, const void *table,
                             const long long *whole, const long long *last, const int *fill);

/* From here on in this process, makes the device one of this architecture: 75 for an sm_75. On a
 * GPU, which cannot change, prints a line and returns false. */
bool ladder_architecture(int architecture);

/* On a device of this architecture each kernel must pass at these sizes, unless its row asks for
 * another device: then it must be skipped, and say why. */
void ladder_on_architecture(const struct problem *problem, const void *table,
                            const long long *sizes, int architecture);

/*
 * Where one process can have devices of different limits (on the CPU backend), every kernel runs on
 * an sm_90, then on an sm_75, an sm_86 and another sm_90, which have half as many multiprocessors,
 * and on the first again. It must be right on each, unless it is skipped there. What is counted
 * must be what its row says of that device.
 */
void ladder_devices(const struct problem *problem, const void *table, const long long *sizes);

/*
 * Every kernel of the table must pass on these sizes (MAX_SIZES entries), inputs and seed, in each
 * thread order, with device pointers `offset` bytes off their alignment. A failure names the
 * kernel, the sizes, the inputs, the order and the reason. A kernel that needs a newer device is
 * skipped with a line that says so. A refusal is a failure.
 *
 * On the CPU a case of more than 50,000 FLOPs runs in only one order, another one each time. Where
 * every access is watched, a case of more than 30 million is skipped with a line that says so.
 */
void ladder_check(const struct problem *problem, const void *table, const long long *sizes,
                  enum input_kind kind, uint64_t seed, size_t offset);

/* Checks each of the step's kernels that have this problem at the sizes where it was once wrong,
 * from tests/steps/failed_once.txt. Sizes that would take a CPU long need a GPU. */
void ladder_failed_once(const struct step *step, const struct problem *problem);

/* Checks each kernel of the table on every `parts`-th case of the problem's list (cases.h), from
 * number `part` on, as ladder_check() does. */
void ladder_cases(const struct problem *problem, const void *table, int part, int parts);

/* Checks each kernel of the table on its own sizes and at its own edges. */
void ladder_own_cases(const struct problem *problem, const void *table);

/* Does the same for inputs that the test has put into trial->host; `what` names them. */
void ladder_check_inputs(struct trial *trial, const void *table, const char *what);

/* Returns the row with this name. Fails the test when there is none. */
const struct kernel *ladder_find(const struct problem *problem, const void *table,
                                 const char *name);

/* Where accesses are counted, each kernel must do at these sizes what its row says. The functions
 * below that count check this, too. */
void ladder_costs(const struct problem *problem, const void *table, const long long *sizes);

/*
 * Says how far a kernel is from using whole sectors and from having no bank conflicts. For loads
 * and for stores, it is 32 bytes for each sector over the bytes that the threads asked for. For
 * shared memory, it is the wavefronts over the ideal number. 0 stands for 1.
 */
struct traffic {
    const char *name; /* null ends a list */
    double load, store, wavefronts;
};

/* Where accesses are counted, the traffic of each kernel at these sizes must be what the list says
 * to within half a per cent, and exactly 1 where the list says nothing else. */
void ladder_traffic(const struct problem *problem, const void *table, const long long *sizes,
                    const struct traffic *expected);

/* Says what one run does: blocks, threads of all blocks, loads from shared memory, barriers. */
struct work {
    const char *name; /* null ends a list */
    unsigned long long blocks, threads, shared_loads, barriers;
};

/* Where accesses are counted, each kernel of the list must do exactly that at these sizes. A grid
 * that is too large, operands that are read again and barriers that are not needed leave results
 * as they are. */
void ladder_work(const struct problem *problem, const void *table, const long long *sizes,
                 const struct work *expected);

/*
 * Counts what one passing run of the named kernel did. Fails the test when the run does not pass.
 * Also fails it when the last ladder_counts() was not true for this kernel, as the loops above
 * ensure: skipping a kernel that is not under test must not skip others. Returns false where the
 * device is too small.
 */
bool ladder_count(const struct problem *problem, const void *table, const char *name,
                  const long long *sizes, struct counters *counters);

/*
 * Where a launch can be made to fail (on the CPU backend), every kernel of the table must return
 * the error of each launch that it makes at these sizes, and leave none behind. Where it was memory
 * that could not be filled, no output may be written. The next run, with the same workspace, must
 * be right.
 */
void ladder_returns_errors(const struct problem *problem, const void *table,
                           const long long *sizes);

/* Does the same for each tensor map that a kernel makes. Then nothing may be launched or written.
 * Every kernel of the table must make at least `least` maps. */
void ladder_returns_map_errors(const struct problem *problem, const void *table,
                               const long long *sizes, int least);

/* An error that an earlier call left behind is not a kernel's own: every kernel must run, be right,
 * and leave no error behind. */
void ladder_older_errors(const struct problem *problem, const void *table, const long long *sizes);

/*
 * Every kernel must work on the stream that it is given: two problems of these sizes run at the
 * same time, each on its own stream, and both must come out right. Where the backend can hold a
 * stream back (the CPU backend), nothing may be complete before it is asked for. Afterwards the two
 * follow each other with one workspace: neither may see what the other has left there.
 */
void ladder_streams(const struct problem *problem, const void *table, const long long *sizes,
                    const long long *other_sizes);

/* Every kernel must pass with one array that many bytes off its alignment and the others aligned,
 * for each array in turn. */
void ladder_one_off(const struct problem *problem, const void *table, const long long *sizes,
                    size_t offset);

/* Every kernel must be right after many launches in a row on one stream, with nothing in between
 * but before the last, when the outputs are poisoned again.
 * On the CPU, where launches are slow, there are fewer, and only for kernels with a workspace,
 * where a launch can leave something. */
void ladder_launches(const struct problem *problem, const void *table, const long long *sizes);

/* Each kernel must refuse, and write nothing, when one of the first `required` arrays is null, when
 * an array is not aligned to an element, when an output overlaps an input, and when it gets no
 * workspace but needs one. */
void ladder_refused_arrays(const struct problem *problem, const void *table, const long long *sizes,
                           int required);

/* Each kernel must refuse the sizes with this one replaced, with a message that contains
 * `words`. */
void ladder_refused_size(const struct problem *problem, const void *table, const long long *sizes,
                         int size, long long value, const char *words);

/* The named kernel must refuse these sizes with a message that contains `words`, and write
 * nothing. */
void ladder_refuses(const struct problem *problem, const void *table, const char *name,
                    const long long *sizes, const char *words);

#endif
