/*
 * One function per feature of CUDA that kernels of this project, or small programs, rely on. Each
 * runs a kernel or two and returns how many results were wrong: 0 on every backend. A negative
 * number is a CUDA error.
 */
#ifndef FEATURES_H
#define FEATURES_H

#include <cuda_runtime.h>
#include <stddef.h>

#ifdef __cplusplus

/* Zeroed memory that host and device share; freed with the process. */
template <class T>
T *shared_array(size_t count)
{
    T *array = NULL;
    if (cudaMallocManaged(&array, count * sizeof(T)) == cudaSuccess)
        cudaMemset(array, 0, count * sizeof(T));
    cudaDeviceSynchronize();
    return array;
}

/* Waits for the kernel; the caller compares only when this is 0. */
inline int wait_for_kernel(void)
{
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess)
        error = cudaDeviceSynchronize();
    return -(int)error;
}
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* feature_launch.cu */
int feature_indices(void);
int feature_templates(void);
int feature_deduced_template(void);
int feature_launch_forms(void);
int feature_launch_by_pointer(void);
int feature_parameters(void);
cudaError_t launch_shape(dim3 grid, dim3 block, size_t dynamic_shared);
cudaError_t allow_dynamic_shared(int bytes);
cudaError_t launch_too_much_static_shared(void);
cudaError_t launch_cooperative(int blocks);
cudaError_t launch_bounded(int threads);             /* of at most 64 */
cudaError_t launch_cluster(dim3 grid, dim3 cluster); /* both in blocks */
int feature_occupancy(void);

/* feature_barrier.cu */
int feature_static_shared(void);
int feature_dynamic_shared(void);
int feature_alignment_of_shared(void); /* of dynamic shared memory, as declared and no more */
int feature_file_scope_shared(void);
int feature_shared_struct(void);
int feature_barrier_reductions(void);
int feature_returned_threads(void);
int feature_many_barriers(void);
int feature_warps_at_two_barriers(void);
cudaError_t read_unwritten_shared(unsigned *static_word, unsigned *dynamic_word);

/* feature_warp.cu */
int feature_shuffles(void);
int feature_shuffle_widths(void);
int feature_shuffle_types(void);
int feature_votes(void);
int feature_matches(void);
int feature_partial_masks(void);
int feature_short_warp(void);
int feature_activemask(void);

/* feature_reduce.cu */
int feature_warp_reductions(void);

/* feature_atomic.cu */
int feature_integer_atomics(void);
int feature_float_atomics(void);
int feature_compare_and_swap(void);
int feature_shared_atomics(void);
int feature_atomic_ref(void);
int feature_lock_within_block(void);
int feature_ordered_blocks(void);
int feature_volatile_flag(void);
int feature_last_block(void);

/* feature_memory.cu */
int feature_constants(void);
int feature_device_variables(void);
int feature_copies(void);
int feature_pitched_copies(void);
int feature_events_and_streams(void);
int feature_host_memory(void);
int feature_device_heap(void);
int feature_large_offsets(void);

/* feature_math.cu */
int feature_intrinsics(void);
int feature_conversions(void);
int feature_vectors(void);
int feature_half(void);
int feature_bfloat16(void);
int feature_clocks(void);

/* feature_group.cu */
int feature_block_and_tiles(void);
int feature_coalesced_group(void);
int feature_group_collectives(void);
int feature_grid_sync(void);

/* feature_error.cu: the error that a synchronisation shows */
cudaError_t fail_null_pointer(void);
cudaError_t fail_past_the_end(void);
cudaError_t fail_after_free(void);
cudaError_t fail_assertion(void);
cudaError_t fail_trap(void);
cudaError_t fail_stack_overflow(void);
cudaError_t fail_barrier_some_skip(void);
cudaError_t fail_two_barriers(void);
cudaError_t fail_warp_operation(void);
cudaError_t fail_foreign_mask(void);
cudaError_t fail_grid_sync(void);
cudaError_t run_harmless(int *result);

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
