/*
 * These tests use CUDA as this project and small programs do. On the CPU they test the backend.
 * They pass on a GPU too, which shows that they demand only what CUDA does. There, tests that need
 * the CPU are skipped with a message.
 */
#include "features.h"
#include "said.h"

#include <glob.h>

static bool on_gpu(void)
{
    return strcmp(backend_name(), "gpu") == 0;
}

static bool on_cpu(void)
{
    if (!on_gpu())
        return true;
    fprintf(stderr, "skipped: this is about the CPU backend\n");
    return false;
}

/* The CPU backend's report must contain these words. */
static void report_says(const char *words)
{
    if (!on_gpu())
        expect_said(backend_report(), words);
}

/* Each feature runs in three orders of blocks and threads and must not depend on them. */
static void in_three_orders(const char *name, int (*feature)(void))
{
    static const char *const orders[] = {"inorder", "reversed", "random:7"};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        setenv("SIMT_ORDER", orders[i], 1);
        int wrong = feature();
        cr_assert(wrong >= 0, "%s, %s: %s; %s", name, orders[i],
                  cudaGetErrorName((cudaError_t)-wrong), backend_report());
        cr_assert_eq(wrong, 0, "%s, %s: %d results are wrong", name, orders[i], wrong);
    }
}

#define FEATURE_TEST(suite, name)                                                                  \
    int feature_##name(void);                                                                      \
    CALL_TEST(suite, name, in_three_orders(#name, feature_##name))

/* ---------------------------------------------------------------------------------------------- */
/* Launches */

FEATURE_TEST(launch, indices)
FEATURE_TEST(launch, templates)
FEATURE_TEST(launch, deduced_template)
FEATURE_TEST(launch, launch_forms)
FEATURE_TEST(launch, launch_by_pointer)
FEATURE_TEST(launch, parameters)
FEATURE_TEST(launch, parameters_with_destructors)
FEATURE_TEST(launch, parameters_by_reference)
FEATURE_TEST(launch, kernel_and_host_function_of_one_name)
FEATURE_TEST(launch, occupancy)

/* ---------------------------------------------------------------------------------------------- */
/* Shared memory and barriers */

FEATURE_TEST(barrier, static_shared)
FEATURE_TEST(barrier, dynamic_shared)

/* A GPU aligns more than what is declared. */
CALL_TEST(barrier, alignment_of_shared,
          if (on_cpu()) in_three_orders("alignment_of_shared", feature_alignment_of_shared))

FEATURE_TEST(barrier, file_scope_shared)
FEATURE_TEST(barrier, shared_struct)
FEATURE_TEST(barrier, barrier_reductions)
FEATURE_TEST(barrier, returned_threads)
FEATURE_TEST(barrier, many_barriers)

/* The checked build reports this, because CUDA C++ does not promise what the hardware does. */
TEST(barrier, warps_at_two_barriers)
{
    if (strcmp(backend_name(), "check") != 0)
        in_three_orders("warps_at_two_barriers", feature_warps_at_two_barriers);
}

/* ---------------------------------------------------------------------------------------------- */
/* Warps */

FEATURE_TEST(warp, shuffles)
FEATURE_TEST(warp, shuffle_widths)
FEATURE_TEST(warp, shuffle_types)
FEATURE_TEST(warp, votes)
FEATURE_TEST(warp, matches)
FEATURE_TEST(warp, partial_masks)
FEATURE_TEST(warp, short_warp)
FEATURE_TEST(warp, activemask)
FEATURE_TEST(warp, warp_reductions)

/* ---------------------------------------------------------------------------------------------- */
/* Atomics */

FEATURE_TEST(atomic, integer_atomics)
FEATURE_TEST(atomic, polling)
FEATURE_TEST(atomic, float_atomics)
FEATURE_TEST(atomic, compare_and_swap)
FEATURE_TEST(atomic, shared_atomics)
FEATURE_TEST(atomic, atomic_ref)
FEATURE_TEST(atomic, lock_within_block)
FEATURE_TEST(atomic, ordered_blocks)
/* The checked build lets it pass when it is told to. */
int feature_volatile_flag(void);
CALL_TEST(atomic, volatile_flag,
          (setenv("SIMT_IGNORE", "volatile", 1),
           in_three_orders("volatile_flag", feature_volatile_flag)))
FEATURE_TEST(atomic, last_block)

/* ---------------------------------------------------------------------------------------------- */
/* Memory, streams, events */

FEATURE_TEST(memory, constants)
FEATURE_TEST(memory, device_variables)
FEATURE_TEST(memory, copies)
FEATURE_TEST(memory, pitched_copies)
FEATURE_TEST(memory, pitched_volume)
FEATURE_TEST(memory, memory_pool)
FEATURE_TEST(memory, events_and_streams)
FEATURE_TEST(memory, types_of_memory)
FEATURE_TEST(memory, host_memory)
FEATURE_TEST(memory, device_heap)
FEATURE_TEST(memory, large_offsets)

/* ---------------------------------------------------------------------------------------------- */
/* Numbers */

FEATURE_TEST(math, intrinsics)
FEATURE_TEST(math, parts_of_words)
FEATURE_TEST(math, conversions)
FEATURE_TEST(math, vectors)
FEATURE_TEST(math, half)
FEATURE_TEST(math, half_comparisons)
FEATURE_TEST(math, bfloat16)
FEATURE_TEST(math, clocks)

/* ---------------------------------------------------------------------------------------------- */
/* Cooperative groups */

FEATURE_TEST(group, block_and_tiles)
FEATURE_TEST(group, coalesced_group)
FEATURE_TEST(group, group_collectives)
FEATURE_TEST(group, grid_sync)

/* ---------------------------------------------------------------------------------------------- */
/* Launches that are refused: an error code, nothing run, and the next launch works */

/* CUDA 13.0 calls every bad launch an invalid value. Older versions, and this backend, call a bad
 * shape an invalid configuration. */
static void expect_refusal(cudaError_t expected, dim3 grid, dim3 block, size_t shared,
                           const char *word)
{
    cudaError_t error = launch_shape(grid, block, shared);
    if (on_gpu() && error == cudaErrorInvalidValue)
        expected = cudaErrorInvalidValue;
    cr_expect_eq(error, expected, "grid %u,%u,%u block %u,%u,%u shared %zu: %s", grid.x, grid.y,
                 grid.z, block.x, block.y, block.z, shared, cudaGetErrorName(error));
    report_says(word);
    int result = 0;
    cr_expect_eq(run_harmless(&result), cudaSuccess);
    cr_expect_eq(result, 42);
}

static dim3 shape(unsigned x, unsigned y, unsigned z)
{
    dim3 size = {x, y, z};
    return size;
}

TEST(refusal, shapes)
{
    const dim3 one = shape(1, 1, 1);
    expect_refusal(cudaErrorInvalidConfiguration, shape(0, 1, 1), one, 0, "grid of 0 x 1 x 1");
    expect_refusal(cudaErrorInvalidConfiguration, shape(1, 65536, 1), one, 0, "65535");
    expect_refusal(cudaErrorInvalidConfiguration, shape(1, 1, 65536), one, 0, "65535");
    expect_refusal(cudaErrorInvalidConfiguration, one, shape(0, 1, 1), 0, "block of 0 x 1 x 1");
    expect_refusal(cudaErrorInvalidConfiguration, one, shape(1025, 1, 1), 0, "1024");
    expect_refusal(cudaErrorInvalidConfiguration, one, shape(33, 32, 1), 0,
                   "33 x 32 x 1 = 1056 threads");
    expect_refusal(cudaErrorInvalidConfiguration, one, shape(1, 1, 65), 0, "64");
    cr_expect_eq(launch_shape(one, shape(32, 32, 1), 0), cudaSuccess);
    cr_expect_eq(launch_shape(shape(70000, 1, 1), shape(1, 1, 1), 0), cudaSuccess);
    cr_expect_eq(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(refusal, dynamic_shared_memory)
{
    const dim3 one = shape(1, 1, 1);
    int most = 0;
    cr_assert_eq(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
                 cudaSuccess);
    cr_expect_eq(launch_shape(one, one, 48 << 10), cudaSuccess);
    expect_refusal(cudaErrorInvalidValue, one, one, (48 << 10) + 1, "cudaFuncSetAttribute");
    cr_expect_eq(allow_dynamic_shared(most + 1), cudaErrorInvalidValue);
    cudaGetLastError();
    cr_expect_eq(allow_dynamic_shared(most), cudaSuccess);
    cr_expect_eq(launch_shape(one, one, (size_t)most), cudaSuccess);
    expect_refusal(cudaErrorInvalidValue, one, one, (size_t)most + 1, "dynamic shared memory");
    if (!on_gpu())
        cr_expect_eq(most, 227 << 10);
}

TEST(refusal, static_and_dynamic_shared_memory)
{
    cr_expect_eq(launch_too_much_static_shared(), cudaErrorInvalidValue);
    report_says("beside 40960 of static");
}

TEST(refusal, launch_bounds)
{
    cr_expect_eq(launch_bounded(64), cudaSuccess);
    cr_expect_eq(launch_bounded(65), cudaErrorInvalidValue);
    report_says("its __launch_bounds__ allows 64");
    cr_expect_eq(launch_bounded(64), cudaSuccess, "the error sticks");
}

/* For tests of callers, the launch that SIMT_FAIL_LAUNCH counts to returns an error, and others
 * run. */
CONDITIONAL_TEST(refusal, injected, on_cpu())
{
    int result = 0;
    setenv("SIMT_FAIL_LAUNCH", "2", 1);
    cr_expect_eq(run_harmless(&result), cudaSuccess);
    result = 0;
    cr_expect_eq(run_harmless(&result), cudaErrorLaunchOutOfResources);
    cr_expect_neq(result, 42);
    report_says("SIMT_FAIL_LAUNCH makes launch 2 fail");
    cr_expect_eq(run_harmless(&result), cudaSuccess);
    cr_expect_eq(result, 42);
    setenv("SIMT_FAIL_LAUNCH", "4", 1);
    cr_expect_eq(allow_dynamic_shared(1024), cudaErrorLaunchOutOfResources);
}

TEST(refusal, cooperative_launch_too_large)
{
    cr_expect_eq(launch_cooperative(4), cudaSuccess);
    cr_expect_eq(cudaDeviceSynchronize(), cudaSuccess);
    cr_expect_eq(launch_cooperative(100000), cudaErrorCooperativeLaunchTooLarge);
}

TEST(refusal, clusters)
{
    if (backend_architecture() < 90) {
        fprintf(stderr, "skipped: needs sm_90\n");
        return;
    }
    int result = 0;
    cr_expect_eq(launch_cluster(shape(6, 4, 2), shape(1, 1, 1)), cudaSuccess);
    cr_expect_eq(launch_cluster(shape(6, 4, 2), shape(3, 1, 2)), cudaSuccess);
    cr_expect_eq(launch_cluster(shape(8, 1, 1), shape(8, 1, 1)), cudaSuccess);
    cr_expect_eq(launch_cluster(shape(9, 1, 1), shape(9, 1, 1)), cudaErrorInvalidClusterSize);
    cr_expect_eq(launch_cluster(shape(4, 4, 1), shape(4, 4, 1)), cudaErrorInvalidClusterSize);
    cr_expect_eq(launch_cluster(shape(7, 1, 1), shape(2, 1, 1)), cudaErrorInvalidClusterSize);
    cr_expect_eq(run_harmless(&result), cudaSuccess);
    if (!on_gpu()) {
        setenv("SIMT_ARCH", "80", 1);
        cr_expect_eq(launch_cluster(shape(8, 1, 1), shape(8, 1, 1)), cudaErrorNotSupported);
        report_says("clusters need sm_90");
    }
}

TEST(refusal, calls)
{
    int *data = NULL, *none = NULL, host = 0;
    float ms;
    struct cudaDeviceProp properties;
    cr_expect_eq(cudaMalloc((void **)&data, sizeof *data), cudaSuccess);
    cr_expect_eq(cudaSetDevice(99), cudaErrorInvalidDevice);
    cr_expect_eq(cudaGetDeviceProperties(&properties, 99), cudaErrorInvalidDevice);
    cr_expect_eq(cudaDeviceEnablePeerAccess(99, 0), cudaErrorInvalidDevice);
    cr_expect_eq(cudaMemcpyPeer(data, 0, data, 99, sizeof *data), cudaErrorInvalidDevice);
    cr_expect_eq(cudaMalloc((void **)&none, (size_t)1 << 50), cudaErrorMemoryAllocation);
    if (!on_gpu())
        cr_expect_eq(cudaEventElapsedTime(&ms, NULL, NULL), cudaErrorInvalidResourceHandle);
    cr_expect_eq(cudaMalloc(NULL, 4), cudaErrorInvalidValue);
    cr_expect_eq(cudaGetLastError(), cudaErrorInvalidValue);
    cr_expect_eq(cudaGetLastError(), cudaSuccess, "an error that is not sticky shows once");
    cr_expect_eq(cudaMemcpy(&host, data, sizeof host, cudaMemcpyDeviceToHost), cudaSuccess);
    cr_expect_eq(cudaFree(NULL), cudaSuccess);
    cr_expect_eq(cudaFree(data), cudaSuccess);
    cr_expect_eq(cudaFree(data), cudaErrorInvalidValue);
    cr_expect_str_eq(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress");
    cr_expect_str_eq(cudaGetErrorString(cudaErrorIllegalAddress),
                     "an illegal memory access was encountered");
    cr_expect_str_eq(cudaGetErrorString(cudaErrorStreamCaptureUnjoined),
                     "capturing stream has unjoined work");
    cr_expect_str_eq(cudaGetErrorName((cudaError_t)12345), "unrecognized error code");
}

/* A GPU accepts some of these, or crashes on them. */
CONDITIONAL_TEST(refusal, copies, on_cpu())
{
    char *data = NULL, host[100] = {0};
    cr_assert_eq(cudaMalloc((void **)&data, 100), cudaSuccess);
    cr_expect_eq(cudaMemcpy(data, host, 101, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    report_says("101 bytes from byte 0 of an allocation of 100");
    cr_expect_eq(cudaMemcpy(data, host, 50, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    cr_expect(strstr(backend_report(), "host memory, but the copy's kind says device") ||
                  strstr(backend_report(), "device memory, but the copy's kind says host"),
              "%s", backend_report());
    cr_expect_eq(cudaMemset(host, 0, 10), cudaErrorInvalidValue);
    cr_expect_eq(cudaMemset(data + 60, 0, 41), cudaErrorInvalidValue);
    cr_expect_eq(cudaMemcpy(NULL, host, 10, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    cr_expect_eq(cudaMemcpy(data, host, 10, (enum cudaMemcpyKind)9),
                 cudaErrorInvalidMemcpyDirection);
    cr_expect_eq(cudaMemcpy(data, host, 0, cudaMemcpyHostToDevice), cudaSuccess);
    cudaFree(data);
    cr_expect_eq(cudaMemcpy(data, host, 10, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
}

static int seventh(const int *data)
{
    return data[7];
}

CONDITIONAL_TEST(memory, host_code_follows_a_device_pointer, on_cpu())
{
    int *data = NULL, *managed = NULL;
    char said[500];
    cr_assert_eq(cudaMalloc((void **)&data, 100 * sizeof *data), cudaSuccess);
    cr_assert_eq(cudaMallocManaged((void **)&managed, sizeof *managed, cudaMemAttachGlobal),
                 cudaSuccess);
    *managed = 5;
    follow_on_host(seventh, data, said, sizeof said);
    expect_said(said, "host code touched");
    expect_said(said, "byte 28 of");
}

TEST(memory, new_shared_memory_is_not_zero)
{
    unsigned fixed = 0, dynamic = 0;
    if (strcmp(backend_name(), "cpu") != 0) {
        fprintf(stderr,
                "skipped: a GPU may find anything there, and the checked build reports it\n");
        return;
    }
    cr_assert_eq(read_unwritten_shared(&fixed, &dynamic), cudaSuccess);
    /* NaN, but not the NaN of new device memory */
    cr_expect_eq(fixed, 0x7fff7fffu);
    cr_expect_eq(dynamic, 0x7fff7fffu);
}

CONDITIONAL_TEST(memory, new_memory_is_not_zero, on_cpu())
{
    unsigned *data = NULL, host[64];
    cr_assert_eq(cudaMalloc((void **)&data, sizeof host), cudaSuccess);
    cr_assert_eq(cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < 64; i++)
        cr_assert_eq(host[i], 0xffffffffu);
}

/* ---------------------------------------------------------------------------------------------- */
/* Kernels that fail: the process lives, and the error stays (on the CPU until cudaDeviceReset) */

static void expect_failure(cudaError_t (*fail)(void), cudaError_t expected, const char *words[])
{
    int result = 0;
    cudaError_t error = fail();
    cr_expect_eq(error, expected, "%s: %s", cudaGetErrorName(error), backend_report());
    for (; *words; words++)
        report_says(*words);
    cr_expect_eq(cudaDeviceSynchronize(), expected, "the error is sticky");
    cr_expect_eq(run_harmless(&result), expected, "every call returns it");
    if (on_gpu())
        return; /* on a GPU only a new process clears the error */
    cr_expect_eq(cudaEventRecord((cudaEvent_t)&result, NULL), expected, "with what is no event");
    cr_expect_eq(cudaEventDestroy((cudaEvent_t)&result), expected);
    cr_expect_eq(cudaStreamDestroy((cudaStream_t)&result), expected);
    cr_expect_eq(cudaDeviceReset(), cudaSuccess);
    cr_expect_eq(run_harmless(&result), cudaSuccess, "the device works again");
    cr_expect_eq(result, 42);
}

#define FAILURE_TEST(name, condition, error, ...)                                                  \
    cudaError_t fail_##name(void);                                                                 \
    CONDITIONAL_TEST(failure, name, condition)                                                     \
    {                                                                                              \
        expect_failure(fail_##name, error, (const char *[]){__VA_ARGS__, NULL});                   \
    }

FAILURE_TEST(null_pointer, true, cudaErrorIllegalAddress, "write_to",
             "block (1,0,0), thread (3,0,0)")
FAILURE_TEST(past_the_end, true, cudaErrorIllegalAddress, "write_to",
             "block (1,0,0), thread (3,0,0)")
/* A GPU keeps freed memory mapped for the next allocation and reports nothing. */
FAILURE_TEST(after_free, on_cpu(), cudaErrorIllegalAddress, "write_to", "freed")
FAILURE_TEST(assertion, true, cudaErrorAssert, "assert_small", "(int)threadIdx.x < limit")
FAILURE_TEST(trap, true, cudaErrorLaunchFailure, "__trap", "thread (1,0,0)")
FAILURE_TEST(stack_overflow, on_cpu(), cudaErrorLaunchFailure, "stack overflow", "recurse")
FAILURE_TEST(barrier_that_some_threads_skip, on_cpu(), cudaErrorLaunchFailure, "barrier_some_skip",
             "16 wait at __syncthreads()", "16 wait at __shfl_sync()", "feature_error.cu")
FAILURE_TEST(two_barriers, on_cpu(), cudaErrorLaunchFailure, "two_barriers", "divergent barrier",
             "32 wait at __syncthreads()")
FAILURE_TEST(warp_operation_that_some_lanes_skip, on_cpu(), cudaErrorLaunchFailure,
             "7 wait at __shfl_sync()", "lanes 0xffffff80 are missing")
FAILURE_TEST(mask_without_the_caller, on_cpu(), cudaErrorLaunchFailure, "__shfl_sync()",
             "mask 0x0000ffff", "lane 16")
FAILURE_TEST(grid_sync_that_one_block_skips, on_cpu(), cudaErrorLaunchFailure, "grid.sync()",
             "3 of 4 blocks wait")

TEST(failure, nothing_follows)
{
    static const char *const orders[] = {"inorder", "overlap"};
    for (int i = 0; i < (on_cpu() ? 2 : 1); i++) {
        int happened = 0;
        setenv("SIMT_ORDER", orders[i], 1);
        cr_expect_eq(fail_and_go_on(&happened), cudaErrorIllegalAddress, "%s", backend_report());
        cr_expect_not(happened, "%s", orders[i]);
        if (on_cpu())
            cr_expect_eq(cudaDeviceReset(), cudaSuccess);
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* The environment */

enum { COUNT = 100 };

static void draw(cudaError_t (*draw_order)(int *, int), const char *order, int *drawn)
{
    setenv("SIMT_WORKERS", "1", 1);
    setenv("SIMT_ORDER", order, 1);
    cudaError_t error = draw_order(drawn, COUNT);
    cr_assert_eq(error, cudaSuccess, "%s: %s", cudaGetErrorName(error), backend_report());
}

static void expect_orders(cudaError_t (*draw_order)(int *, int))
{
    int drawn[COUNT], again[COUNT], seen[COUNT] = {0}, moved = 0;
    draw(draw_order, "inorder", drawn);
    for (int i = 0; i < COUNT; i++)
        cr_assert_eq(drawn[i], i);
    draw(draw_order, "reversed", drawn);
    for (int i = 0; i < COUNT; i++)
        cr_assert_eq(drawn[i], COUNT - 1 - i);
    draw(draw_order, "random:5", drawn);
    draw(draw_order, "random:6", again);
    for (int i = 0; i < COUNT; i++) {
        seen[drawn[i]]++;
        moved += drawn[i] != again[i];
    }
    for (int i = 0; i < COUNT; i++)
        cr_assert_eq(seen[i], 1);
    cr_assert(moved > COUNT / 4, "two seeds gave nearly the same order");
}

CALL_TEST(environment, order_of_blocks, if (on_cpu()) expect_orders(order_of_blocks))

/* Streams overlap as on a GPU: errors in what two launches share show, and what each has for itself
 * is safe. */
CONDITIONAL_TEST(environment, streams_overlap, on_cpu())
{
    cr_expect_eq(streams_that_count(1), 0, "without an overlap, sharing goes well");
    static const char *const orders[] = {"overlap", "overlap:2", "overlap:3"};
    for (int i = 0; i < 3; i++) {
        setenv("SIMT_ORDER", orders[i], 1);
        cr_expect_eq(streams_that_count(0), 0, "%s: %s", orders[i], backend_report());
        cr_expect_gt(streams_that_count(1), 0, "%s: sharing goes unnoticed", orders[i]);
    }
}

CALL_TEST(environment, order_of_threads, if (on_cpu()) expect_orders(order_of_threads))

/* Each worker has 1024 stacks. Their number must not depend on the system's limits. */
TEST(environment, workers)
{
    static const char *const workers[] = {"1", "2", "40", "64", "256", "1024"};
    int sums[COUNT];
    for (size_t i = 0; on_cpu() && i < sizeof workers / sizeof *workers; i++) {
        setenv("SIMT_WORKERS", workers[i], 1);
        cudaError_t error = exchange_in_blocks_of_1024(sums, COUNT);
        cr_assert_eq(error, cudaSuccess, "SIMT_WORKERS=%s: %s", workers[i], backend_report());
        for (int block = 0; block < COUNT; block++)
            cr_assert_eq(sums[block], 1024 * block + 1023 * 512, "SIMT_WORKERS=%s, block %d",
                         workers[i], block);
    }
}

static void expect_complaint(const char *variable, const char *value, const char *words)
{
    const dim3 one = shape(1, 1, 1);
    setenv(variable, value, 1);
    cr_expect_eq(launch_shape(one, one, 0), cudaErrorInvalidValue, "%s=%s", variable, value);
    report_says(words);
    unsetenv(variable);
    cr_expect_eq(launch_shape(one, one, 0), cudaSuccess);
}

CONDITIONAL_TEST(environment, bad_values, on_cpu())
{
    expect_complaint("SIMT_ORDER", "sideways", "must be inorder, reversed, random or random:SEED");
    expect_complaint("SIMT_ORDER", "random:x", "random:SEED");
    expect_complaint("SIMT_ORDER", "overlap:x", "overlap:SEED");
    expect_complaint("SIMT_FAIL_LAUNCH", "first", "the number of a launch");
    expect_complaint("SIMT_IGNORE", "deadlock", "must be race, race:KERNEL");
    expect_complaint("SIMT_IGNORE", "race:", "names 'race:'; it must be race, race:KERNEL");
    expect_complaint("SIMT_WORKERS", "0", "from 1 to 1024");
    expect_complaint("SIMT_WORKERS", "many", "from 1 to 1024");
    expect_complaint("SIMT_ARCH", "sm_80", "without the dot");
    expect_complaint("SIMT_ARCH", "90,", "with commas between");
    expect_complaint("SIMT_ARCH", "90,sm_75", "with commas between");
    expect_complaint("SIMT_FAIL_MAP", "one", "the number of a tensor map");
}

CONDITIONAL_TEST(environment, architecture, on_cpu())
{
    struct cudaDeviceProp properties;
    cr_expect_eq(backend_architecture(), 90);
    setenv("SIMT_ARCH", "75", 1);
    cr_expect_eq(backend_architecture(), 75);
    cr_expect_eq(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    cr_expect(properties.major == 7 && properties.minor == 5);
}

/* A kernel's shared memory is allowed on the current device alone. */
CONDITIONAL_TEST(environment, two_devices, on_cpu())
{
    struct cudaDeviceProp first, second;
    int count = 0, device = -1;
    setenv("SIMT_ARCH", "90,75", 1);
    cr_expect_eq(cudaGetDeviceCount(&count), cudaSuccess);
    cr_expect_eq(count, 2);
    cr_expect_eq(cudaSetDevice(2), cudaErrorInvalidDevice);
    report_says("there are 2 devices");
    cr_expect_eq(cudaSetDevice(1), cudaSuccess);
    cr_expect(cudaGetDevice(&device) == cudaSuccess && device == 1);
    cr_expect_eq(backend_architecture(), 75);
    cr_expect_eq(cudaGetDeviceProperties(&first, 0), cudaSuccess);
    cr_expect_eq(cudaGetDeviceProperties(&second, 1), cudaSuccess);
    cr_expect(first.major == 9 && first.multiProcessorCount == 8 && second.major == 7 &&
              second.multiProcessorCount == 4 &&
              first.sharedMemPerBlockOptin > second.sharedMemPerBlockOptin);
    cr_expect_eq(allow_dynamic_shared(100 << 10), cudaErrorInvalidValue);
    cudaGetLastError();
    cr_expect_eq(cudaSetDevice(0), cudaSuccess);
    cr_expect_eq(allow_dynamic_shared(100 << 10), cudaSuccess);
    cr_expect_eq(launch_shape(shape(1, 1, 1), shape(1, 1, 1), 100 << 10), cudaSuccess);
    cr_expect_eq(cudaSetDevice(1), cudaSuccess);
    cr_expect_eq(launch_shape(shape(1, 1, 1), shape(1, 1, 1), 60 << 10), cudaErrorInvalidValue);
    report_says("61440 bytes of dynamic shared memory");
    setenv("SIMT_ARCH", "80", 1);
    cr_expect_eq(backend_architecture(), 80, "the second device is no longer there");
}

/* The architecture says how much shared memory a block may ask for. */
CONDITIONAL_TEST(environment, shared_memory_of_architectures, on_cpu())
{
    static const struct {
        const char *architecture;
        int kilobytes;
    } most[] = {{"70", 96},  {"75", 64},   {"80", 163},  {"86", 99},   {"87", 163}, {"89", 99},
                {"90", 227}, {"100", 227}, {"103", 227}, {"110", 227}, {"120", 99}, {"121", 99}};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        const int bytes = most[i].kilobytes << 10;
        int attribute = 0;
        struct cudaDeviceProp properties;
        setenv("SIMT_ARCH", most[i].architecture, 1);
        cr_expect_eq(cudaDeviceGetAttribute(&attribute, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
                     cudaSuccess);
        cr_expect_eq(attribute, bytes, "sm_%s: %d", most[i].architecture, attribute);
        cr_expect_eq(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
        cr_expect_eq(properties.sharedMemPerBlockOptin, (size_t)bytes);
        cr_expect_eq(properties.sharedMemPerMultiprocessor,
                     (size_t)bytes + properties.reservedSharedMemPerBlock);
        cr_expect_eq(allow_dynamic_shared(bytes + 1), cudaErrorInvalidValue);
        report_says("a block has at most");
        cudaGetLastError();
        cr_expect_eq(allow_dynamic_shared(bytes), cudaSuccess);
        cr_expect_eq(launch_shape(shape(1, 1, 1), shape(1, 1, 1), (size_t)bytes), cudaSuccess);
    }
}

/* A child process has its parent's memory but none of its workers. */
CONDITIONAL_TEST(environment, fork, on_cpu())
{
    int result = 0;
    cr_assert_eq(run_harmless(&result), cudaSuccess);
    pid_t child = fork();
    if (child == 0)
        _exit(run_harmless(&result) == cudaSuccess && result == 42 ? 7 : 1);
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    cr_expect_eq(run_harmless(&result), cudaSuccess);
}

/* ---------------------------------------------------------------------------------------------- */
/* Programs as others might write them, compiled unchanged; the exit status says whether the result
 * is right */

TEST(programs, every_one)
{
    glob_t sources;
    cr_assert_eq(glob("tests/simt/programs/*.cu", 0, NULL, &sources), 0,
                 "run this from the repository's root");
    for (size_t i = 0; i < sources.gl_pathc; i++) {
        const char *name = strrchr(sources.gl_pathv[i], '/') + 1;
        char command[300];
        snprintf(command, sizeof command, "build/%s/tests/programs/%.*s >/dev/null", backend_name(),
                 (int)(strlen(name) - strlen(".cu")), name);
        int status = system(command);
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: exit status %d", command,
                  status);
    }
    cr_assert(sources.gl_pathc >= 14, "only %zu programs were found", sources.gl_pathc);
    globfree(&sources);
}

/* ---------------------------------------------------------------------------------------------- */
/* The compiler driver */

/* Runs a shell's script in a folder of its own, where the repository is at $root. It stops at the
 * first command that fails, and none may. Returns what it prints. */
static const char *run_script(const char *script)
{
    static char said[20000];
    char command[3000];
    snprintf(command, sizeof command,
             "set -e; root=$PWD; simtcc() { \"$root/common/simt/simtcc\" \"$@\"; }; "
             "work=$(mktemp -d); trap 'rm -rf \"$work\"' EXIT; cd \"$work\"; %s",
             script);
    cr_expect_eq(run_command(command, said, sizeof said), 0, "%.2000s", said);
    return said;
}

/* Each file of tests/simt/refused names in its first line what the compiler must say about it. */
CONDITIONAL_TEST(simtcc, says_what_it_does_not_support, on_cpu())
{
    glob_t sources;
    cr_assert_eq(glob("tests/simt/refused/*.cu", 0, NULL, &sources), 0,
                 "run this from the repository's root");
    cr_assert(sources.gl_pathc >= 11);
    for (size_t i = 0; i < sources.gl_pathc; i++) {
        char first[200] = "", command[300], said[20000];
        FILE *source = fopen(sources.gl_pathv[i], "r");
        cr_assert_not_null(source);
        cr_assert_not_null(fgets(first, sizeof first, source));
        fclose(source);
        first[strcspn(first, "\n")] = '\0';
        const char *words = first + strlen("// says: ");
        snprintf(command, sizeof command, "common/simt/simtcc -c %s -o /dev/null",
                 sources.gl_pathv[i]);
        cr_expect_eq(run_command(command, said, sizeof said), 1, "%s was accepted",
                     sources.gl_pathv[i]);
        expect_said(said, words);
        cr_expect(!strstr(said, "simt::") && !strstr(said, "<lambda"), "noise: %s", said);
        /* The message must be at its place, and only once. */
        const char *found = strstr(words, ".cu:") ? strstr(said, words) : NULL;
        cr_expect(!found || !strstr(found + 1, words), "%s: twice", words);
        /* There must be no message that only follows from it. */
        char *line = strstr(words, "supported by") ? strtok(said, "\n") : NULL;
        for (; line; line = strtok(NULL, "\n"))
            cr_expect(!strstr(line, "error:") || strstr(line, "supported by"), "%s: also says %s",
                      sources.gl_pathv[i], line);
    }
    globfree(&sources);
}

/* Options for the host's compiler also count when it links. An object may be called .obj, and a
 * CUDA file anything. */
CONDITIONAL_TEST(simtcc, host_options, on_cpu())
{
    run_script("printf '#include <omp.h>\nint main() { int n = 0;\n#pragma omp parallel "
               "reduction(+ : n)\nn += omp_get_num_threads() > 0;\nreturn n == 0; }' >omp.cu; "
               "simtcc -Xcompiler -fopenmp --default-stream per-thread -c omp.cu -o omp.obj; "
               "simtcc -Xcompiler -fopenmp omp.obj -o omp; ./omp; "
               "echo '__global__ void k() {} int main() { k<<<1, 1>>>(); }' >named.cpp; "
               "simtcc -std=c++11 -x cu named.cpp -o named; ./named");
}

/* The last bits are the same on every machine: by default g++ would fuse where the hardware can. */
CONDITIONAL_TEST(simtcc, products_are_not_fused_into_sums, on_cpu())
{
    run_script("echo '__global__ void sum(float *x) { *x = *x * 3 - 1; } int main() { float *x; "
               "cudaMallocManaged(&x, 4); *x = 1.0f / 3; sum<<<1, 1>>>(x); "
               "return cudaDeviceSynchronize() || *x != 0; }' >sum.cu; "
               "options=; grep -qw fma /proc/cpuinfo && options='-Xcompiler -mfma'; "
               "simtcc $options sum.cu -o sum; ./sum");
}

/* The message names the limit that keeps device memory away. */
CONDITIONAL_TEST(simtcc, little_address_space, on_cpu())
{
    const char *said = run_script(
        "echo 'int main() { void *p; return cudaMalloc(&p, 4) != cudaErrorMemoryAllocation; "
        "}' >little.cu; simtcc little.cu -o little; (ulimit -v 4000000; ./little)");
    expect_said(said, "ulimit -v");
}

/* A launch that waited for its turn and then finds no room for its stacks must fail, not wait
 * on. */
CONDITIONAL_TEST(simtcc, little_address_space_for_a_launch_put_off, on_cpu())
{
    run_script(
        "echo '__global__ void idle() {} int main() { cudaStream_t own; cudaStreamCreate(&own); "
        "cudaLaunchCooperativeKernel((const void *)idle, dim3(16), dim3(1024), 0, 0, own); "
        "cudaDeviceSynchronize(); return cudaGetLastError() != cudaErrorLaunchOutOfResources; }' "
        ">idle.cu; simtcc idle.cu -o idle; "
        "(ulimit -v 3000000; SIMT_ORDER=overlap timeout 20 ./idle)");
}

/* Compiles mistakes.cu and runs the script, in which ./fast and ./checked make a mistake. */
static const char *run_mistakes(const char *script)
{
    char all[1200];
    snprintf(all, sizeof all,
             "mkdir -p $root/build/tests; for build in fast checked; do "
             "made=$root/build/tests/$build; options=; [ $build = fast ] || options=--check; "
             "[ $made -nt $root/build/simt/libsimt.a ] && [ $made -nt $root/tests/simt/mistakes.cu "
             "] || simtcc $options $root/tests/simt/mistakes.cu -o $made; ln -s $made .; done; %s",
             script);
    return run_script(all);
}

/* README.md has a table of mistakes, with what each build says in backquotes, or nothing. */
CONDITIONAL_TEST(simtcc, says_what_the_table_of_mistakes_promises, on_cpu())
{
    int rows = 0;
    char line[400];
    FILE *page = fopen("common/simt/README.md", "r");
    cr_assert_not_null(page);
    while (fgets(line, sizeof line, page)) {
        int number = 0;
        if (sscanf(line, "| %d |", &number) != 1)
            continue;
        cr_expect_eq(number, ++rows);
        char cell[4][200] = {"", "", "", ""}; /* number, mistake, fast build, checked build */
        sscanf(line, "| %[^|] | %[^|] | %[^|] | %[^|\n]", cell[0], cell[1], cell[2], cell[3]);
        for (int build = 2; build < 4; build++) {
            char script[200], words[200];
            strcpy(words, cell[strncmp(cell[build], "the same", 8) == 0 ? 2 : build]);
            snprintf(script, sizeof script, "./%s %d || echo \"status $?\"",
                     build == 2 ? "fast" : "checked", number);
            const char *said = run_mistakes(script);
            if (strncmp(words, "nothing", 7) == 0)
                cr_expect_str_eq(said, "", "mistake %d", number);
            else
                cr_expect(words[0] == '`' && strstr(said, strtok(words + 1, "`")) &&
                              strstr(said, "status"),
                          "mistake %d: '%s' is not in: %s", number, words, said);
        }
    }
    fclose(page);
    cr_expect_eq(rows, 10);
}

/* A program that asks, or looks at what a call returns, knows of an error already. Its own status
 * comes first. */
CONDITIONAL_TEST(simtcc, tells_nothing_twice, on_cpu())
{
    static const struct {
        const char *command, *words; /* null where nothing may be said */
        int status;
    } cases[] = {
        {"./fast 1 ask", NULL, 0},
        {"./fast 1 look", "a block of 2048", 1},
        {"./fast 9 ask", NULL, 0},
        {"./fast 9 look", NULL, 0},
        {"./fast 11", "launched at", 86},
        {"./fast 1 abort", "a block of 2048", 134},
        {"SIMT_EXIT=0 ./fast 1", "a block of 2048", 0},
        {"SIMT_EXIT=7 ./fast 1", "a block of 2048", 7},
        {"SIMT_EXIT=256 ./fast 0", "SIMT_EXIT is '256'; it must be a number from 0 to 255", 86},
        {"SIMT_WORKERS=many ./fast 0", "SIMT_WORKERS is 'many'", 86},
        {"SIMT_FAIL_LAUNCH=0 ./fast 0", "SIMT_FAIL_LAUNCH is '0'", 86},
        {"./checked 1 ask", "0 reports", 0},
        {"./checked 9 ask", "1 report", 86},
        {"./checked 9 abort", "1 report", 134},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char script[300];
        snprintf(script, sizeof script, "code=0; (%s) || code=$?; [ $code -eq %d ]",
                 cases[i].command, cases[i].status);
        const char *said = run_mistakes(script);
        const char *found = cases[i].words ? strstr(said, cases[i].words) : NULL;
        if (cases[i].words)
            expect_said(said, cases[i].words);
        else
            cr_expect_str_eq(said, "", "%s", cases[i].command);
        cr_expect_not(found && strstr(found + 1, cases[i].words), "twice: %s", said);
    }
}

/* What is read is not written, and what does not compile leaves the file of before. */
CONDITIONAL_TEST(simtcc, loses_nothing, on_cpu())
{
    static const char *const refused[] = {"a.cu -o a.cu",        "-c a.cu -o a.cu",
                                          "-c a.cu --text a.cu", "-c a.cu -MMD -MF a.cu",
                                          "link.cu -o a.cu",     "a.o -o a.o"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char script[300];
        snprintf(script, sizeof script,
                 "echo 'int main() {}' >a.cu; cp a.cu kept; ln -s a.cu link.cu; touch a.o; "
                 "simtcc %s && exit 1; [ $? -eq 2 ]; cmp a.cu kept",
                 refused[i]);
        expect_said(run_script(script), "it is read, as");
    }
    run_script("echo 'int main() {' >a.cu; for kept in a.out a.o a.d; do echo kept >$kept; done; "
               "simtcc a.cu && exit 1; simtcc -c a.cu -MMD && exit 1; "
               "for kept in a.out a.o a.d; do grep -q kept $kept; done; [ $(ls | wc -l) -eq 4 ]; "
               "echo 'int main() {}' >a.cu; simtcc a.cu; ./a.out; simtcc -c a.cu -o /dev/null; "
               "[ -c /dev/null ]");
}

/* A program may bring a stub for a library that is not installed. */
CONDITIONAL_TEST(simtcc, headers_of_ones_own, on_cpu())
{
    run_script("echo 'typedef int cublasHandle_t;' >cublas_v2.h; "
               "printf '#include <cublas_v2.h>\\ncublasHandle_t handle;\\n' >own.cu; "
               "simtcc -I . -c own.cu -o /dev/null");
}

/* The backend's headers use no names that a program may define as macros. */
CONDITIONAL_TEST(simtcc, macros_of_programs, on_cpu())
{
    run_script("printf '#include <%s>\\n' cooperative_groups.h cooperative_groups/scan.h "
               "cuda/pipeline cuda/atomic cuda_pipeline.h cuda_fp16.h cuda_bf16.h mma.h "
               "cuComplex.h math_constants.h >all.cu; simtcc "
               "-DA=1 -DB=1 -DC=1 -DD=1 -DE=1 -DF=1 -DG=1 -DH=1 -DI=1 -DJ=1 -DK=1 -DL=1 "
               "-DM=1 -DN=1 -DO=1 -DP=1 -DQ=1 -DR=1 -DS=1 -DU=1 -DV=1 -DW=1 -DX=1 -DY=1 "
               "-DZ=1 -DTILE=1 -DSIZE=1 -DPAD=1 -c all.cu -o /dev/null");
}

/* In CUDA 13 a struct says where managed memory is to lie. */
CONDITIONAL_TEST(simtcc, memory_locations, on_cpu())
{
    run_script(
        "echo '__managed__ int cell; int main() { cudaMemLocation here = "
        "{cudaMemLocationTypeDevice, 0}; cell = 3; return cudaMemPrefetchAsync(&cell, 4, here, "
        "0, 0) || cudaMemAdvise(&cell, 4, cudaMemAdviseSetPreferredLocation, here) || "
        "cudaMemAdvise(&cell, 4, cudaMemAdviseSetAccessedBy, 0) || cell != 3; }' >prefetch.cu; "
        "simtcc prefetch.cu -o prefetch; ./prefetch");
}

/* In the fast build, too, a kernel that waits for what new memory happens to hold is told so. */
CONDITIONAL_TEST(simtcc, tells_of_a_spin_on_new_memory, on_cpu())
{
    const char *said = run_script(
        "echo '__global__ void take(int *lock) { while (atomicCAS(lock, 0, 1) != 0) ; } int main() "
        "{ "
        "int *lock; cudaMalloc(&lock, 4); take<<<2, 64>>>(lock); cudaDeviceSynchronize(); }' "
        ">spin.cu; simtcc spin.cu -o spin; timeout 60 ./spin || [ $? -eq 86 ]");
    expect_said(said, "waits for memory that was never written");
}

/* Each file has a __device__ variable of its own, as with nvcc, unless code is relocatable. */
CONDITIONAL_TEST(simtcc, variables_of_one_name, on_cpu())
{
    run_script(
        "echo 'struct S { int a; friend bool operator==(S, S); }; __device__ bool operator==(S x, "
        "S "
        "y) { return x.a == y.a; } __device__ struct S s; __device__ int n = 5; namespace m { "
        "__constant__ int n[2] = {1, 2}; } void other(int *); __global__ void k(int *p) { *p = n + "
        "m::n[1]; } int main() { int *p; cudaMallocManaged(&p, 8); k<<<1, 1>>>(p); other(p + 1); "
        "cudaDeviceSynchronize(); return p[0] != 7 || p[1] != 70; }' >one.cu; echo 'struct S { int "
        "a; }; __device__ struct S s; __device__ int n = 70; __global__ void l(int *p) { *p = n; } "
        "void other(int *p) { l<<<1, 1>>>(p); }' >other.cu; simtcc one.cu other.cu -o own; ./own; "
        "echo 'extern __device__ int n; __global__ void l(int *p) { *p = n + 65; } void other(int "
        "*p) { l<<<1, 1>>>(p); }' >other.cu; simtcc -rdc=true one.cu other.cu -o shared; ./shared");
}

/* nvcc takes it, with a warning. */
CONDITIONAL_TEST(simtcc, main_may_return_nothing, on_cpu())
{
    run_script(
        "echo 'void g() { return; } struct A { void m() { return; } }; int main(int argc, char "
        "**) { struct B { void m() { return; } }; auto f = [&](int x) mutable -> void { if (x) "
        "{ return; } return; }; f(argc); g(); A().m(); B().m(); for (;;) if (argc == 1) { "
        "return; } return; }' >nothing.cu; simtcc nothing.cu -o nothing; ./nothing");
}

CONDITIONAL_TEST(simtcc, bad_command_lines, on_cpu())
{
    static const struct {
        const char *arguments, *words;
    } cases[] = {
        {"", "no input files"},
        {"nosuch.cu", "no such file: nosuch.cu"},
        {"--frobnicate", "unknown option --frobnicate"},
        {"-o", "-o needs an argument"},
        {"-arch=potato tests/simt/programs/julia.cu", "what architecture is 'potato'"},
        {"tests/simt/programs/julia.cu -lcublas", "libcublas is not supported"},
        {"-c tests/simt/programs/julia.cu tests/simt/programs/atomics.cu -o x.o",
         "-c with -o takes one file"},
        {"tests/simt/programs/julia.cu -o ''", "-o needs the name of a file"},
        {"tests/simt/programs/julia.cu -o tests", "it is a folder"},
        {"tests/simt/programs/julia.cu -o nosuch/x", "there is no folder nosuch"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[300], said[2000];
        snprintf(command, sizeof command, "common/simt/simtcc %s", cases[i].arguments);
        cr_expect_eq(run_command(command, said, sizeof said), 2, "%s", command);
        expect_said(said, cases[i].words);
    }
}

/* A room of the backend includes and calls only what is in itself or below. */
CONDITIONAL_TEST(rooms, arrows_point_down, on_cpu())
{
    run_script("\"$root/tests/simt/rooms\"");
}

/* simtcc works from another folder, through a symbolic link, with a blank in the names. The
 * dependencies name the real files. */
CONDITIONAL_TEST(simtcc, other_folders, on_cpu())
{
    const char *said = run_script(
        "ln -s \"$root/common/simt/simtcc\" nvcc; mkdir 'a b'; "
        "cp \"$root\"/tests/simt/programs/spelling.cu* 'a b'; "
        "./nvcc 'a b/spelling.cu' -o 'a b/run' -arch=sm_80 -O3 --use_fast_math -Xcompiler -Wall; "
        "'a b/run'; "
        "cp \"$root\"/tests/simt/programs/spelling.cu* .; "
        "./nvcc -c spelling.cu -MMD -MP -MF spelling.d -o spelling.o; "
        "grep -q '^spelling.o: spelling.cu' spelling.d; grep -q 'spelling.cuh' spelling.d; "
        "if grep 'build/' spelling.d; then exit 1; fi; ls");
    expect_said(said, " ok");
}
