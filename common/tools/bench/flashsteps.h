/*
 * libflashsteps.so offers every kernel of the project behind one C ABI, for Python's ctypes, Julia,
 * or anything else that can call C. `make build/gpu/libflashsteps.so` builds it.
 *
 * A kernel is a row of its step's table, and flashsteps_kernel() returns its address. A function of
 * its problem in common/ runs it, and refusal() has the message when that refuses:
 *
 *     steps 01, 02      matmul_run(row, A, B, C, M, N, K, stream) common/problems/matmul.h step 03
 * softmax_run(row, input, output, rows, cols, stream)    common/problems/softmax.h steps 04, 05, 06
 * attention_run(row, call)                               common/problems/attention.h
 */
#ifndef TESTS_BENCH_FLASHSTEPS_H
#define TESTS_BENCH_FLASHSTEPS_H

#include "problems/attention.h"
#include "problems/matmul.h"
#include "problems/softmax.h"

/* Returns kernel `index` of step 1 .. 6, in reading order; null past the end and for an unknown
 * step. A row begins with a struct kernel, and that begins with the name. */
const struct kernel *flashsteps_kernel(int step, int index);

/* Returns the bytes of workspace that a kernel of step 4, 5 or 6 needs for the call; 0 for none. */
size_t flashsteps_workspace(const struct attention_kernel *row, const struct attention *call);

#endif
