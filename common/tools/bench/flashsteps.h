/*
 * libflashsteps.so offers every kernel of the project behind one C ABI, for Python's ctypes, Julia,
 * or anything else that can call C. `make build/gpu/libflashsteps.so` builds it.
 *
 * A kernel is a row of its step's table, and flashsteps_kernel() returns its address. A function of
 * its problem in common/ runs it, and refusal() has the message when that refuses:
 *
 *     matmul                matmul_run(row, A, B, C, M, N, K, stream)
 *     softmax               softmax_run(row, input, output, rows, cols, stream)
 *     attention             attention_run(row, call)
 *     attention_backward    attention_backward_run(row, call)
 *
 * common/problems/ has a header of each problem's name.
 */
#ifndef TESTS_BENCH_FLASHSTEPS_H
#define TESTS_BENCH_FLASHSTEPS_H

#include "problems/attention.h"
#include "problems/attention_backward.h"
#include "problems/matmul.h"
#include "problems/softmax.h"

/* Returns kernel `index` of those that solve the problem in step 1 .. 6, in reading order; null
 * past the end and for an unknown step or problem. A row begins with a struct kernel, and that
 * begins with the name. */
const struct kernel *flashsteps_kernel(int step, const char *problem, int index);

/* Returns the bytes of workspace that a kernel needs for the call; 0 for none. */
size_t flashsteps_workspace(const struct attention_kernel *row, const struct attention *call);
size_t flashsteps_backward_workspace(const struct attention_backward_kernel *row,
                                     const struct attention_backward *call);

#endif
