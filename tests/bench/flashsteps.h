/*
 * libflashsteps.so: every kernel of the project behind one C ABI, for Python's ctypes, Julia, or
 * whoever else can call C. `make build/gpu/libflashsteps.so` builds it.
 *
 * A kernel is the exported symbol matmul_NAME, softmax_NAME or attention_NAME, where NAME is its
 * row's name; its signature is that of its problem:
 *
 *     steps 01, 02   matmul_fn           (A, B, C, M, N, K, stream)                 common/matmul.h
 *     step 03        softmax_fn        (input, output, rows, cols, stream)         common/softmax.h
 *     steps 04, 05  attention_fn   (Q, K, V, O, LSE, workspace, shape, stream)   common/attention.h
 *     step 06        attention_half_fn   the same, elements are IEEE binary16
 *
 * All arrays are device pointers, row-major and contiguous; attention's `shape` is a pointer to
 * host memory, six ints (batch, heads, kv_heads, seq_q, seq_kv, head_dim), one bool and one float,
 * laid out as C lays out struct attention_shape. `stream` is a cudaStream_t, null for the default
 * stream. A kernel returns a cudaError_t as an int: 0 when the work was launched, which is then
 * under way and not waited for; for arguments it does not take, an error whose sentence
 * flashsteps_refusal() has. What it may not be given, its header and attention.h say.
 */
#ifndef TESTS_BENCH_FLASHSTEPS_H
#define TESTS_BENCH_FLASHSTEPS_H

#include "attention.h"
#include "matmul.h"
#include "softmax.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name of kernel `index` of step 1 .. 6, in reading order; null past the end and for a step
 * that is not there. */
const char *flashsteps_kernel(int step, int index);

/* Bytes of workspace that kernel `index` of step 4, 5 or 6 needs for the shape; 0 for none. */
size_t flashsteps_workspace(int step, int index, const struct attention_shape *shape);

/* Why the last call on this thread was refused; the empty string when it was not. Clears it. */
const char *flashsteps_refusal(void);

#ifdef __cplusplus
}
#endif

#endif
