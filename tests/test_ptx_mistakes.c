/* Instructions used wrongly: what the CPU backend says, in the fast build and in the checked one.
 */
#include "ptx/box_cases.h"

/* What the CPU backend says, in the fast build and in the checked one. Null: nothing, but the
 * output is wrong. Empty: perhaps something, and the output may be right. */
struct finding {
    enum mistake mistake;
    const char *fast, *checked;
};

static const char uncopied[] = "no thread has waited for the copy",
                  race[] = "race on shared memory";
static const struct finding findings[] = {
    {COPY_ASYNC_NO_WAIT, "cp_async_wait<0>() is missing", uncopied},
    {COPY_ASYNC_NO_COMMIT, "cp_async_commit() and a wait is missing", uncopied},
    {COPY_ASYNC_MISALIGNED, "is not a multiple of 16", "is not a multiple of 16"},
    {LDMATRIX_MISALIGNED, "is not a multiple of 16", "is not a multiple of 16"},
    {LDMATRIX_HALF_WARP, "only lanes 0x0000ffff are there", "names lanes which have returned"},
    {LDMATRIX_OUTSIDE, "of dynamic shared memory, of which the launch asked for 512",
     "of dynamic shared memory, of which the launch asked for 512"},
    {MBARRIER_NOT_INITIALISED, "the mbarrier was not initialised",
     "the mbarrier was not initialised"},
    {MBARRIER_NO_BARRIER_AFTER_INIT, "", race}, /* in some orders all goes well */
    {MBARRIER_NO_FENCE, "mbarrier_init_fence() is missing", "mbarrier_init_fence() is missing"},
    {MBARRIER_NO_EXPECT, "ended while a tma_load()", race},
    {MBARRIER_TOO_MANY_BYTES, "128 announced bytes are not being copied",
     "128 announced bytes are not being copied"},
    {MBARRIER_TOO_FEW_BYTES, "128 bytes more were copied than announced",
     "128 bytes more were copied than announced"},
    {MBARRIER_TOO_MANY_ARRIVALS, "all 1 arrivals of this phase were there already",
     "all 1 arrivals of this phase were there already"},
    {MBARRIER_WRONG_PARITY, "ended while a tma_load()", race},
    {MBARRIER_TRY_FOREVER, "phase 1, parity 1, lacks 1 of 1 arrivals",
     "phase 1, parity 1, lacks 1 of 1 arrivals"},
    {TMA_MISALIGNED, "is not a multiple of 1024", "is not a multiple of 1024"},
    {TMA_NO_WAIT, "ended while a tma_load()", race},
    {TMA_READ_TOO_EARLY, "", race}, /* in some orders all goes well */
    {TMA_REFILLED_TOO_EARLY, "", race},
    {TMA_STORE_NO_PROXY_FENCE, "", "async_proxy_fence() is missing"},
    {TMA_STORE_NO_COMMIT, "tma_store_commit() and a wait is missing",
     "tma_store_commit() and a wait is missing"},
    {TMA_STORE_NO_WAIT, "tma_store_wait_read<0>() is missing",
     "tma_store_wait_read<0>() is missing"},
    {TMA_STORE_SOURCE_OVERWRITTEN, "that it was reading was overwritten",
     "that it was reading was overwritten"},
    {WGMMA_NO_FENCE, "wgmma_fence() is missing", "wgmma_fence() is missing"},
    {WGMMA_NO_PROXY_FENCE, "", "async_proxy_fence() is missing"},
    {WGMMA_NO_COMMIT, "wgmma_commit() is missing", "wgmma_commit() is missing"},
    {WGMMA_NO_WAIT, "wgmma_wait<0>() is missing", "wgmma_wait<0>() is missing"},
    {WGMMA_ACCUMULATOR_READ, NULL, NULL},
    {WGMMA_ACCUMULATOR_WRITTEN, "wrote to the accumulator", "wrote to the accumulator"},
    {WGMMA_OPERAND_OVERWRITTEN, NULL, race},
    {WGMMA_MISALIGNED, "its tile must be aligned to that", "its tile must be aligned to that"},
    {WGMMA_ONE_WARP_MISSING, "for the other warps of the warpgroup",
     "for the other warps of the warpgroup"},
    {WGMMA_DIFFERENT_DESCRIPTORS, "asks for another product", "asks for another product"},
    {NAMED_BARRIER_TOO_MANY, "a barrier that not all threads reach",
     "a barrier that not all threads reach"},
    {REGISTERS_TOO_MANY, "registers that no warpgroup gives back",
     "registers that no warpgroup gives back"},
    {CLUSTER_NOT_BEGUN, "", "which may not have begun"},
    {CLUSTER_NO_LAST_BARRIER, "of the cluster has ended", "uninitialised shared memory"},
    {CLUSTER_LAST_BARRIER_RELAXED, "", race},
    {CLUSTER_ENDS_TOO_EARLY, "of the cluster has ended", "of the cluster has ended"},
    {CLUSTER_ENDS_UNAWARE, NULL, "which may have ended"},
    {CLUSTER_READ_TOO_EARLY, "", race},
    {CLUSTER_OVERWRITTEN, "", race},
    {CLUSTER_ARRIVES_TWICE, "the thread has arrived already", "the thread has arrived already"},
    {CLUSTER_WAITS_ONLY, "the thread has not arrived", "the thread has not arrived"},
    {CLUSTER_HALF_WARP, "a warp operation that not all of its lanes reach",
     "a warp operation that not all of its lanes reach"},
    {CLUSTER_WARP_MISSING, "32 wait at __syncthreads()", "32 wait at __syncthreads()"},
    {CLUSTER_BLOCK_MISSING, "64 wait at a named barrier", "64 wait at a named barrier"},
    {CLUSTER_RANK_OUTSIDE, "block 2 of a cluster of 2", "block 2 of a cluster of 2"},
    {CLUSTER_MISALIGNED, "is not a multiple of 8", "is not a multiple of 8"},
    {CLUSTER_OUTSIDE, "of dynamic shared memory, of which the launch asked for 4096",
     "of dynamic shared memory, of which the launch asked for 4096"},
    {CLUSTER_NO_ADDRESS, "is no address in the cluster", "is no address in the cluster"},
    {CLUSTER_STORE_ASYNC_NO_WAIT, "which only waits for 4 bytes", race},
    {CLUSTER_STORE_ASYNC_BARRIER_ELSEWHERE, "the mbarrier is block 0's",
     "the mbarrier is block 0's"},
    {MULTICAST_PLACE_NOT_EMPTY, "", race},
    {MULTICAST_RANK_OUTSIDE, "ranks 0x7 of a cluster of 2", "ranks 0x7 of a cluster of 2"},
};

/* The kernels of broken.cu with their data. */
struct broken_run {
    uint32_t *in, *out;
    CUtensorMap load, store;
};

static void start_broken(struct broken_run *run)
{
    static const struct box_case whole = {
        "", CU_TENSOR_MAP_SWIZZLE_128B, 1, 64, 64, 64, 1, 64, 64, 0, 0, 0};
    static uint32_t words[BROKEN_WORDS];
    for (int i = 0; i < BROKEN_WORDS; i++)
        words[i] = random_half(30, 2 * i) | (uint32_t)random_half(30, 2 * i + 1) << 16;
    run->in = upload(words, BROKEN_WORDS);
    run->out = upload(words, BROKEN_WORDS);
    cr_assert_eq(describe(&run->load, run->in, &whole), CUDA_SUCCESS);
    cr_assert_eq(describe(&run->store, run->out, &whole), CUDA_SUCCESS);
}

static bool can_be_broken(void)
{
    if (!on_gpu())
        return has_architecture(90, true);
    fprintf(stderr, "skipped: a GPU would hang or say nothing\n");
    return false;
}

static cudaError_t run_broken(const struct broken_run *run, enum mistake mistake, bool correct)
{
    cr_assert_eq(cudaMemset(run->out, 0xee, BROKEN_WORDS * sizeof(uint32_t)), cudaSuccess);
    return ptx_broken(mistake, correct, &run->load, &run->store, run->in, run->out);
}

CONDITIONAL_TEST(mistakes, none, has_architecture(90, true))
{
    struct broken_run run;
    start_broken(&run);
    for (int order = 0; order < ORDERS; order++) {
        setenv("SIMT_ORDER", orders[order], 1);
        for (size_t i = 0; i < sizeof findings / sizeof *findings; i++)
            assert_success(run_broken(&run, findings[i].mistake, true));
    }
}

static void expect_finding(const struct finding *finding)
{
    static uint32_t right[BROKEN_WORDS], wrong[BROKEN_WORDS];
    const char *expected = strcmp(backend_name(), "check") == 0 ? finding->checked : finding->fast;
    struct broken_run run;
    start_broken(&run);
    assert_success(run_broken(&run, finding->mistake, true));
    download(right, run.out, BROKEN_WORDS);

    const cudaError_t status = run_broken(&run, finding->mistake, false);
    const char *report = backend_report();
    if (expected == NULL) {
        cr_expect_eq(status, cudaSuccess, "mistake %d: %s", finding->mistake, report);
        download(wrong, run.out, BROKEN_WORDS);
        cr_expect(memcmp(wrong, right, sizeof wrong) != 0, "mistake %d has no effect",
                  finding->mistake);
    } else if (*expected == '\0') {
        cr_expect(status == cudaSuccess || *report != '\0', "mistake %d", finding->mistake);
    } else {
        cr_expect_neq(status, cudaSuccess, "mistake %d is not found", finding->mistake);
        cr_expect(strstr(report, expected) != NULL, "mistake %d: '%s' is not in '%s'",
                  finding->mistake, expected, report);
    }
    assert_success(cudaDeviceReset());
}

TEST(mistakes, each_is_found)
{
    if (!can_be_broken())
        return;
    for (size_t i = 0; i < sizeof findings / sizeof *findings; i++)
        expect_finding(&findings[i]);
}

/* Blocks of a cluster come in an order too; the checked build does not wait for the one in which
 * things go wrong. */
TEST(mistakes, of_clusters_in_every_order)
{
    if (!can_be_broken() || strcmp(backend_name(), "check") != 0)
        return;
    for (size_t i = 0; i < sizeof findings / sizeof *findings; i++)
        for (int order = 0; findings[i].mistake > REGISTERS_TOO_MANY && order < ORDERS; order++) {
            struct broken_run run;
            start_broken(&run);
            setenv("SIMT_ORDER", orders[order], 1);
            cr_expect_neq(run_broken(&run, findings[i].mistake, false), cudaSuccess,
                          "mistake %d is not found in order %s", findings[i].mistake,
                          orders[order]);
            assert_success(cudaDeviceReset());
        }
}
