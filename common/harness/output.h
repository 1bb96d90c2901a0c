/*
 * A report that cannot be read is a failure: what a program says to have printed must have
 * arrived, on a disk that may be full or at the other end of a pipe.
 */
#ifndef COMMON_OUTPUT_H
#define COMMON_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * False, with a message on stderr, when the program was started with a closed standard output. Ask
 * before anything is opened: the next file would get its descriptor, and then the report.
 */
bool output_is_open(void);

/* False, with a message on stderr, when something written to the stream did not arrive. */
bool output_arrived(FILE *stream);

#ifdef __cplusplus
}
#endif

#endif
