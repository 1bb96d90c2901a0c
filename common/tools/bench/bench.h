/*
 * The benchmarks measure every kernel of a step's ladder and the libraries beside it, interleaved
 * in one run.
 *
 * For each shape, fresh normal inputs are drawn on the device, and every entrant's result is
 * compared with one entrant's before anything is timed. There are two protocols:
 *
 *     cold  the device rests 12 ms, runs the entrant once untimed, then a short burst of timed
 *           laps, each
 *                 after the L2 cache was overwritten; entrants in an order drawn anew each round
 *     sustained  back to back, as long untimed as timed, at the clocks that the power limit then
 *                allows; the L2
 *                 cache keeps what it keeps. For the last kernel of the ladder, those not far from
 *                 the fastest, and the peers
 *
 * Results go to a CSV file with the hardware, the versions and the protocols in its header; what
 * was skipped, and why, goes to both. A progress bar appears on a terminal only.
 *
 * The program writes argv[1], or build/STEP.csv. With a further argument "lesson" it appends, and
 * times every rung at the lesson's shape alone; those that pay elsewhere (timed_at), beside the
 * rungs that they follow, also there. Its exit status: 0, 1 something failed, 3 no device.
 */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include "harness/ladder.h"

#include <cuda_runtime.h>
#include <stddef.h>

struct bench_shape {
    const char *label;
    long long sizes[MAX_SIZES]; /* as on the command line of the step's program */
};

struct bench {
    const char *step;
    const struct problem *problem;
    /* Shapes are in order of work, so that a slow kernel's time can be predicted. A null label ends
     * them. */
    const struct bench_shape *shapes;
    const char *lesson; /* label of the shape that the lesson and docs/results/ladder.csv quote */
    const struct step *ladder;
    const void *peers;            /* a table of the problem's kernel rows; may be null */
    const char *(*version)(void); /* the peers' library, "cuBLAS 13.1"; may be null */
};

extern const struct bench bench; /* each bench_NN.c defines its step's */

#endif
