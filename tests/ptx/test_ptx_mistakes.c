/* Where instructions are used wrongly, the CPU backend must say this, in the fast and in the
 * checked build. */
#include "box_cases.h"

struct finding {
    enum mistake mistake;
    const char *fast, *checked;
};

static const struct finding findings[] = {
#define MISTAKE(name, fast, checked) {name, fast, checked},
#include "mistakes.def"
#undef MISTAKE
};

/* Holds the kernels of broken.cu with their data. */
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
    run->load = map_of(run->in, &whole);
    run->store = map_of(run->out, &whole);
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

/* Blocks of a cluster also run in an order. The checked build must not need the order in which
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
