/*
 * A report that cannot be read is a failure: everything that a program prints must arrive, even
 * when the disk is full or the other end of a pipe is closed.
 */
#ifndef COMMON_OUTPUT_H
#define COMMON_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Returns false, with a message on stderr, when the program was started with a closed standard
 * output. Call it before opening anything: the next file would get the descriptor of standard
 * output, and then the report.
 */
bool output_is_open(void);

/*
 * A kernel's printf goes to standard output, too. After output_set_apart() that is stderr, where
 * kernels can print what they like, and only between output_begin() and output_end() it is what the
 * program was started with, where a tool reads the report. output_end() flushes in any case.
 */
void output_set_apart(void);
void output_begin(void);
void output_end(void);

/* Returns false, with a message on stderr, when something written to the stream did not arrive. */
bool output_arrived(FILE *stream);

#ifdef __cplusplus
}
#endif

#endif
