/*
 * Grader and graded program exchange two files: one with a request, one with the answer.
 *
 * Both begin with their struct. Behind it, from `image[t]` on, is everything that one device buffer
 * holds, guard zones included. The graded program copies images to the device, forgets the request,
 * runs one kernel, and copies the images back. It knows nothing else: only judge.c knows what the
 * result should be, which seed the inputs came from, and what the guards should hold.
 */
#ifndef LABS_CASE_H
#define LABS_CASE_H

#include "device/backend.h"
#include "harness/problem.h"

enum { LAB_MAGIC = 0x1ab5, LAB_WORKSPACE = MAX_TENSORS, LAB_IMAGES = MAX_TENSORS + 1 };

struct lab_request {
    long long magic;
    char kernel[64]; /* the name of a row of the step's table */
    long long sizes[MAX_SIZES];
    /* The launcher is called this often, before the first kernel runs. The last call's outputs
     * count. */
    long long calls;
    long long laps; /* timed runs after them, 0 for none; the last one's outputs count */
    /* This is the order of threads and blocks, as in tests/support/ladder.h; empty for the
     * default. */
    char order[32];
    long long output[LAB_IMAGES]; /* true for what the kernel must write */
    size_t data[LAB_IMAGES];      /* where in its image a buffer begins, behind the front guard */
    size_t bytes[LAB_IMAGES];     /* the size of the buffer; of the workspace, the most there is */
    /* These are places in the file; a buffer that does not exist has 0 bytes. */
    size_t image[LAB_IMAGES], image_bytes[LAB_IMAGES];
    size_t total; /* the size of the file */
};

enum lab_end {
    LAB_CRASHED, /* the file's first contents: no answer was written */
    LAB_RAN,
    LAB_LAUNCHER_ERROR, /* the launcher itself returned an error */
    LAB_KERNEL_ERROR,   /* a launch or a kernel failed */
    LAB_SKIPPED,        /* the launcher says that the device is too old */
    LAB_NO_DEVICE,
    LAB_WORKSPACE_TOO_LARGE,
    LAB_OTHER_STREAM, /* something was started on a stream other than the one given */
    LAB_IDLE_LAP,     /* a timed run left its outputs unwritten */
    LAB_ENDS
};

/* All of it comes from a process that a submission shares. judge.c believes only what it can
 * check. */
struct lab_answer {
    long long magic;
    long long end;    /* enum lab_end */
    long long status; /* cudaError_t */
    char report[512]; /* the backend's report, for instructors */
    size_t workspace; /* bytes asked for */
    long long counted;
    struct counters counters;
    double milliseconds; /* median, where laps were asked for */
};

#endif
