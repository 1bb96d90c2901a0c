/* The last kernels are measured against these libraries, which are tables of kernel rows. Only
 * benchmarks link them. */
#ifndef TESTS_BENCH_PEERS_H
#define TESTS_BENCH_PEERS_H

#include "problems/matmul.h"
#include "problems/softmax.h"

extern const struct matmul_kernel cublas_kernels[];
extern const struct softmax_kernel cudnn_kernels[];

/* Returns "cuBLAS 13.1.0", in static storage. */
const char *cublas_version(void);
const char *cudnn_version(void);

#endif
