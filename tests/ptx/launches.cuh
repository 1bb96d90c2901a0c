/* The launchers here are written with this. */
#ifndef TESTS_PTX_LAUNCHES_CUH
#define TESTS_PTX_LAUNCHES_CUH

#include "ptx_kernels.h"
#include "tests/support/finished.cuh"

/* Defines a launcher of these statements, which read words at `in` and write words at `out`. */
#define PTX_KERNEL(name, ...)                                                                      \
    cudaError_t ptx_##name(const uint32_t *in, uint32_t *out)                                      \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
        return finished();                                                                         \
    }

#endif
