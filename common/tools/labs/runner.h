/*
 * The graded program: a student's kernels and this. It turns the inputs of a request into the
 * outputs of an answer (case.h) and can do nothing else. common/tools/labs/grade.py writes a main()
 * for each step:
 *
 *     return runner_main(LAB_CALLS(online_softmax_kernels), online_softmax_kernels);
 */
#ifndef LABS_RUNNER_H
#define LABS_RUNNER_H

#include "problems/attention.h"
#include "problems/matmul.h"
#include "problems/softmax.h"

/* How a table's rows are called; the problems themselves, with their references, are not part of
 * this program. */
struct lab_calls {
    size_t row_bytes;
    cudaError_t (*run)(const struct kernel *kernel, const long long *sizes, void *const *device,
                       void *workspace, cudaStream_t stream);
    size_t (*workspace)(const struct kernel *kernel, const long long *sizes);
};

extern const struct lab_calls lab_matmul, lab_softmax, lab_attention;

#define LAB_CALLS(table)                                                                           \
    _Generic((table)[0], struct matmul_kernel                                                      \
             : &lab_matmul, struct softmax_kernel                                                  \
             : &lab_softmax, struct attention_kernel                                               \
             : &lab_attention)

int runner_main(const struct lab_calls *calls, const void *table);

#endif
