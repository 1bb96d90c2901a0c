/*
 * One driver is behind every step's program: command line, run loop, report.
 *
 * A step's main.c is one call:
 *
 *     int main(int argc, char **argv)
 *     {
 *         return step_main(argc, argv, &step_01);
 *     }
 */
#ifndef COMMON_STEP_H
#define COMMON_STEP_H

#include "ladder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A step's program exits with one of these. */
enum step_status {
    STEP_PASSED = 0,    /* all selected kernels passed, or need a newer device */
    STEP_FAILED = 1,    /* a check failed */
    STEP_BAD_USAGE = 2, /* a bad argument, or one that needs more memory than there is */
    STEP_NO_DEVICE = 3, /* there is no device to run on */
};

/*
 * Parses the command line (--help lists it), runs the selected kernels of the step, checks each,
 * and prints the ladder to stdout as a table or JSON. Errors go to stderr, one line each. Returns
 * an enum step_status.
 */
int step_main(int argc, char **argv, const struct step *step);

#ifdef __cplusplus
}
#endif

#endif
