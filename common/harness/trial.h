/*
 * One trial: a problem of given sizes with fresh inputs, its reference, and guarded device memory,
 * on which any number of kernels are run and checked. The step programs and the tests all go
 * through here.
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

/* The detectors of faults, in the order in which they run. */
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

/* On one run. Its texts last as long as the trial. */
struct verdict {
    enum verdict_status status;
    enum detector detector;
    double error, bound; /* struct comparison's; pass is error <= bound */
    /* ||out - ref|| / ||ref|| over the finite checked elements of the first output */
    double relative_l2;
    const char *reason; /* one line; empty for a pass */
    /* Of wrong values, null where there are none; also at the end of the reason. */
    const struct explanation *explanation;
};

struct trial {
    const struct problem *problem;
    long long sizes[MAX_SIZES];
    struct tensor tensors[MAX_TENSORS];
    int tensor_count, input_count;
    size_t offset; /* every device pointer is this many bytes past a multiple of 256 */

    void *host[MAX_TENSORS]; /* inputs as generated, outputs as last read back */
    struct device_buffer device[MAX_TENSORS];
    cudaStream_t stream;

    /* Of outputs: the rows that are checked, all unless the reference would take too long, and what
     * they should be, [count, cols]. */
    struct row_list rows[MAX_TENSORS];
    double *value[MAX_TENSORS], *scale[MAX_TENSORS];

    struct words *words; /* what verdicts say */
};

/*
 * Prepares a trial. sizes has MAX_SIZES entries, kept as the problem understands them. offset moves
 * every buffer off its alignment by that many bytes (0 for none). Returns cudaErrorInvalidValue for
 * sizes that do not belong together and cudaErrorMemoryAllocation for what does not fit the host's
 * or the device's memory, both with a message (refusal.h), or another CUDA error; then *trial is
 * empty.
 */
cudaError_t trial_create(struct trial *trial, const struct problem *problem, const long long *sizes,
                         enum input_kind kind, uint64_t seed, size_t offset);
void trial_destroy(struct trial *trial);

/* After the inputs in trial->host have been changed: computes those that follow from others, and
 * the reference, again, and brings the inputs to the device. */
cudaError_t trial_update(struct trial *trial);

/*
 * Runs a kernel of the problem once and checks it: outputs and workspace poisoned before;
 * afterwards no error, guards intact, inputs unchanged, every output element written, and the
 * checked rows as close to the reference as the arithmetic allows. Returns the verdict. After a
 * failure the device is set up afresh, so that the next kernel is not judged by what this one left
 * behind; where that cannot be done, the next kernel is not run and its verdict says so.
 */
struct verdict trial_run(struct trial *trial, const struct kernel *kernel);

/*
 * What trial_run() is made of, for tests that launch in ways of their own (many times, on two
 * streams, from a graph). Poisons the outputs, and the workspace unless it is null, and waits for
 * it; launches a kernel on the trial's arrays and stream, and does not wait; compares the outputs
 * in trial->host with the reference.
 */
cudaError_t trial_poison(const struct trial *trial, const struct device_buffer *workspace);
cudaError_t trial_launch(const struct trial *trial, const struct kernel *kernel,
                         const struct device_buffer *workspace);
void trial_compare(const struct trial *trial, struct comparison *comparison);

/*
 * Median time of `laps` runs after two to warm up, in milliseconds (see stopwatch.h). Call it after
 * a pass. The last run begins with poisoned outputs, and what it leaves is judged: *verdict fails
 * when a kernel is right at first and not for good, or when a run fails, which takes no time.
 */
double trial_time(struct trial *trial, const struct kernel *kernel, size_t laps,
                  struct verdict *verdict);

#endif
