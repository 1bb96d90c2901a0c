/*
 * A trial is a problem of given sizes with fresh inputs, its reference, and guarded device memory.
 * Any number of kernels run on it and are checked. The step programs and the tests all use trials.
 */
#ifndef COMMON_TRIAL_H
#define COMMON_TRIAL_H

#include "check.h"
#include "device_buffer.h"
#include "explain.h"
#include "problem.h"

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

/* These detect faults, in the order in which they run. */
enum detector {
    DETECTOR_NONE,
    DETECTOR_LAUNCH,     /* the kernel could not be launched, or it failed */
    DETECTOR_GUARD,      /* a guard zone beside a buffer was overwritten */
    DETECTOR_INPUTS,     /* an input was changed */
    DETECTOR_POISON,     /* an element of the output was never written */
    DETECTOR_COMPARISON, /* an element is further from the reference than rounding explains */
};

/* "launch", "guard", "inputs", "poison", "comparison"; "none". */
const char *detector_name(enum detector detector);

enum verdict_status {
    VERDICT_PASS,
    VERDICT_FAIL,
    VERDICT_REFUSED, /* not run: its argument check or the device's memory does not allow it */
    VERDICT_SKIPPED, /* the device is too old for the kernel */
};

/* A verdict judges one run. Its texts last as long as the trial. */
struct verdict {
    enum verdict_status status;
    enum detector detector;
    double error, bound; /* as in struct comparison; a pass has error <= bound */
    /* This is ||out - ref|| / ||ref|| over the finite checked elements of the first output. */
    double relative_l2;
    const char *reason; /* one line; empty for a pass */
    /* The explanation of wrong values, null where there is none. The reason ends with it, too. */
    const struct explanation *explanation;
};

/* A placement says how a caller hands its arrays over. Where no array is named, the index is 0. */
struct placement {
    size_t offset;    /* device pointers are this many bytes past a multiple of 256: */
    int offset_array; /* that of the tensor with this index plus 1, or all for 0 */
    int null_array;   /* this output's pointer is null: the caller does not want it */
    int launches;     /* the kernel is launched so often in a row before it is judged; 0 is once */
};

struct trial {
    const struct problem *problem;
    long long sizes[MAX_SIZES];
    struct tensor tensors[MAX_TENSORS];
    int tensor_count, input_count;
    struct placement placement;

    void *host[MAX_TENSORS]; /* inputs as generated, outputs as last read back */
    struct device_buffer device[MAX_TENSORS];
    cudaStream_t stream;
    int resets; /* how often the device had been reset when this was allocated */

    /* For outputs: the rows that are checked (all, unless the reference would take too long), and
     * their right values and scales, [count, cols]. */
    struct row_list rows[MAX_TENSORS];
    double *value[MAX_TENSORS], *scale[MAX_TENSORS];

    struct words *words; /* the texts of verdicts */
};

/*
 * Prepares a trial. sizes has MAX_SIZES entries; the trial keeps them as the problem understands
 * them. offset moves every buffer off its alignment by that many bytes (0 for none). On failure
 * *trial is empty. The error is then cudaErrorInvalidValue for sizes that do not fit together, or
 * cudaErrorMemoryAllocation for what does not fit in the host's or the device's memory, both with a
 * message (refusal.h), or another CUDA error.
 */
cudaError_t trial_create(struct trial *trial, const struct problem *problem, const long long *sizes,
                         enum input_kind kind, uint64_t seed, size_t offset);
cudaError_t trial_create_placed(struct trial *trial, const struct problem *problem,
                                const long long *sizes, enum input_kind kind, uint64_t seed,
                                const struct placement *placement);
void trial_destroy(struct trial *trial);

/* Call this after changing the inputs in trial->host. It computes the inputs that follow from
 * others and the reference again, and uploads the inputs to the device. */
cudaError_t trial_update(struct trial *trial);

/*
 * Runs a kernel of the problem and checks it. Outputs and workspace are poisoned before the run.
 * Where the placement asks for several launches, all but the last follow each other at once; before
 * the last the outputs are poisoned again, and the workspace stays as it is. Afterwards there must
 * be no error, the guards intact, the inputs unchanged, every output element written, and the
 * checked rows as close to the reference as the arithmetic allows. After a failure the device is
 * set up afresh, so that the next kernel is not judged by what this one left behind. Where that
 * fails, the next kernel does not run and its verdict says so.
 */
struct verdict trial_run(struct trial *trial, const struct kernel *kernel);

/* Gives the verdict a reason, as printf() would print it. */
void trial_say(struct trial *trial, struct verdict *verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * trial_run() is made of these, for tests that launch in their own way (many times, on two streams,
 * from a graph). The first poisons the outputs and, unless it is null, the workspace, and waits.
 * The second launches a kernel on the trial's arrays and stream, and does not wait. The third
 * compares the outputs in trial->host with the reference.
 */
cudaError_t trial_poison(const struct trial *trial, const struct device_buffer *workspace);
cudaError_t trial_launch(const struct trial *trial, const struct kernel *kernel,
                         const struct device_buffer *workspace);
void trial_compare(const struct trial *trial, struct comparison *comparison);

/*
 * Returns the median time of `laps` runs in milliseconds, after two to warm up (see stopwatch.h).
 * Call it after a pass. The last run begins with poisoned outputs, and its results are judged:
 * *verdict fails when the kernel was right only at first, or when a run fails; then the time is 0.
 */
double trial_time(struct trial *trial, const struct kernel *kernel, size_t laps,
                  struct verdict *verdict);

#endif
