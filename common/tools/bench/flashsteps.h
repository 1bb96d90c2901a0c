/*
 * libflashsteps.so: every kernel of the project behind one C ABI, for Python's ctypes, Julia, or
 * whoever else can call C. `make build/gpu/libflashsteps.so` builds it.
 *
 * A kernel is a row of its step's table; flashsteps_kernel() gives its address. What runs it is its
 * problem's function in common/, and refusal() has the message of one that was refused:
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

/* Kernel `index` of step 1 .. 6, in reading order; null past the end and for a step that is not
 * there. A row begins with a struct kernel, and that with the name. */
const struct kernel *flashsteps_kernel(int step, int index);

/* Bytes of workspace that a kernel of step 4, 5 or 6 needs for the call; 0 for none. */
size_t flashsteps_workspace(const struct attention_kernel *row, const struct attention *call);

#endif
