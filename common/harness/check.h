/*
 * The verdict on one output: compare with the reference, look for elements that were never written.
 */
#ifndef COMMON_CHECK_H
#define COMMON_CHECK_H

#include "explain.h"
#include "problem.h"

#include <stdbool.h>
#include <stddef.h>

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

struct verdict {
    enum verdict_status status;
    enum detector detector;
    double error; /* max |out - ref| / scale over the checked elements */
    double bound; /* what rounding alone can make of it; pass is error <= bound */
    /* ||out - ref|| / ||ref|| over the finite checked elements of the first output */
    double relative_l2;
    char reason[2000]; /* one line; empty for a pass; a report of the checker is long */
    struct explanation explanation; /* of wrong values; also at the end of the reason */
};

/*
 * What an output holds before a kernel runs, for device_buffer_poison(): a signalling NaN of the
 * type, which no arithmetic makes. An instruction that computes with it gives a quiet NaN, on the
 * CPU backend with the rest of the bits unchanged; so a NaN in a result tells which array it comes
 * from. `array` is a tensor's index, 0 .. MAX_TENSORS - 1.
 */
uint32_t check_poison(enum tensor_type type, int array);

/* Of memory that has no array's index: a workspace, and shared memory of a new block. */
enum { POISON_OF_WORKSPACE = 14, POISON_OF_SHARED_MEMORY };

/* Whether element `index` still holds the poison of `array`. */
bool check_is_poison(const void *data, enum tensor_type type, size_t index, int array);

/* Whether it is a NaN that was computed from that poison. A GPU forgets; then nothing does. */
bool check_comes_from(const void *data, enum tensor_type type, size_t index, int array);

/* Index of the first element that still holds the poison of `array`; count when there is none. */
size_t check_unwritten(const void *data, enum tensor_type type, size_t count, int array);

/*
 * Folds `count` elements of an output, from element `first` on, into the verdict. value and scale
 * are the reference's. A reference that is NaN or infinite must be met exactly. Otherwise the
 * element's error is |out - value| / scale, and one that is not <= bound (a NaN never is) fails the
 * verdict, with a reason that names the tensor, the row and the column.
 */
void check_compare(struct verdict *verdict, const struct tensor *tensor, const void *data,
                   size_t first, size_t count, const double *value, const double *scale);

#endif
