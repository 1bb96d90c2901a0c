/*
 * These test the checked build: its counters against closed formulas, each error that it must
 * report, and correct programs on which it must stay silent. In the other builds there is nothing
 * to test, and the tests say so.
 */
#include "check_kernels.h"
#include "counted.h"
#include "said.h"

static bool checked(void)
{
    if (strcmp(backend_name(), "check") == 0)
        return true;
    fprintf(stderr,
            "skipped: this is the %s build, and only the checked build counts and reports\n",
            backend_name());
    return false;
}

static void report_says(const char *words)
{
    expect_said(backend_report(), words);
}

/* Errors stick until the device is reset. */
static void reset_device(void)
{
    cr_expect_eq(cudaDeviceReset(), cudaSuccess);
    cudaGetLastError();
}

/* Returns CHECK_INTS zeros on the device. */
static int *zeros(void)
{
    int *data = NULL;
    cr_assert_eq(cudaMalloc((void **)&data, CHECK_INTS * sizeof *data), cudaSuccess);
    cr_assert_eq(cudaMemset(data, 0, CHECK_INTS * sizeof *data), cudaSuccess);
    return data;
}

/* ---- counters ---- */

CONDITIONAL_TEST(counters, naive_matmul, checked())
{
    enum { N = 64 };
    float *data = (float *)zeros();
    struct counters c = counted(count_naive_matmul(data, data + N * N, data + 2 * N * N, N));
    EXPECT(c, launches, 1);
    EXPECT(c, global_loads, 2 * N * N * N);
    EXPECT(c, global_load_bytes, 4 * 2 * N * N * N);
    EXPECT(c, global_load_requests, 2 * N * N * N / 32);
    /* A warp's 32 columns take one element of A for all lanes, and four sectors of B. */
    EXPECT(c, global_load_sectors, (1 + 4) * N * N * N / 32);
    EXPECT(c, global_stores, N * N);
    EXPECT(c, global_store_bytes, 4 * N * N);
    EXPECT(c, global_store_requests, N * N / 32);
    EXPECT(c, global_store_sectors, 4 * N * N / 32);
    EXPECT(c, shared_loads, 0);
    EXPECT(c, shared_stores, 0);
    EXPECT(c, barriers, 0);
    EXPECT(c, atomics, 0);
}

CONDITIONAL_TEST(counters, tiled_matmul, checked())
{
    enum { N = 64, T = 16 };
    float *data = (float *)zeros();
    struct counters c = counted(count_tiled_matmul(data, data + N * N, data + 2 * N * N, N));
    EXPECT(c, global_loads, 2 * N * N * N / T);
    EXPECT(c, global_stores, N * N);
    EXPECT(c, shared_loads, 2 * N * N * N);
    EXPECT(c, shared_stores, 2 * N * N * N / T);
    EXPECT(c, barriers, 2 * (N / T) * (N / T) * (N / T));
    /* A warp has two rows of 16 columns. There are no bank conflicts, so no request needs more than
     * one pass. */
    EXPECT(c, shared_wavefronts, (2 * N * N * N + 2 * N * N * N / T) / 32);
    EXPECT(c, shared_wavefronts_ideal, c.shared_wavefronts);
    EXPECT(c, global_load_sectors, 4 * 2 * N * N * N / T / 32);
}

/* The counts depend only on the program, not on the order of its threads and blocks. */
CONDITIONAL_TEST(counters, do_not_depend_on_order, checked())
{
    enum { N = 64 };
    static const char *const orders[] = {"inorder", "reversed", "random:1", "random:2"};
    static const char *const workers[] = {"1", "2", "5", "3"};
    float *data = (float *)zeros();
    struct counters first = {0};
    for (int i = 0; i < 4; i++) {
        setenv("SIMT_ORDER", orders[i], 1);
        setenv("SIMT_WORKERS", workers[i], 1);
        struct counters c = counted(count_tiled_matmul(data, data + N * N, data + 2 * N * N, N));
        if (i == 0)
            first = c;
        cr_expect_eq(memcmp(&c, &first, sizeof c), 0,
                     "SIMT_ORDER=%s SIMT_WORKERS=%s counts differently", orders[i], workers[i]);
    }
}

CONDITIONAL_TEST(counters, sectors_of_loads, checked())
{
    static const struct {
        int threads, stride, offset, requests, sectors;
    } cases[] = {
        {32, 1, 0, 1, 4},   {32, 1, 1, 1, 5},      {32, 1, 8, 1, 4}, {32, 2, 0, 1, 8},
        {32, 8, 0, 1, 32},  {32, 100, 0, 1, 32},   {32, 0, 0, 1, 1}, {1, 1, 0, 1, 1},
        {8, 1, 0, 1, 1},    {9, 1, 0, 1, 2},       {33, 1, 0, 2, 5}, {64, 8, 0, 2, 64},
        {100, 1, 0, 4, 13}, {1024, 1, 0, 32, 128},
    };
    float *data = (float *)zeros();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct counters c = counted(count_strided_loads(data, data + 60000, cases[i].threads,
                                                        cases[i].stride, cases[i].offset));
        cr_expect(
            c.global_load_requests == (unsigned)cases[i].requests &&
                c.global_load_sectors == (unsigned)cases[i].sectors,
            "%d threads, stride %d, offset %d: %llu requests and %llu sectors, expected %d and %d",
            cases[i].threads, cases[i].stride, cases[i].offset, c.global_load_requests,
            c.global_load_sectors, cases[i].requests, cases[i].sectors);
        EXPECT(c, global_loads, cases[i].threads);
        EXPECT(c, global_stores, cases[i].threads);
    }
}

CONDITIONAL_TEST(counters, sectors_of_stores, checked())
{
    float *data = (float *)zeros();
    struct counters c = counted(count_strided_stores(data, 32, 1, 0));
    EXPECT(c, global_store_sectors, 4);
    c = counted(count_strided_stores(data, 32, 8, 0));
    EXPECT(c, global_store_sectors, 32);
    EXPECT(c, global_store_requests, 1);
    EXPECT(c, global_stores, 32);
    EXPECT(c, global_loads, 0);
}

CONDITIONAL_TEST(counters, one_load_whatever_its_width, checked())
{
    float *data = (float *)zeros();
    for (int width = 2; width <= 4; width += 2) {
        struct counters c = counted(count_wide_loads(data, data + 1024, width));
        EXPECT(c, global_loads, 32);
        EXPECT(c, global_load_bytes, 32 * 4 * width);
        EXPECT(c, global_load_requests, 1);
        EXPECT(c, global_load_sectors, 4 * width);
    }
    struct counters c =
        counted(count_half_loads((unsigned short *)data, (unsigned short *)data + 1024));
    EXPECT(c, global_loads, 32);
    EXPECT(c, global_load_bytes, 64);
    EXPECT(c, global_load_sectors, 2);
    EXPECT(c, global_store_sectors, 2);
}

CONDITIONAL_TEST(counters, bank_conflicts, checked())
{
    float *data = (float *)zeros();
    struct counters by_row = counted(count_pitch(data, 32, 0));
    struct counters by_column = counted(count_pitch(data, 32, 1));
    struct counters padded = counted(count_pitch(data, 33, 1));
    EXPECT(by_row, shared_wavefronts, 64);
    EXPECT(by_row, shared_wavefronts_ideal, 64);
    EXPECT(by_column, shared_wavefronts, 32 + 32 * 32);
    EXPECT(by_column, shared_wavefronts_ideal, 64);
    EXPECT(padded, shared_wavefronts, 64);
    EXPECT(padded, shared_loads, 1024);
    EXPECT(padded, shared_stores, 1024);
}

CONDITIONAL_TEST(counters, wavefronts_by_stride, checked())
{
    static const int strides[][2] = {{0, 1}, {1, 1},   {2, 2},   {3, 1}, {4, 4},
                                     {8, 8}, {16, 16}, {32, 32}, {33, 1}};
    float *data = (float *)zeros();
    for (size_t i = 1; i < sizeof strides / sizeof *strides; i++) {
        struct counters c = counted(count_shared_stride(data, strides[i][0]));
        cr_expect_eq(c.shared_wavefronts, 2ull * (unsigned)strides[i][1],
                     "stride %d: %llu wavefronts, expected %d twice", strides[i][0],
                     c.shared_wavefronts, strides[i][1]);
        EXPECT(c, shared_wavefronts_ideal, 2);
    }
}

CONDITIONAL_TEST(counters, wide_shared_accesses, checked())
{
    float *data = (float *)zeros();
    for (int width = 1; width <= 4; width *= 2) {
        struct counters c = counted(count_shared_width(data, width));
        EXPECT(c, shared_loads, 32);
        EXPECT(c, shared_stores, 32);
        /* One wavefront serves half a warp at 8 bytes a lane, a quarter at 16. */
        EXPECT(c, shared_wavefronts, 2 * width);
        EXPECT(c, shared_wavefronts_ideal, 2 * width);
    }
}

CONDITIONAL_TEST(counters, broadcast_is_free, checked())
{
    struct counters c = counted(count_broadcast((float *)zeros()));
    EXPECT(c, shared_stores, 1);
    EXPECT(c, shared_loads, 32);
    EXPECT(c, shared_wavefronts, 2);
    EXPECT(c, shared_wavefronts_ideal, 2);
}

/* The k-th execution by each lane is one request, counted from where the warp last converged. */
CONDITIONAL_TEST(counters, lanes_that_part, checked())
{
    float *data = (float *)zeros();
    struct counters apart = counted(count_uneven_loops(data, data + 1024, 0));
    struct counters together = counted(count_uneven_loops(data, data + 1024, 1));
    EXPECT(apart, global_loads, 2 * (8 * 1 + 8 * 2 + 8 * 3 + 8 * 4));
    EXPECT(together, global_loads, apart.global_loads);
    EXPECT(apart, global_load_requests, 8);
    EXPECT(together, global_load_requests, 8);
    /* Where the warp meets, each round loads rows 0 to 3, 4 sectors each (every lane of 4
     * neighbours is in the first, ...). */
    EXPECT(together, global_load_sectors, 2 * 4 * 4);
}

CONDITIONAL_TEST(counters, barriers_and_atomics, checked())
{
    struct counters c = counted(count_barriers(zeros(), 7, 5));
    EXPECT(c, barriers, 7 * 5);
    c = counted(count_atomics(zeros(), 6));
    EXPECT(c, atomics, 6 * 64 + 6);
    EXPECT(c, barriers, 6 * 2);
    EXPECT(c, global_stores, 0);
    EXPECT(c, shared_stores, 6);
}

/* Eight multiprocessors run 20 blocks in three waves. */
CONDITIONAL_TEST(counters, grid, checked())
{
    struct counters c = counted(count_barriers(zeros(), 1, 20));
    EXPECT(c, blocks, 20);
    EXPECT(c, threads, 20 * 96);
    EXPECT(c, wave_accesses, 3 * 96);
}

CONDITIONAL_TEST(counters, under_way, checked())
{
    static const char *const orders[] = {"inorder", "reversed", "random:1"};
    float *data = (float *)zeros();
    for (int i = 0; i < 3; i++) {
        setenv("SIMT_ORDER", orders[i], 1);
        struct counters c = counted(count_loads_ahead(data, data + 1024, 0));
        EXPECT(c, loads_ahead, 0);
        c = counted(count_loads_ahead(data, data + 1024, 1));
        EXPECT(c, loads_ahead, 32);
        EXPECT(c, copies_ahead, 0);
        c = counted(count_copies(data, data + 1024, 2));
        EXPECT(c, copies_in_flight, 64);
        EXPECT(c, copies_ahead, 64);
        EXPECT(c, loads_ahead, 0);
        c = counted(count_copies(data, data + 1024, 0));
        EXPECT(c, copies_in_flight, 0);
        EXPECT(c, copies_ahead, 0);
    }
}

/* A wait counts as one load, however often the thread polls. */
CONDITIONAL_TEST(counters, waiting_is_one_load, checked())
{
    static const char *const orders[] = {"inorder", "reversed", "random:1"};
    for (int i = 0; i < 3; i++) {
        setenv("SIMT_ORDER", orders[i], 1);
        struct counters c = counted(count_waiting(zeros(), 6));
        EXPECT(c, global_loads, 6);
        EXPECT(c, global_load_requests, 6);
        EXPECT(c, global_stores, 7);
    }
}

CONDITIONAL_TEST(counters, sum_until_reset, checked())
{
    int *data = zeros();
    for (int i = 0; i < 3; i++)
        cr_assert_eq(count_barriers(data, 2, 1), cudaSuccess);
    struct counters c = counted(cudaSuccess);
    EXPECT(c, launches, 3);
    EXPECT(c, barriers, 6);
    cr_assert(backend_counters(&c));
    EXPECT(c, launches, 0);
    EXPECT(c, barriers, 0);
}

/* ---- reports ---- */

static const struct check_case *find(const struct check_case *cases, const char *name)
{
    while (cases->name && strcmp(cases->name, name) != 0)
        cases++;
    cr_assert_not_null(cases->name, "there is no kernel %s", name);
    return cases;
}

/* Returns the line of tests/simt/check_broken.cu that has this mark. */
static int marked_line(const char *mark)
{
    char line[400];
    FILE *file = fopen("tests/simt/check_broken.cu", "r");
    cr_assert_not_null(file, "tests run in the project's root");
    int number = 0, found = 0;
    while (!found && fgets(line, sizeof line, file)) {
        number++;
        char *at = strstr(line, "MARK ");
        size_t length = strlen(mark);
        if (at && strncmp(at + 5, mark, length) == 0 && at[5 + length] == ' ')
            found = number;
    }
    fclose(file);
    cr_assert(found, "no line is marked %s", mark);
    return found;
}

/* The report must contain each of `says`; "@mark" stands for the marked line with its file, "#mark"
 * for the barrier or the wait "at line 12". */
static void expect_report(const char *name, cudaError_t expected, const char *const *says)
{
    int *data = zeros();
    cudaError_t error = find(broken_programs, name)->run(data);
    char report[2000];
    snprintf(report, sizeof report, "%s", backend_report());
    cr_expect_eq(error, expected, "%s: %s (%s), expected %s", name, cudaGetErrorName(error), report,
                 cudaGetErrorName(expected));
    cr_expect_null(strchr(report, '\n'), "%s: the report has more than one line", name);
    for (; *says; says++) {
        char place[200];
        const bool marked = (*says)[0] == '@' || (*says)[0] == '#';
        snprintf(place, sizeof place, (*says)[0] == '@' ? "check_broken.cu:%d" : "at line %d ",
                 marked ? marked_line(*says + 1) : 0);
        const char *wanted = marked ? place : *says;
        cr_expect_not_null(strstr(report, wanted), "%s: '%s' is not in the report: %s", name,
                           wanted, report);
    }
    /* The error must stick until the device is reset; then everything must work again. */
    cr_expect_eq(cudaMalloc((void **)&data, 4), expected, "%s: the error does not stick", name);
    reset_device();
    cr_expect_eq(count_barriers(zeros(), 1, 1), cudaSuccess, "%s: nothing works after it", name);
}

/* Expects this report of a kernel, by the error that it leaves. */
#define EXPECT_REPORT(error, name, ...)                                                            \
    TEST(reports, name)                                                                            \
    {                                                                                              \
        static const char *const says[] = {__VA_ARGS__, NULL};                                     \
        if (checked())                                                                             \
            expect_report(#name, error, says);                                                     \
    }
#define REPORT_TEST(name, ...) EXPECT_REPORT(cudaErrorLaunchFailure, name, __VA_ARGS__)
#define ADDRESS_TEST(name, ...) EXPECT_REPORT(cudaErrorIllegalAddress, name, __VA_ARGS__)
#define MISALIGNED_TEST(name, ...) EXPECT_REPORT(cudaErrorMisalignedAddress, name, __VA_ARGS__)

ADDRESS_TEST(load_past_end, "reads 4 bytes", "@load_past_end", "just past the end", "262144 bytes",
             "the kernel's data", "kernel load_past_end, block (0,0,0), thread (1,0,0)")
ADDRESS_TEST(past_described, "@load_past_described", "just past the end of V (256 bytes)")
REPORT_TEST(race_on_described, "race on global memory (element 3 of V)", "@store_into_described")
ADDRESS_TEST(store_before_start, "writes 4 bytes", "@store_before_start",
             "4 bytes before the start")
ADDRESS_TEST(wild_address, "out of bounds", "bytes past the end")
ADDRESS_TEST(use_after_free, "use after free", "@store_one", "256 bytes")
ADDRESS_TEST(null_pointer, "null pointer", "@store_one")
ADDRESS_TEST(host_pointer, "host pointer in a kernel", "@store_one", "cudaMalloc")
REPORT_TEST(dynamic_past_end, "just past the end of the 256 bytes of dynamic shared memory",
            "@store_dynamic")
REPORT_TEST(dynamic_none, "the launch asked for none", "@store_dynamic")
REPORT_TEST(static_index, "index 32 of an array of type 'int [32]'", "@store_static")
REPORT_TEST(past_static, "just past the end of the shared variable s (148 bytes)", "@past_static")
ADDRESS_TEST(copy_too_much, "just past the end of", "@copy_too_much")
MISALIGNED_TEST(misaligned, "float4", "4 bytes past a multiple of 16", "@load_misaligned")
MISALIGNED_TEST(misaligned_dynamic, "float4", "12 bytes past a multiple of 16", "@store_behind_odd")
REPORT_TEST(no_barrier, "race on shared memory (s, byte", "@no_barrier_write", "@no_barrier_read",
            "__syncthreads() is missing between")
REPORT_TEST(late_barrier, "@late_barrier_write", "@late_barrier_read", "#late_barrier",
            "stands in the wrong place: it must come between line")
REPORT_TEST(early_barrier, "@early_barrier_write", "@early_barrier_read", "#early_barrier",
            "stands in the wrong place: it must come between line")
REPORT_TEST(barriers_side_by_side, "@side_by_side_write", "@side_by_side_read", "#side_by_side",
            "stands in the wrong place: it must come after line", "comes round again")
REPORT_TEST(needed_barrier, "@needed_barrier_write", "@needed_barrier_read",
            "a __syncthreads() is missing between line")
REPORT_TEST(late_copy_wait, "@late_copy_wait_read", "#late_copy_wait", "must come before it")
REPORT_TEST(barrier_before_wait, "@barrier_before_wait_read", "#barrier_before_wait",
            "it must come after the wait at line")
REPORT_TEST(wait_for_another, "#wait_for_another", "is not for this copy")
REPORT_TEST(no_second_barrier, "race on shared memory", "@no_second_barrier_write",
            "@no_second_barrier_read", "__syncthreads() is missing after", "comes round again")
REPORT_TEST(no_syncwarp, "race on shared memory", "@no_syncwarp", "__syncwarp() or __syncthreads()")
REPORT_TEST(volatile_warp, "race on shared memory", "@volatile_warp", "volatile")
REPORT_TEST(shuffle_instead_of_barrier, "race on shared memory", "__syncwarp()")
REPORT_TEST(half_a_warp, "race on shared memory", "__syncwarp()")
REPORT_TEST(same_place, "race on shared memory (winner", "@same_place", "different values")
REPORT_TEST(same_struct, "race on shared memory (winner, byte 0 of 28)", "@same_struct",
            "different values")
REPORT_TEST(neighbouring_bytes, "race on shared memory (s, byte 1 of 64)")
REPORT_TEST(global_in_block, "race on global memory", "@global_in_block_write",
            "@global_in_block_read", "__syncthreads() is missing")
REPORT_TEST(sum_without_atomic, "race on global memory (element 0 of data)", "@sum_without_atomic",
            "atomic operation")
REPORT_TEST(shift_left, "race on global memory", "@shift_left_read", "@shift_left_write",
            "nothing orders the blocks")
REPORT_TEST(atomic_and_plain, "race on global memory", "@atomic_side", "@plain_side",
            "make the other access atomic too")
REPORT_TEST(swap_and_plain, "race on global memory (element 0 of data)", "@store_side")
REPORT_TEST(last_block_of_atomics, "race on global memory (element", "@sum_side", "@total_side",
            "if the operation at", "@count_side", "a __threadfence() of block")
ADDRESS_TEST(use_freed_heap, "use after free", "@use_freed_heap")
REPORT_TEST(free_twice, "free or delete", "kernel free_twice")
REPORT_TEST(no_first_barrier, "race on shared memory", "@no_first_barrier_write",
            "@no_first_barrier_read", "__syncthreads() is missing between line")
REPORT_TEST(no_last_barrier, "race on shared memory", "@no_last_barrier_write",
            "@no_last_barrier_read", "__syncthreads() is missing after", "comes round again")
REPORT_TEST(warps_at_two_barriers, "divergent barrier", "@barrier_of_first_warp",
            "@barrier_of_second_warp")
REPORT_TEST(one_lane_returns, "names lanes which have returned",
            "lanes 0x00000002 have returned, lanes 0xfffffffc are on their way",
            "@one_lane_returns")
REPORT_TEST(element_of_argument, "race on global memory (element 441 of B)", "@element_of_argument",
            "SIMT_IGNORE=race:element_of_argument lets it pass")
REPORT_TEST(arrives_without_waiting, "race on shared memory (s, byte", "@arrives_write",
            "@arrives_read")
REPORT_TEST(last_block_without_fence, "race on global memory", "@partial_write", "@partial_read",
            "__threadfence()")
REPORT_TEST(turn_without_fence, "race on global memory", "@turn_without_fence",
            "is done, but a __threadfence() or a barrier is missing between")
REPORT_TEST(early_return, "__syncthreads()", "@early_return")
REPORT_TEST(barrier_for_some, "__syncthreads()", "@barrier_for_some")
REPORT_TEST(shuffle_for_some, "__shfl_down_sync()", "@shuffle_for_some")
REPORT_TEST(uninitialised_static, "uninitialised shared memory (s, byte 0 of 128)",
            "@uninitialised_static")
REPORT_TEST(uninitialised_dynamic, "uninitialised shared memory (byte 0 of the dynamic",
            "@uninitialised_dynamic")
REPORT_TEST(uninitialised_counter, "uninitialised shared memory (count", "@uninitialised_counter")
REPORT_TEST(new_memory, "uninitialised global memory (element 32 of sums): reads 4 bytes",
            "@sum_in_new_memory", "that neither a kernel nor the host has written",
            "thread (32,0,0)")
REPORT_TEST(new_counter, "uninitialised global memory", "@count_in_new_memory")
REPORT_TEST(left_behind, "uninitialised shared memory", "block (1,0,0)")

REPORT_TEST(cluster_relaxed, "race on global memory", "@cluster_relaxed_write",
            "@cluster_relaxed_read", "block (0,0,0)", "block (1,0,0)", "cluster_wait()")
REPORT_TEST(cluster_block_barrier, "race on shared memory (box, byte", "@cluster_push",
            "@cluster_pull", "of block (1,0,0)", "cluster_wait()")

/* backend_report() gives the first failure, whatever is tried after it. */
CONDITIONAL_TEST(reports, first_is_kept, checked())
{
    int *data = zeros();
    find(broken_programs, "no_barrier")->run(data);
    find(broken_programs, "shift_left")->run(data);
    report_says("kernel no_barrier");
    reset_device();
    cr_expect_str_empty(backend_report());
}

/* A report that is known to be harmless can be ignored, by kind and kernel. Others stay. */
CONDITIONAL_TEST(reports, are_let_pass_by_asking, checked())
{
    setenv("SIMT_IGNORE", "race:shift_left,race:no_barrier", 1);
    cr_expect_eq(find(broken_programs, "shift_left")->run(zeros()), cudaSuccess, "%s",
                 backend_report());
    cr_expect_eq(find(broken_programs, "same_place")->run(zeros()), cudaErrorLaunchFailure);
    report_says("SIMT_IGNORE=race:same_place lets it pass");
    reset_device();
    setenv("SIMT_IGNORE", "uninitialised:uninitialised_dynamic", 1);
    cr_expect_eq(find(broken_programs, "uninitialised_dynamic")->run(zeros()), cudaSuccess, "%s",
                 backend_report());
    setenv("SIMT_IGNORE", "everything", 1);
    cr_expect_eq(find(broken_programs, "shift_left")->run(zeros()), cudaErrorInvalidValue);
    report_says("SIMT_IGNORE names 'everything'");
}

CONDITIONAL_TEST(reports, host_reads_device, checked())
{
    char said[2000], place[100];
    follow_on_host(host_reads_device, zeros(), said, sizeof said);
    snprintf(place, sizeof place, "check_broken.cu:%d", marked_line("host_reads_device"));
    expect_said(said, place);
    expect_said(said, "device pointer on the host");
}

/* Whether a fault is found does not depend on the order. The thread that it is reported for
 * does. */
CONDITIONAL_TEST(reports, in_every_order, checked())
{
    static const char *const orders[] = {"reversed", "random:1", "random:2", "random:3"};
    for (const struct check_case *each = broken_programs; each->name; each++)
        for (int i = 0; i < 4; i++) {
            setenv("SIMT_ORDER", orders[i], 1);
            cudaError_t error = each->run(zeros());
            cr_expect_neq(error, cudaSuccess, "%s is not caught with SIMT_ORDER=%s", each->name,
                          orders[i]);
            reset_device();
        }
}

/* -------------------------------------------------------------------------------------- fenced
 * buffers */

CONDITIONAL_TEST(fences, are_off_limits, checked())
{
    int *data = zeros();
    backend_fence(data, 1024 * sizeof *data);
    backend_fence(data + 2048, (CHECK_INTS - 2048) * sizeof *data);
    float *inside = (float *)data + 1024;
    cr_expect_eq(count_strided_stores(inside, 1024, 1, 0), cudaSuccess, "%s", backend_report());
    cr_expect_eq(count_strided_stores(inside, 1024, 1, 1), cudaErrorIllegalAddress);
    report_says("just past the end of out (4096 bytes)");
}

/* -------------------------------------------------------------------------------------- simtcc
 * --check */

static void expect_output(const char *command, const char *const *says)
{
    static char said[20000];
    cr_assert_eq(run_command(command, said, sizeof said), 0, "%s: %.500s", command, said);
    for (; *says; says++)
        expect_said(said, *says);
}

CONDITIONAL_TEST(programs, print_reports_and_counters_at_exit, checked())
{
    static char said[20000];
    /* Places in files whose names have a space are given whole, too. */
    const char *compile =
        "cp tests/simt/reported_program.cu 'build/check/tests/reported program.cu' && "
        "common/simt/simtcc --check 'build/check/tests/reported program.cu' "
        "-o build/check/tests/reported_program";
    cr_assert_eq(run_command(compile, said, sizeof said), 0);
    cr_expect_str_empty(said, "simtcc says: %s", said);
    static const char *const output[] = {
        "cudaSuccess\ncudaErrorLaunchFailure\n",
        "simt: launches  glob.loads      stores",
        /* two launches, no loads, 128 stores of 4 bytes, 4 sectors each */
        "\nsimt:        2           0         128         512             4.00           0",
        "  fill\n",
        "  neighbours\n",
        "\nsimt: report: race on shared memory (s, byte",
        "reported program.cu:12",
        "reported program.cu:13",
        "\nsimt: 1 report\n",
        NULL,
    };
    expect_output("SIMT_TRACE=build/check/tests/reported_trace build/check/tests/reported_program; "
                  "[ $? -eq 86 ]",
                  output);
    static const char *const trace[] = {
        "\"kernel\":\"fill\",\"grid\":[2,1,1],\"threads\":[32,1,1]",
        "{\"event\":\"array\",\"name\":\"data\",\"space\":\"global\"",
        "\"lanes\":4294967295,\"bytes\":4,\"at\":[[\"data\",128,4,32]],\"sectors\":4,\"lines\":1}",
        "{\"event\":\"report\",\"block\":0,\"t\":",
        "\"text\":\"race on shared memory (s, byte",
        NULL,
    };
    expect_output("cat build/check/tests/reported_trace", trace);
}

/* ------------------------------------------------------------------------------------ correct
 * programs */

/* They must pass in any order, on any number of workers. */
CONDITIONAL_TEST(correct_programs, are_not_reported, checked())
{
    static const char *const orders[] = {"inorder", "reversed", "random:1", "random:2"};
    static const char *const workers[] = {"2", "1", "4", "2"};
    cr_assert_not_null(correct_programs->name);
    for (const struct check_case *each = correct_programs; each->name; each++)
        for (int i = 0; i < 4; i++) {
            setenv("SIMT_ORDER", orders[i], 1);
            setenv("SIMT_WORKERS", workers[i], 1);
            int *data = zeros();
            cudaError_t error = each->run(data);
            cr_expect_eq(error, cudaSuccess, "%s with SIMT_ORDER=%s: %s %s", each->name, orders[i],
                         cudaGetErrorName(error), backend_report());
            if (error != cudaSuccess)
                reset_device();
            else
                cudaFree(data);
        }
}
