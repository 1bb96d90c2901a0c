#include "ladder.h"

#include "harness.h"
#include "harness/refusal.h"
#include "harness/step.h"

#include <criterion/hooks.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The limits are in FLOPs. */
static const double ONE_ORDER = 5e4, WATCHED_NONE = 3e7, CPU_NONE = 1e8;

const char *const thread_orders[] = {"inorder", "reversed", "random:7", NULL};
enum { ORDERS = sizeof thread_orders / sizeof *thread_orders - 1 };

/*
 * These replace libgit2's own functions. Criterion initialises libgit2 in each process, one for
 * each test, and libgit2 then parses all certificate authorities of the machine, which takes 6 ms.
 * Only comparisons of files need it, and no assertion here compares files.
 */
int git_libgit2_init(void);
int git_libgit2_init(void)
{
    return 1; /* the number of callers, with this one */
}

/* Tests set orders of their own and skip what a device is too old for, so they would pass with a
 * bad value. */
ReportHook(PRE_ALL)(struct criterion_test_set *tests)
{
    (void)tests;
    if (*backend_complaint()) {
        fprintf(stderr, "%s\n", backend_complaint());
        exit(STEP_BAD_USAGE);
    }
    if (getenv(KERNEL_VARIABLE))
        fprintf(stderr, "only these kernels are tested: %s\n", getenv(KERNEL_VARIABLE));
}

/* This process is one test. It counts how many kernels it judged and how many loops over them it is
 * in, and records whether it should judge any and whether one could not be judged here. */
static struct {
    int judged, loops;
    bool asked, excused;
    const char *counts;       /* the kernel for which ladder_counts() returned true */
    const char *reported[16]; /* the kernels judged, under a filter */
} test;

static void judges(const struct kernel *kernel)
{
    test.asked = true;
    test.judged++;
    if (!getenv(KERNEL_VARIABLE))
        return;
    enum { REPORTED = sizeof test.reported / sizeof *test.reported };
    for (int i = 0; i < REPORTED; i++) {
        if (test.reported[i] && strcmp(test.reported[i], kernel->name) == 0)
            return;
        if (!test.reported[i]) {
            test.reported[i] = kernel->name;
            break;
        }
    }
    fprintf(stderr, "judged: %s\n", kernel->name); /* tests/run looks for it */
}

void ladder_ends(const char *name)
{
    cr_assert(test.loops == 0,
              "a loop over kernels was left before its end: those after it were not judged");
    if (!test.asked || test.judged > 0)
        return;
    cr_assert(test.excused || getenv(KERNEL_VARIABLE), "no kernel was judged");
    fprintf(stderr, "judged nothing: %s\n", name); /* tests/run does not count it as passed */
}

const void *ladder_loop(const void *first)
{
    test.asked = true;
    test.loops++;
    return first;
}

bool ladder_loop_ends(void)
{
    test.loops--;
    return false;
}

static bool wanted(const struct kernel *kernel)
{
    test.asked = true;
    const char *names = getenv(KERNEL_VARIABLE);
    const size_t length = strlen(kernel->name);
    for (const char *at = names; at && (at = strstr(at, kernel->name)); at += length)
        if ((at == names || at[-1] == ' ') && (at[length] == '\0' || at[length] == ' '))
            return true;
    return names == NULL;
}

/* Says why the test goes on without judging something. */
static void skip(const char *what, const char *why)
{
    test.asked = test.excused = true;
    fprintf(stderr, "skipped: %s %s\n", what, why);
}

/* Does ladder_runs() for a kernel that is not yet judged. */
static bool runnable(const struct kernel *kernel)
{
    if (!wanted(kernel))
        return false;
    refusal_clear();
    if (require_device(kernel) == cudaSuccess)
        return true;
    skip(kernel->name, refusal());
    return false;
}

bool ladder_wants(const struct kernel *kernel)
{
    const bool wants = wanted(kernel);
    if (wants)
        judges(kernel);
    return wants;
}

bool ladder_runs(const struct kernel *kernel)
{
    const bool runs = runnable(kernel);
    if (runs)
        judges(kernel);
    return runs;
}

bool ladder_counts(const struct kernel *kernel)
{
    struct counters none;
    if (!backend_counters(&none)) {
        test.asked = test.excused = true; /* this holds for every kernel: no line for each */
        return false;
    }
    const bool runs = runnable(kernel);
    if (runs)
        test.counts = kernel->name;
    return runs;
}

bool ladder_full_size(void)
{
    return strcmp(backend_name(), "gpu") == 0 && !getenv(WATCHED_VARIABLE);
}

bool ladder_full_size_or_skip(const char *what)
{
    if (!ladder_full_size())
        skip(what, "needs a GPU that no tool watches");
    return ladder_full_size();
}

bool ladder_architecture(int architecture)
{
    char text[16];
    snprintf(text, sizeof text, "%d", architecture);
    setenv("SIMT_ARCH", text, 1);
    if (backend_architecture() == architecture)
        return true;
    snprintf(text, sizeof text, "sm_%d", backend_architecture());
    skip(text, "is this device, and it will not be another");
    return false;
}

static bool has_devices(void)
{
    int devices = 0;
    setenv("SIMT_ARCH", "90,75,86,90", 1);
    if (strcmp(backend_name(), "gpu") != 0 && cudaGetDeviceCount(&devices) == cudaSuccess &&
        devices == 4)
        return true;
    skip("devices", "of several kinds are not to be had on a GPU");
    return false;
}

static bool watched(void)
{
    return strcmp(backend_name(), "check") == 0 || getenv(WATCHED_VARIABLE) != NULL;
}

/* Returns "m=3 n=5 k=7", without what is 0 unless said otherwise; valid until the next call. */
static const char *describe(const struct problem *problem, const long long *sizes)
{
    static char text[200];
    size_t used = 0;
    text[0] = '\0';
    for (int s = 0; problem->sizes[s].name && used < sizeof text; s++)
        if (sizes[s] != 0 || problem->sizes[s].device != 0)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s=%lld", used ? " " : "",
                                     problem->sizes[s].name, sizes[s]);
    return text;
}

struct trial ladder_trial(const struct problem *problem, const long long *sizes,
                          enum input_kind kind, uint64_t seed, size_t offset)
{
    struct trial trial;
    refusal_clear();
    const cudaError_t status = trial_create(&trial, problem, sizes, kind, seed, offset);
    cr_assert(status == cudaSuccess, "%s: no trial: %s %s", describe(problem, sizes),
              cudaGetErrorString(status), refusal());
    return trial;
}

void ladder_reference(const struct problem *problem, const long long *sizes,
                      const void *const *host, size_t row, double *const *value,
                      double *const *scale)
{
    struct row_list rows[MAX_TENSORS];
    for (int output = 0; output < MAX_TENSORS; output++)
        rows[output] = (struct row_list){&row, 1};
    problem->reference(sizes, host, rows, value, scale);
}

/* Chooses the thread_orders, first .. end - 1, in which each kernel runs a case once. */
static void choose_orders(const struct problem *problem, const long long *sizes, int *first,
                          int *end)
{
    const bool one = getenv(WATCHED_VARIABLE) ||
                     (strcmp(backend_name(), "gpu") != 0 && problem->flops(sizes) > ONE_ORDER);
    /* Where one order is enough, each kernel goes through them in turn, by the hash of a count. */
    static uint32_t turn;
    *first = one ? (int)((++turn * 2654435761u) >> 16) % ORDERS : 0;
    *end = one ? *first + 1 : ORDERS;
}

static void check_kernel(struct trial *trial, const struct kernel *kernel, const char *inputs)
{
    const char *name = kernel->name;
    int order, end;
    for (choose_orders(trial->problem, trial->sizes, &order, &end); order < end; order++) {
        setenv(ORDER_VARIABLE, thread_orders[order], 1);
        const struct verdict verdict = trial_run(trial, kernel);
        unsetenv(ORDER_VARIABLE);
        if (verdict.status == VERDICT_SKIPPED) {
            skip(name, verdict.reason);
            return;
        }
        judges(kernel);
        cr_expect(verdict.status == VERDICT_PASS,
                  "%s %s inputs=%s offset=%zu order=%s: %s: %s (error %.3g, bound %.3g)", name,
                  describe(trial->problem, trial->sizes), inputs, trial->placement.offset,
                  thread_orders[order], detector_name(verdict.detector), verdict.reason,
                  verdict.error, verdict.bound);
    }
}

static void check_kernels(struct trial *trial, const void *table, const char *inputs)
{
    const struct kernel *kernel;
    for (size_t index = 0; (kernel = problem_kernel(trial->problem, table, index))->name; index++)
        if (wanted(kernel))
            check_kernel(trial, kernel, inputs);
}

static bool too_large_to_watch(const struct problem *problem, const long long *sizes)
{
    if (!watched() || problem->flops(sizes) <= WATCHED_NONE)
        return false;
    test.asked = test.excused = true;
    fprintf(stderr, "too large to watch every access: %s %s\n", problem->name,
            describe(problem, sizes));
    return true;
}

void ladder_check(const struct problem *problem, const void *table, const long long *sizes,
                  enum input_kind kind, uint64_t seed, size_t offset)
{
    if (too_large_to_watch(problem, sizes))
        return;
    struct trial trial = ladder_trial(problem, sizes, kind, seed, offset);
    check_kernels(&trial, table, input_kind_name(kind));
    trial_destroy(&trial);
}

void ladder_check_inputs(struct trial *trial, const void *table, const char *what)
{
    cr_assert(trial_update(trial) == cudaSuccess);
    check_kernels(trial, table, what);
}

/* Checks one kernel on one case. The trial lasts until the next case, so that kernels which take
 * the same case share its reference. */
static void check_case(const struct problem *problem, const struct kernel *kernel,
                       struct test_case one)
{
    static struct trial trial;
    static struct test_case last;
    if (!wanted(kernel) || !case_fits(problem, kernel, &one) ||
        too_large_to_watch(problem, one.sizes))
        return;
    if (!trial.problem || !case_same(&last, &one)) {
        if (trial.problem)
            trial_destroy(&trial);
        refusal_clear();
        cr_assert(case_trial(&trial, problem, &one) == cudaSuccess, "%s: %s",
                  case_options(problem, &one), refusal());
        last = one;
    }
    check_kernel(&trial, kernel, case_options(problem, &one));
}

void ladder_cases(const struct problem *problem, const void *table, int part, int parts)
{
    struct case_walk walk;
    struct test_case one;
    cases_begin(&walk, problem, NULL, CASES_USUAL, 1);
    for (int number = 0; cases_next(&walk, &one); number++) {
        const struct kernel *kernel;
        for (size_t i = 0;
             number % parts == part && (kernel = problem_kernel(problem, table, i))->name; i++)
            check_case(problem, kernel, one);
    }
    cr_assert(!walk.unreadable, "%s", refusal());
}

void ladder_own_cases(const struct problem *problem, const void *table)
{
    const struct kernel *kernel;
    for (size_t i = 0; (kernel = problem_kernel(problem, table, i))->name; i++) {
        struct case_walk walk;
        struct test_case one;
        if (!kernel->own_sizes && !kernel->edges)
            continue;
        cases_begin(&walk, problem, kernel, CASES_USUAL, 1);
        while (cases_next(&walk, &one) && walk.stage <= 2)
            check_case(problem, kernel, one);
        cr_assert(!walk.unreadable, "%s: %s", kernel->name, refusal());
    }
}

const struct kernel *ladder_find(const struct problem *problem, const void *table, const char *name)
{
    const struct kernel *kernel;
    for (size_t index = 0; (kernel = problem_kernel(problem, table, index))->name; index++)
        if (strcmp(kernel->name, name) == 0)
            return kernel;
    cr_assert(false, "no kernel is named %s", name);
    return NULL;
}

void ladder_failed_once(const struct step *step, const struct problem *problem)
{
    enum { DIGITS = 2 }; /* of the step's number, which begins its name */
    FILE *file = fopen("tests/steps/failed_once.txt", "r");
    cr_assert(file != NULL, "tests run in the root of the project");
    for (char line[300]; fgets(line, sizeof line, file);) {
        char *rest, *word = strtok_r(line, " \n", &rest);
        if (!word || strlen(word) != DIGITS || strncmp(word, step->name, DIGITS) != 0)
            continue;
        const char *name = strtok_r(NULL, " \n", &rest);
        const struct problem *owner = name ? step_problem_of_kernel(step, name) : NULL;
        cr_assert(owner != NULL, "failed_once.txt: no kernel of %s is %s", step->name, name);
        if (owner != problem)
            continue;
        const struct kernel *kernel = ladder_find(problem, step_rows(step, problem), name);
        struct test_case one;
        case_default(problem, &one);
        rest[strcspn(rest, "\n")] = '\0';
        cr_assert(case_read(problem, rest, &one), "failed_once.txt: %s", refusal());
        if (!wanted(kernel))
            continue;
        if (problem->flops(one.sizes) > CPU_NONE && !ladder_full_size()) {
            skip(describe(problem, one.sizes), "needs a GPU that no tool watches");
            continue;
        }
        struct trial trial = ladder_trial(problem, one.sizes, one.inputs, 1, 0);
        check_kernel(&trial, kernel, input_kind_name(one.inputs));
        trial_destroy(&trial);
    }
    fclose(file);
}

/* Returns a trial that lasts until another problem or other sizes are asked for, so the reference
 * is computed once for all kernels. */
static struct trial *counted_trial(const struct problem *problem, const long long *sizes)
{
    static struct trial trial;
    if (trial.problem != problem || memcmp(trial.sizes, sizes, sizeof trial.sizes) != 0) {
        if (trial.problem)
            trial_destroy(&trial);
        trial = ladder_trial(problem, sizes, INPUTS_NORMAL, 1, 0);
    }
    return &trial;
}

static void expect_cost(const char *name, const char *text, const char *what,
                        unsigned long long counted, long long formula)
{
    cr_expect(counted == (unsigned long long)formula, "%s %s: %llu %s, its row says %lld", name,
              text, counted, what, formula);
}

/* Requires what the kernel's row says. */
static void expect_costs(const struct trial *trial, const struct kernel *kernel,
                         const struct counters *did)
{
    const struct cost cost = trial->problem->cost(kernel, trial->sizes);
    const char *text = describe(trial->problem, trial->sizes);
    expect_cost(kernel->name, text, "loads", did->global_loads, cost.loads);
    expect_cost(kernel->name, text, "stores", did->global_stores, cost.stores);
    expect_cost(kernel->name, text, "bytes read", did->global_load_bytes, cost.bytes_read);
    expect_cost(kernel->name, text, "bytes written", did->global_store_bytes, cost.bytes_written);
}

/* Counts what a passing run did, and requires what the kernel's row says. Returns false where
 * nothing is counted, or the device is too old or too small for the kernel. */
static bool count(const struct problem *problem, const struct kernel *kernel,
                  const long long *sizes, struct counters *did)
{
    if (!ladder_counts(kernel))
        return false;
    struct trial *trial = counted_trial(problem, sizes);
    backend_counters_reset();
    const struct verdict verdict = trial_run(trial, kernel);
    backend_counters(did);
    if (verdict.status == VERDICT_SKIPPED) {
        skip(kernel->name, verdict.reason);
        return false;
    }
    judges(kernel);
    cr_assert(verdict.status == VERDICT_PASS, "%s: %s", kernel->name, verdict.reason);
    expect_costs(trial, kernel, did);
    return true;
}

void ladder_costs(const struct problem *problem, const void *table, const long long *sizes)
{
    const struct kernel *kernel;
    struct counters did;
    for (size_t index = 0; (kernel = problem_kernel(problem, table, index))->name; index++)
        count(problem, kernel, sizes, &did);
}

static void expect_traffic(const char *name, const char *text, const char *what,
                           unsigned long long did, unsigned long long ideal, double expected)
{
    const double times = ideal ? (double)did / (double)ideal : 1.0;
    const double tolerance = expected == 0.0 ? 0.0 : 0.005 * expected;
    expected = expected == 0.0 ? 1.0 : expected;
    cr_expect(times >= expected - tolerance && times <= expected + tolerance,
              "%s %s: %s, %llu, are %.4f times the ideal, not %.4f", name, text, what, did, times,
              expected);
}

void ladder_traffic(const struct problem *problem, const void *table, const long long *sizes,
                    const struct traffic *expected)
{
    const char *text = describe(problem, sizes);
    for (const struct traffic *row = expected; row->name; row++)
        ladder_find(problem, table, row->name);
    const struct kernel *kernel;
    for (size_t index = 0; (kernel = problem_kernel(problem, table, index))->name; index++) {
        const struct traffic *row = expected;
        struct counters did;
        while (row->name && strcmp(row->name, kernel->name) != 0)
            row++;
        if (!count(problem, kernel, sizes, &did))
            continue;
        expect_traffic(kernel->name, text, "bytes of sectors loaded", 32 * did.global_load_sectors,
                       did.global_load_bytes, row->load);
        expect_traffic(kernel->name, text, "bytes of sectors stored", 32 * did.global_store_sectors,
                       did.global_store_bytes, row->store);
        expect_traffic(kernel->name, text, "wavefronts", did.shared_wavefronts,
                       did.shared_wavefronts_ideal, row->wavefronts);
    }
}

void ladder_work(const struct problem *problem, const void *table, const long long *sizes,
                 const struct work *expected)
{
    for (const struct work *work = expected; work->name; work++) {
        struct counters did;
        if (!count(problem, ladder_find(problem, table, work->name), sizes, &did))
            continue;
        cr_expect(did.blocks == work->blocks && did.threads == work->threads,
                  "%s %s: %llu blocks with %llu threads in all, not %llu with %llu", work->name,
                  describe(problem, sizes), did.blocks, did.threads, work->blocks, work->threads);
        cr_expect(did.shared_loads == work->shared_loads, "%s %s: %llu shared loads, not %llu",
                  work->name, describe(problem, sizes), did.shared_loads, work->shared_loads);
        cr_expect(did.barriers == work->barriers, "%s %s: %llu barriers, not %llu", work->name,
                  describe(problem, sizes), did.barriers, work->barriers);
    }
}

bool ladder_count(const struct problem *problem, const void *table, const char *name,
                  const long long *sizes, struct counters *counters)
{
    cr_assert(test.counts && strcmp(test.counts, name) == 0,
              "%s is counted, and nobody asked whether it is to be", name);
    return count(problem, ladder_find(problem, table, name), sizes, counters);
}

void ladder_on_architecture(const struct problem *problem, const void *table,
                            const long long *sizes, int architecture)
{
    const struct kernel *kernel;
    if (!ladder_architecture(architecture))
        return;
    struct trial trial = ladder_trial(problem, sizes, INPUTS_NORMAL, 1, 0);
    for (size_t i = 0; (kernel = problem_kernel(problem, table, i))->name; i++) {
        const char *name = kernel->name, *needs = kernel->falls_back ? NULL : kernel->architecture;
        const int first = needs ? atoi(needs + strlen("sm_")) : 0;
        const bool alone = needs && strchr(needs, 'a') != NULL;
        const bool runs = alone ? architecture == first : architecture >= first;
        if (!ladder_wants(kernel))
            continue;
        const struct verdict verdict = trial_run(&trial, kernel);
        cr_expect(verdict.status == (runs ? VERDICT_PASS : VERDICT_SKIPPED),
                  "%s %s on sm_%d: status %d, %s", name, describe(problem, sizes), architecture,
                  (int)verdict.status, verdict.reason);
        char words[64];
        snprintf(words, sizeof words, "(this device is sm_%d)", architecture);
        cr_expect(runs || (strstr(verdict.reason, needs) && strstr(verdict.reason, words)),
                  "%s on sm_%d: '%s'", name, architecture, verdict.reason);
    }
    trial_destroy(&trial);
}

void ladder_devices(const struct problem *problem, const void *table, const long long *sizes)
{
    static const int turns[] = {0, 1, 2, 3, 0};
    const struct kernel *kernel;
    if (!has_devices())
        return;
    struct trial trial = ladder_trial(problem, sizes, INPUTS_NORMAL, 1, 0);
    for (size_t i = 0; (kernel = problem_kernel(problem, table, i))->name; i++)
        for (size_t turn = 0; turn < sizeof turns / sizeof *turns && wanted(kernel); turn++) {
            struct counters did;
            cr_assert(cudaSetDevice(turns[turn]) == cudaSuccess);
            backend_counters_reset();
            const struct verdict verdict = trial_run(&trial, kernel);
            if (verdict.status == VERDICT_SKIPPED)
                continue;
            judges(kernel);
            cr_expect(verdict.status == VERDICT_PASS, "%s %s, turn %zu, on device %d: %s",
                      kernel->name, describe(problem, sizes), turn, turns[turn], verdict.reason);
            if (verdict.status == VERDICT_PASS && backend_counters(&did))
                expect_costs(&trial, kernel, &did);
        }
    cr_assert(cudaSetDevice(0) == cudaSuccess);
    trial_destroy(&trial);
}

/* ---------------------------------------------------------------------------------------------- */
/* Launches that the test makes itself */

/* A launched kernel works on a trial's arrays and stream; nothing has waited for it yet. */
struct launched {
    struct trial trial;
    struct device_buffer workspace;
};

static void prepare(struct launched *one, const struct kernel *kernel)
{
    const struct trial *trial = &one->trial;
    const size_t bytes = problem_workspace(trial->problem, kernel, trial->sizes);
    cr_assert(device_buffer_create(&one->workspace, bytes, 0) == cudaSuccess);
    cr_assert(trial_poison(trial, &one->workspace) == cudaSuccess);
    refusal_clear();
}

/* Waits for the stream, and compares the kernel's outputs with the reference. */
static void expect_outputs(struct launched *one, const struct kernel *kernel, const char *what)
{
    struct trial *trial = &one->trial;
    struct comparison comparison = {.bound = trial->problem->bound(trial->sizes)};
    const char *text = describe(trial->problem, trial->sizes);
    cr_assert(cudaStreamSynchronize(trial->stream) == cudaSuccess, "%s %s, %s: %s", kernel->name,
              text, what, backend_report());
    for (int t = trial->input_count; t < trial->tensor_count; t++)
        cr_assert(device_buffer_download(&trial->device[t], trial->host[t]) == cudaSuccess);
    trial_compare(trial, &comparison);
    judges(kernel);
    cr_expect(!comparison.wrong, "%s %s, %s: %s", kernel->name, text, what, comparison.first);
}

/* Does the same, and cleans up. */
static void expect_right(struct launched *one, const struct kernel *kernel, const char *what)
{
    expect_outputs(one, kernel, what);
    device_buffer_destroy(&one->workspace);
}

/* Returns the table's next kernel after this one (the first, after null) that is under test and
 * runs on this device. */
static const struct kernel *next_runnable(const struct problem *problem, const void *table,
                                          const struct kernel *kernel)
{
    do
        kernel = kernel ? problem_kernel(problem, kernel, 1) : problem_kernel(problem, table, 0);
    while (kernel->name && !runnable(kernel));
    return kernel->name ? kernel : NULL;
}

/* Moves the buffer's data into managed memory. Returns the old buffer. */
static struct device_buffer into_managed(struct device_buffer *buffer)
{
    const struct device_buffer device = *buffer;
    cr_assert(cudaMallocManaged(&buffer->data, device.bytes + 1, cudaMemAttachGlobal) ==
              cudaSuccess);
    const uint32_t poison = check_poison(TENSOR_F32, POISON_OF_WORKSPACE);
    cr_assert(device_buffer_poison(buffer, poison) == cudaSuccess);
    return device;
}

/* On the CPU managed memory can be read at any time. While a stream holds back its work, outputs
 * and workspace stay as they are. */
static void expect_held_back(const struct trial *trial, const struct kernel *kernel)
{
    struct launched one = {.trial = *trial};
    struct device_buffer *buffer[MAX_TENSORS + 1], device[MAX_TENSORS + 1];
    void *before[MAX_TENSORS + 1];
    int count = 0;
    if (strcmp(backend_name(), "gpu") == 0)
        return;
    prepare(&one, kernel);
    for (int t = trial->input_count; t < trial->tensor_count; t++)
        buffer[count++] = &one.trial.device[t];
    if (one.workspace.bytes > 0)
        buffer[count++] = &one.workspace;
    for (int i = 0; i < count; i++) {
        device[i] = into_managed(buffer[i]);
        before[i] = malloc(buffer[i]->bytes);
        memcpy(before[i], buffer[i]->data, buffer[i]->bytes);
    }
    cr_assert(trial_launch(&one.trial, kernel, &one.workspace) == cudaSuccess);
    for (int i = 0; i < count; i++)
        cr_expect(memcmp(before[i], buffer[i]->data, buffer[i]->bytes) == 0,
                  "%s does not launch each kernel, and fill memory, on the stream that it is given",
                  kernel->name);
    cr_assert(cudaDeviceSynchronize() == cudaSuccess, "%s: %s", kernel->name, backend_report());
    for (int i = 0; i < count; i++) {
        cr_expect(memcmp(before[i], buffer[i]->data, buffer[i]->bytes) != 0,
                  "%s leaves nothing in an output or in the workspace", kernel->name);
        free(before[i]);
        cudaFree(buffer[i]->data);
        *buffer[i] = device[i];
    }
    device_buffer_destroy(&one.workspace);
}

/* Lets two problems and the first again follow each other on one stream with one workspace. Each
 * time the outputs are poisoned, and the workspace is as the launch before has left it. */
static void expect_nothing_left_over(const struct launched one[2], const struct kernel *kernel)
{
    static const int turns[] = {0, 1, 0};
    struct launched turn[2] = {one[0], one[1]};
    struct device_buffer workspace = {0};
    size_t most = 0;
    turn[1].trial.stream = turn[0].trial.stream;
    for (int i = 0; i < 2; i++) {
        const size_t bytes = problem_workspace(turn[i].trial.problem, kernel, turn[i].trial.sizes);
        most = bytes > most ? bytes : most;
    }
    cr_assert(device_buffer_create(&workspace, most, 0) == cudaSuccess);
    cr_assert(device_buffer_poison(&workspace, check_poison(TENSOR_F32, POISON_OF_WORKSPACE)) ==
              cudaSuccess);
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        struct launched *now = &turn[turns[i]];
        cr_assert(trial_poison(&now->trial, NULL) == cudaSuccess);
        cr_assert(trial_launch(&now->trial, kernel, &workspace) == cudaSuccess, "%s: %s",
                  kernel->name, refusal());
        expect_outputs(now, kernel, i == 0 ? "at first" : "after other sizes");
    }
    device_buffer_destroy(&workspace);
}

void ladder_streams(const struct problem *problem, const void *table, const long long *sizes,
                    const long long *other_sizes)
{
    struct launched one[2] = {
        {.trial = ladder_trial(problem, sizes, INPUTS_NORMAL, 1, 0)},
        {.trial = ladder_trial(problem, other_sizes, INPUTS_NORMAL, 2, 0)},
    };
    for (const struct kernel *kernel = NULL; (kernel = next_runnable(problem, table, kernel));) {
        setenv(ORDER_VARIABLE, "overlap", 1);
        expect_held_back(&one[0].trial, kernel);
        for (int i = 0; i < 2; i++)
            prepare(&one[i], kernel);
        for (int i = 0; i < 2; i++)
            cr_assert(trial_launch(&one[i].trial, kernel, &one[i].workspace) == cudaSuccess,
                      "%s: %s", kernel->name, refusal());
        for (int i = 0; i < 2; i++)
            expect_right(&one[i], kernel, "beside another");
        unsetenv(ORDER_VARIABLE);
        expect_nothing_left_over(one, kernel);
    }
    for (int i = 0; i < 2; i++)
        trial_destroy(&one[i].trial);
}

void ladder_launches(const struct problem *problem, const void *table, const long long *sizes)
{
    const bool gpu = strcmp(backend_name(), "gpu") == 0;
    const int launches = gpu ? 1025 : 17;
    struct launched one = {.trial = ladder_trial(problem, sizes, INPUTS_NORMAL, 1, 0)};
    for (const struct kernel *kernel = NULL; (kernel = next_runnable(problem, table, kernel));) {
        if (!gpu && problem_workspace(problem, kernel, one.trial.sizes) == 0)
            continue;
        prepare(&one, kernel);
        for (int i = 0; i < launches; i++) {
            if (i + 1 == launches)
                cr_assert(trial_poison(&one.trial, NULL) == cudaSuccess);
            cr_assert(trial_launch(&one.trial, kernel, &one.workspace) == cudaSuccess,
                      "%s, launch %d: %s", kernel->name, i, refusal());
        }
        expect_right(&one, kernel, "after many launches");
    }
    trial_destroy(&one.trial);
}

void ladder_one_off(const struct problem *problem, const void *table, const long long *sizes,
                    size_t offset)
{
    struct trial trial = ladder_trial(problem, sizes, INPUTS_NORMAL, 1, 0);
    for (int t = 0; t < trial.tensor_count; t++) {
        const struct device_buffer aligned = trial.device[t];
        cr_assert(device_buffer_create(&trial.device[t], aligned.bytes, offset) == cudaSuccess);
        if (t < trial.input_count)
            cr_assert(device_buffer_upload(&trial.device[t], trial.host[t]) == cudaSuccess);
        char what[40];
        snprintf(what, sizeof what, "normal, only %s off", trial.tensors[t].name);
        check_kernels(&trial, table, what);
        device_buffer_destroy(&trial.device[t]);
        trial.device[t] = aligned;
    }
    trial_destroy(&trial);
}

/* Returns the largest workspace that a kernel of the table asks for. */
static size_t most_workspace(const struct problem *problem, const void *table,
                             const long long *sizes)
{
    size_t most = 0;
    for (const struct kernel *kernel = NULL; (kernel = next_runnable(problem, table, kernel));) {
        const size_t bytes = problem_workspace(problem, kernel, sizes);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static size_t bytes_of(const struct tensor *tensor)
{
    return tensor->rows * tensor->cols * tensor_element_bytes(tensor->type);
}

void ladder_past_2_to_the_31(const struct problem *problem, const void *table,
                             const long long *whole, const long long *last, const int *fill)
{
    long long sizes[MAX_SIZES];
    struct tensor tensors[MAX_TENSORS];
    char *array[MAX_TENSORS], *end[MAX_TENSORS]; /* end is where the last case begins */
    int count = 0;
    size_t available = 0, total = 0;
    if (!ladder_full_size_or_skip("more than 2^31 elements"))
        return;
    memcpy(sizes, whole, sizeof sizes);
    cr_assert(problem->tensors(sizes, tensors, &count) == cudaSuccess, "%s", refusal());
    size_t needed = ((size_t)1 << 30) + most_workspace(problem, table, sizes);
    for (int t = 0; t < count; t++)
        needed += bytes_of(&tensors[t]);
    cr_assert(cudaMemGetInfo(&available, &total) == cudaSuccess);
    if (available < needed) {
        char what[40];
        snprintf(what, sizeof what, "%zu GiB", (needed >> 30) + 1);
        skip(what, "of device memory are not here");
        return;
    }
    struct trial trial = ladder_trial(problem, last, INPUTS_NORMAL, 911, 0);
    for (int t = 0; t < count; t++) {
        const size_t bytes = bytes_of(&tensors[t]), kept = bytes_of(&trial.tensors[t]);
        cr_assert(cudaMalloc((void **)&array[t], bytes) == cudaSuccess);
        end[t] = array[t] + bytes - kept;
        if (t < trial.input_count) {
            cr_assert(cudaMemset(array[t], fill[t], bytes) == cudaSuccess);
            cr_assert(cudaMemcpy(end[t], trial.host[t], kept, cudaMemcpyHostToDevice) ==
                      cudaSuccess);
        }
    }
    for (const struct kernel *kernel = NULL; (kernel = next_runnable(problem, table, kernel));) {
        struct comparison comparison = {.bound = problem->bound(trial.sizes)};
        struct device_buffer workspace;
        cr_assert(device_buffer_create(&workspace, problem_workspace(problem, kernel, sizes), 0) ==
                  cudaSuccess);
        for (int t = trial.input_count; t < count; t++)
            cr_assert(cudaMemset(array[t], 0xff, bytes_of(&tensors[t])) == cudaSuccess);
        cr_assert(problem->run(kernel, sizes, (void *const *)array, workspace.data, NULL) ==
                      cudaSuccess,
                  "%s: %s", kernel->name, refusal());
        for (int t = trial.input_count; t < count; t++)
            cr_assert(cudaMemcpy(trial.host[t], end[t], bytes_of(&trial.tensors[t]),
                                 cudaMemcpyDeviceToHost) == cudaSuccess);
        trial_compare(&trial, &comparison);
        judges(kernel);
        cr_expect(!comparison.wrong, "%s: %s", kernel->name, comparison.first);
        device_buffer_destroy(&workspace);
    }
    for (int t = 0; t < count; t++)
        cudaFree(array[t]);
    trial_destroy(&trial);
}

/* Expects the outputs to be still poisoned. */
static void expect_unwritten(const struct trial *trial, const char *name)
{
    for (int t = trial->input_count; t < trial->tensor_count; t++) {
        const struct tensor *tensor = &trial->tensors[t];
        cr_assert(device_buffer_download(&trial->device[t], trial->host[t]) == cudaSuccess);
        for (size_t i = 0; i < tensor->rows * tensor->cols; i++)
            cr_assert(check_is_poison(trial->host[t], tensor->type, i, t),
                      "%s wrote %s although it returned an error", name, tensor->name);
    }
}

/* Makes launch, or map, number `failing` of one run fail, by the environment variable that does it.
 * Returns false when the run has no such launch. */
static bool returns_error(struct launched *one, const struct kernel *kernel, const char *variable,
                          int failing, cudaError_t *status)
{
    char number[20], words[80];
    snprintf(number, sizeof number, "%d", failing);
    snprintf(words, sizeof words, "%s makes", variable);
    cr_assert(cudaGetLastError() == cudaSuccess);
    setenv(variable, number, 1);
    *status = trial_launch(&one->trial, kernel, &one->workspace);
    unsetenv(variable);
    const bool failed = strstr(backend_report(), words) != NULL;
    const cudaError_t left = cudaGetLastError();
    cr_expect(left == cudaSuccess, "%s: %s leaves %s behind", kernel->name, words,
              cudaGetErrorName(left));
    cudaMemsetAsync(one->trial.device[0].data, 0, 0,
                    one->trial.stream); /* counting begins at 1 again */
    cudaDeviceSynchronize();
    return failed;
}

/* The next run has the same workspace, in which the one that failed may have left something. */
static void expect_next_right(struct launched *one, const struct kernel *kernel)
{
    cr_assert(trial_poison(&one->trial, NULL) == cudaSuccess);
    refusal_clear();
    const cudaError_t status = trial_launch(&one->trial, kernel, &one->workspace);
    cr_assert(status == cudaSuccess, "%s, after a run that failed: %s", kernel->name,
              cudaGetErrorName(status));
    expect_right(one, kernel, "after a run that failed");
}

void ladder_returns_errors(const struct problem *problem, const void *table, const long long *sizes)
{
    enum { MOST_LAUNCHES = 20 };
    if (strcmp(backend_name(), "gpu") == 0) {
        skip("a launch that fails", "is not to be had on a GPU");
        return;
    }
    struct launched one = {.trial = ladder_trial(problem, sizes, INPUTS_NORMAL, 1, 0)};
    for (const struct kernel *kernel = NULL; (kernel = next_runnable(problem, table, kernel));) {
        bool failed = true;
        for (int failing = 1; failing <= MOST_LAUNCHES && failed; failing++) {
            cudaError_t status;
            prepare(&one, kernel);
            failed = returns_error(&one, kernel, "SIMT_FAIL_LAUNCH", failing, &status);
            cr_expect(!(failed || failing == 1) || status == cudaErrorLaunchOutOfResources,
                      "%s: launch %d fails, and the launcher returns %s", kernel->name, failing,
                      cudaGetErrorName(status));
            /* No kernel may add to what was not filled. */
            if (failed && strstr(backend_report(), "cudaMemsetAsync") != NULL)
                expect_unwritten(&one.trial, kernel->name);
            if (failed)
                expect_next_right(&one, kernel);
            else
                expect_right(&one, kernel, "of fewer launches than the one that would fail");
        }
        cr_expect(!failed, "%s makes %d launches and more", kernel->name, MOST_LAUNCHES);
    }
    trial_destroy(&one.trial);
}

/* Expects the workspace to be still poisoned. */
static void expect_unused(const struct device_buffer *workspace, const char *name)
{
    char *bytes = malloc(workspace->bytes + 1);
    const uint32_t poison = check_poison(TENSOR_F32, POISON_OF_WORKSPACE);
    cr_assert(device_buffer_download(workspace, bytes) == cudaSuccess);
    for (size_t i = 0; i + sizeof poison <= workspace->bytes; i += sizeof poison)
        cr_assert(memcmp(bytes + i, &poison, sizeof poison) == 0,
                  "%s wrote its workspace although it returned an error", name);
    free(bytes);
}

void ladder_returns_map_errors(const struct problem *problem, const void *table,
                               const long long *sizes, int least)
{
    enum { MOST_MAPS = 9 };
    if (strcmp(backend_name(), "gpu") == 0) {
        skip("a tensor map that fails", "is not to be had on a GPU");
        return;
    }
    struct launched one = {.trial = ladder_trial(problem, sizes, INPUTS_NORMAL, 1, 0)};
    for (const struct kernel *kernel = NULL; (kernel = next_runnable(problem, table, kernel));) {
        int maps = 0;
        for (bool failed = true; failed && maps < MOST_MAPS; maps += failed) {
            cudaError_t status;
            prepare(&one, kernel);
            failed = returns_error(&one, kernel, "SIMT_FAIL_MAP", maps + 1, &status);
            cr_expect(!failed || status == cudaErrorInvalidValue,
                      "%s: map %d fails, and the launcher returns %s", kernel->name, maps + 1,
                      cudaGetErrorName(status));
            if (failed) {
                expect_unwritten(&one.trial, kernel->name);
                expect_unused(&one.workspace, kernel->name);
                expect_next_right(&one, kernel);
            } else {
                expect_right(&one, kernel, "of fewer maps than the one that would fail");
            }
        }
        cr_expect(maps >= least && maps < MOST_MAPS, "%s makes %d maps", kernel->name, maps);
    }
    trial_destroy(&one.trial);
}

void ladder_older_errors(const struct problem *problem, const void *table, const long long *sizes)
{
    struct launched one = {.trial = ladder_trial(problem, sizes, INPUTS_NORMAL, 1, 0)};
    for (const struct kernel *kernel = NULL; (kernel = next_runnable(problem, table, kernel));) {
        void *none = NULL;
        prepare(&one, kernel);
        cr_assert(cudaMalloc(&none, (size_t)1 << 50) == cudaErrorMemoryAllocation);
        const cudaError_t status = trial_launch(&one.trial, kernel, &one.workspace);
        cr_expect(status == cudaSuccess, "%s takes an older error for its own: %s", kernel->name,
                  cudaGetErrorName(status));
        cr_expect(cudaGetLastError() == cudaSuccess, "%s leaves an older error", kernel->name);
        expect_right(&one, kernel, "after an error of another call");
    }
    trial_destroy(&one.trial);
}

/* Expects a launch with `by` in place of array number `replaced` to be refused with these words. */
static void expect_refused(const struct launched *one, const struct kernel *kernel,
                           const long long *sizes, int replaced, void *by, const char *words)
{
    const struct trial *trial = &one->trial;
    void *device[MAX_TENSORS];
    for (int t = 0; t < trial->tensor_count; t++)
        device[t] = t == replaced ? by : trial->device[t].data;
    refusal_clear();
    judges(kernel);
    const cudaError_t status =
        trial->problem->run(kernel, sizes, device, one->workspace.data, trial->stream);
    cr_expect(status == cudaErrorInvalidValue && strstr(refusal(), words),
              "%s: %s, and '%s' does not say '%s'", kernel->name, cudaGetErrorName(status),
              refusal(), words);
}

void ladder_refused_arrays(const struct problem *problem, const void *table, const long long *sizes,
                           int required)
{
    struct launched one = {.trial = ladder_trial(problem, sizes, INPUTS_NORMAL, 1, 0)};
    const struct trial *const trial = &one.trial;
    for (const struct kernel *kernel = NULL; (kernel = next_runnable(problem, table, kernel));) {
        prepare(&one, kernel);
        for (int t = 0; t < trial->tensor_count; t++) {
            const struct tensor *tensor = &trial->tensors[t];
            char words[80], *const array = trial->device[t].data;
            snprintf(words, sizeof words, "%s is null; it must point to", tensor->name);
            if (t < required)
                expect_refused(&one, kernel, trial->sizes, t, NULL, words);
            for (size_t off = 1; off < tensor_element_bytes(tensor->type); off++)
                expect_refused(&one, kernel, trial->sizes, t, array + off, "must be aligned to");
            for (int out = trial->input_count; t < trial->input_count && out < required; out++) {
                snprintf(words, sizeof words, "%s and %s overlap", trial->tensors[out].name,
                         tensor->name);
                expect_refused(&one, kernel, trial->sizes, out, array, words);
                expect_refused(&one, kernel, trial->sizes, t, (char *)trial->device[out].data + 16,
                               words);
            }
        }
        struct device_buffer none = {0}, workspace = one.workspace;
        one.workspace = none;
        if (workspace.data && problem_workspace(problem, kernel, trial->sizes) > 0)
            expect_refused(&one, kernel, trial->sizes, -1, NULL, "workspace is null");
        cr_assert(cudaDeviceSynchronize() == cudaSuccess);
        expect_unwritten(trial, kernel->name);
        device_buffer_destroy(&workspace);
    }
    trial_destroy(&one.trial);
}

void ladder_refused_size(const struct problem *problem, const void *table, const long long *sizes,
                         int size, long long value, const char *words)
{
    struct launched one = {.trial = ladder_trial(problem, sizes, INPUTS_NORMAL, 1, 0)};
    for (const struct kernel *kernel = NULL; (kernel = next_runnable(problem, table, kernel));) {
        long long changed[MAX_SIZES];
        memcpy(changed, one.trial.sizes, sizeof changed);
        changed[size] = value;
        prepare(&one, kernel);
        expect_refused(&one, kernel, changed, -1, NULL, words);
        cr_assert(cudaDeviceSynchronize() == cudaSuccess);
        expect_unwritten(&one.trial, kernel->name);
        device_buffer_destroy(&one.workspace);
    }
    trial_destroy(&one.trial);
}

void ladder_refuses(const struct problem *problem, const void *table, const char *name,
                    const long long *sizes, const char *words)
{
    const struct kernel *kernel = ladder_find(problem, table, name);
    const char *text = describe(problem, sizes);
    if (!ladder_wants(kernel))
        return;
    struct trial trial = ladder_trial(problem, sizes, INPUTS_NORMAL, 1, 0);
    const struct verdict verdict = trial_run(&trial, kernel);
    cr_expect(verdict.status == VERDICT_REFUSED, "%s %s was not refused: status %d, %s", name, text,
              (int)verdict.status, verdict.reason);
    cr_expect(strstr(verdict.reason, words) != NULL, "%s %s: '%s' does not say '%s'", name, text,
              verdict.reason, words);
    expect_unwritten(&trial, name);
    trial_destroy(&trial);
}
