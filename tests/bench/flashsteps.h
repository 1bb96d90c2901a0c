/*
 * libflashsteps.so: every kernel of the project behind one C ABI, for Python's ctypes, Julia, or
 * whoever else can call C. `make build/gpu/libflashsteps.so` builds it.
 *
 * A kernel is a row of its step's table and is named by the step, 1 .. 6, and its index there. What
 * it is called with lies in a struct of host memory, laid out as C lays it out: three for the three
 * problems. All arrays are device pointers, row-major and contiguous; `stream` is a cudaStream_t,
 * null for the default stream. A call returns a cudaError_t as an int: 0 when the work was
 * launched, which is then under way and not waited for; for what a kernel does not take, an error
 * whose message flashsteps_refusal() has. The problems' headers say what a kernel takes.
 */
#ifndef TESTS_BENCH_FLASHSTEPS_H
#define TESTS_BENCH_FLASHSTEPS_H

#include "attention.h"
#include "matmul.h"
#include "softmax.h"

#ifdef __cplusplus
extern "C" {
#endif

struct flashsteps_matmul {
    const float *A, *B;
    float *C;
    int M, N, K;
    cudaStream_t stream;
};

struct flashsteps_softmax {
    const float *input;
    float *output;
    int rows, cols;
    cudaStream_t stream;
};

/* The name of a kernel, in reading order; null past the end and for a step that is not there. */
const char *flashsteps_kernel(int step, int index);

/* Runs a kernel of steps 1 and 2, of step 3, and of steps 4, 5 and 6. */
cudaError_t flashsteps_matmul(int step, int index, const struct flashsteps_matmul *call);
cudaError_t flashsteps_softmax(int step, int index, const struct flashsteps_softmax *call);
cudaError_t flashsteps_attention(int step, int index, const struct attention *call);

/* Bytes of workspace that a kernel of step 4, 5 or 6 needs for the call; 0 for none. */
size_t flashsteps_workspace(int step, int index, const struct attention *call);

/* Why the last call on this thread was refused; the empty string when it was not. Clears it. */
const char *flashsteps_refusal(void);

#ifdef __cplusplus
}
#endif

#endif
