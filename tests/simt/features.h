/*
 * There is one function per feature of CUDA that kernels of this project, or small programs, rely
 * on. Each runs a kernel or two and returns how many results were wrong, which must be 0 on every
 * backend. A negative number is a CUDA error. test_simt.c declares these functions, and the
 * failures, where it tests them.
 */
#ifndef FEATURES_H
#define FEATURES_H

#include "tests/support/finished.cuh"
#include <cuda_runtime.h>
#include <stddef.h>

#ifdef __cplusplus

#define FEATURE(name) extern "C" int feature_##name(void)

/* Allocates zeroed memory that host and device share. It is freed with the process. */
template <class T>
T *shared_array(size_t count)
{
    T *array = NULL;
    if (cudaMallocManaged(&array, count * sizeof(T)) == cudaSuccess)
        cudaMemset(array, 0, count * sizeof(T));
    cudaDeviceSynchronize();
    return array;
}

/* Allocates the same, with value(i) in element i. */
template <class T, class Value>
T *shared_array(int count, Value value)
{
    T *array = shared_array<T>(count);
    for (int i = 0; i < count; i++)
        array[i] = (T)value(i);
    return array;
}

/* Waits for the kernel and returns its error as a feature does. The caller compares only when this
 * is 0. */
inline int wait_for_kernel(void)
{
    return -(int)finished();
}

/* Returns what a feature returns when a call failed: not 0, whatever the last error is. */
inline int call_failed(void)
{
    const cudaError_t error = cudaGetLastError();
    return -(int)(error != cudaSuccess ? error : cudaErrorUnknown);
}

/* Returns a feature's result: the sum of is_wrong(i) when the kernel is done. */
template <class Wrong>
int wrong_results(int count, Wrong is_wrong)
{
    int wrong = wait_for_kernel();
    for (int i = 0; wrong >= 0 && i < count; i++)
        wrong += is_wrong(i);
    return wrong;
}

/* Does the same where one expression counts all that is wrong. */
template <class CountWrong>
int wrong_results(CountWrong count_wrong)
{
    return wrong_results(1, [&](int) { return count_wrong(); });
}
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* feature_launch.cu */
cudaError_t launch_shape(dim3 grid, dim3 block, size_t dynamic_shared);
cudaError_t allow_dynamic_shared(int bytes);
cudaError_t launch_too_much_static_shared(void);
cudaError_t launch_cooperative(int blocks);
cudaError_t launch_bounded(int threads);             /* at most 64 */
cudaError_t launch_cluster(dim3 grid, dim3 cluster); /* both in blocks */

/* feature_barrier.cu */
int feature_alignment_of_shared(void); /* of dynamic shared memory, as declared */
int feature_warps_at_two_barriers(void);
cudaError_t read_unwritten_shared(unsigned *static_word, unsigned *dynamic_word);

/* feature_error.cu */
cudaError_t run_harmless(int *result);
cudaError_t fail_and_go_on(int *happened);

/* feature_streams.cu: two streams number their blocks, with one __device__ counter for both or one
 * for each; how many numbers are not there once */
int streams_that_count(int shared);

/* feature_order.cu: the order in which blocks, and the threads of a block, came by */
cudaError_t order_of_blocks(int *order, int blocks);
cudaError_t order_of_threads(int *order, int threads);
cudaError_t exchange_in_blocks_of_1024(int *sums, int blocks);

#ifdef __cplusplus
}
#endif

#endif
