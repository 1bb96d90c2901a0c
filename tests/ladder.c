#include "ladder.h"

#include "harness.h"
#include "refusal.h"
#include "step.h"

#include <criterion/hooks.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double WATCHED_ONE_ORDER = 4e6, WATCHED_NONE = 1e8;

const char *const thread_orders[] = {"inorder", "reversed", "random:7", NULL};

/* The tests set orders of their own and skip what a device is too old for: a bad value would pass.
 */
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

bool ladder_wants(const struct kernel *kernel)
{
    const char *wanted = getenv(KERNEL_VARIABLE);
    const size_t length = strlen(kernel->name);
    for (const char *at = wanted; at && (at = strstr(at, kernel->name)); at += length)
        if ((at == wanted || at[-1] == ' ') && (at[length] == '\0' || at[length] == ' '))
            return true;
    return wanted == NULL;
}

bool ladder_full_size(void)
{
    return strcmp(backend_name(), "gpu") == 0 && !getenv(WATCHED_VARIABLE);
}

static bool watched(void)
{
    return strcmp(backend_name(), "check") == 0 || getenv(WATCHED_VARIABLE) != NULL;
}

/* "m=3 n=5 k=7" */
static void describe(const struct problem *problem, const long long *sizes, char *text,
                     size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int s = 0; problem->sizes[s].name && used < bytes; s++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s=%lld", s > 0 ? " " : "",
                                 problem->sizes[s].name, sizes[s]);
}

static struct trial create(const struct problem *problem, const long long *sizes,
                           enum input_kind kind, uint64_t seed, size_t offset)
{
    struct trial trial;
    char text[200];
    describe(problem, sizes, text, sizeof text);
    refusal_clear();
    const cudaError_t status = trial_create(&trial, problem, sizes, kind, seed, offset);
    cr_assert(status == cudaSuccess, "%s: no trial: %s %s", text, cudaGetErrorString(status),
              refusal());
    return trial;
}

static void check_kernel(struct trial *trial, const struct kernel *kernel, const char *text,
                         enum input_kind kind, size_t offset)
{
    const char *name = kernel->name;
    const bool one_order = getenv(WATCHED_VARIABLE) ||
                           (watched() && trial->problem->flops(trial->sizes) > WATCHED_ONE_ORDER);
    for (int order = 0; thread_orders[order] && !(one_order && order > 0); order++) {
        setenv(ORDER_VARIABLE, thread_orders[order], 1);
        const struct verdict verdict = trial_run(trial, kernel);
        unsetenv(ORDER_VARIABLE);
        if (verdict.status == VERDICT_SKIPPED) {
            fprintf(stderr, "skipped: %s %s\n", name, verdict.reason);
            return;
        }
        cr_expect(verdict.status == VERDICT_PASS,
                  "%s %s inputs=%s offset=%zu order=%s: %s: %s (error %.3g, bound %.3g)", name,
                  text, input_kind_name(kind), offset, thread_orders[order],
                  detector_name(verdict.detector), verdict.reason, verdict.error, verdict.bound);
    }
}

void ladder_check(const struct problem *problem, const void *table, const long long *sizes,
                  enum input_kind kind, uint64_t seed, size_t offset)
{
    char text[200];
    describe(problem, sizes, text, sizeof text);
    if (watched() && problem->flops(sizes) > WATCHED_NONE) {
        fprintf(stderr, "too large to watch every access: %s %s\n", problem->name, text);
        return;
    }
    struct trial trial = create(problem, sizes, kind, seed, offset);
    const struct kernel *kernel;
    for (size_t index = 0; (kernel = problem_kernel(problem, table, index))->name; index++)
        if (ladder_wants(kernel))
            check_kernel(&trial, kernel, text, kind, offset);
    trial_destroy(&trial);
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

/* What a passing run did; false where it is not counted, or the device is too old for it. */
static bool count(const struct problem *problem, const struct kernel *kernel,
                  const long long *sizes, struct counters *counters)
{
    *counters = (struct counters){0};
    if (!ladder_wants(kernel))
        return false;
    struct trial trial = create(problem, sizes, INPUTS_NORMAL, 1, 0);
    backend_counters_reset();
    const struct verdict verdict = trial_run(&trial, kernel);
    const bool counted = backend_counters(counters);
    trial_destroy(&trial);
    if (verdict.status == VERDICT_SKIPPED) {
        fprintf(stderr, "skipped: %s %s\n", kernel->name, verdict.reason);
        return false;
    }
    cr_assert(verdict.status == VERDICT_PASS, "%s: %s", kernel->name, verdict.reason);
    return counted;
}

static void expect_cost(const char *name, const char *text, const char *what,
                        unsigned long long counted, long long formula)
{
    cr_expect(counted == (unsigned long long)formula, "%s %s: %llu %s, its row says %lld", name,
              text, counted, what, formula);
}

void ladder_costs(const struct problem *problem, const void *table, const long long *sizes)
{
    char text[200];
    describe(problem, sizes, text, sizeof text);
    const struct kernel *kernel;
    for (size_t index = 0; (kernel = problem_kernel(problem, table, index))->name; index++) {
        const struct cost cost = problem->cost(kernel, sizes);
        struct counters did;
        if (!count(problem, kernel, sizes, &did))
            continue;
        expect_cost(kernel->name, text, "loads", did.global_loads, cost.loads);
        expect_cost(kernel->name, text, "stores", did.global_stores, cost.stores);
        expect_cost(kernel->name, text, "bytes read", did.global_load_bytes, cost.bytes_read);
        expect_cost(kernel->name, text, "bytes written", did.global_store_bytes,
                    cost.bytes_written);
    }
}

bool ladder_count(const struct problem *problem, const void *table, const char *name,
                  const long long *sizes, struct counters *counters)
{
    return count(problem, ladder_find(problem, table, name), sizes, counters);
}

/* Makes launch number `failing` of one run fail, or none for 0. False when the run has no such
 * launch. */
static bool returns_error(struct trial *trial, const struct kernel *kernel, int failing)
{
    struct device_buffer workspace;
    void *device[MAX_TENSORS];
    char number[20], words[80];
    for (int t = 0; t < trial->tensor_count; t++)
        device[t] = trial->device[t].data;
    cr_assert_eq(device_buffer_create(&workspace,
                                      problem_workspace(trial->problem, kernel, trial->sizes), 0),
                 cudaSuccess);
    snprintf(number, sizeof number, "%d", failing);
    snprintf(words, sizeof words, "SIMT_FAIL_LAUNCH makes launch %d fail", failing);
    setenv("SIMT_FAIL_LAUNCH", number, 1);
    const cudaError_t status =
        trial->problem->run(kernel, trial->sizes, device, workspace.data, trial->stream);
    unsetenv("SIMT_FAIL_LAUNCH");
    const bool failed = strstr(backend_report(), words) != NULL;
    cr_expect(!(failed || failing == 1) || status == cudaErrorLaunchOutOfResources,
              "%s: launch %d fails, and the launcher returns %s", kernel->name, failing,
              cudaGetErrorName(status));
    cudaGetLastError();
    cudaDeviceSynchronize();
    device_buffer_destroy(&workspace);
    return failed;
}

void ladder_returns_errors(const struct problem *problem, const void *table, const long long *sizes)
{
    enum { MOST_LAUNCHES = 20 };
    if (strcmp(backend_name(), "gpu") == 0) {
        fprintf(stderr, "skipped: no launch of a GPU can be made to fail\n");
        return;
    }
    struct trial trial = create(problem, sizes, INPUTS_NORMAL, 1, 0);
    const struct kernel *kernel;
    for (size_t index = 0; (kernel = problem_kernel(problem, table, index))->name; index++) {
        const struct verdict verdict = trial_run(&trial, kernel);
        if (verdict.status == VERDICT_SKIPPED || !ladder_wants(kernel))
            continue;
        cr_expect(verdict.status == VERDICT_PASS, "%s: %s", kernel->name, verdict.reason);
        for (int failing = 1; failing <= MOST_LAUNCHES; failing++) {
            if (!returns_error(&trial, kernel, failing))
                break;
            trial_run(&trial, kernel); /* without a failure: the next count begins at 1 */
        }
    }
    trial_destroy(&trial);
}

void ladder_refuses(const struct problem *problem, const void *table, const char *name,
                    const long long *sizes, const char *words)
{
    const struct kernel *kernel = ladder_find(problem, table, name);
    char text[200];
    if (!ladder_wants(kernel))
        return;
    describe(problem, sizes, text, sizeof text);
    struct trial trial = create(problem, sizes, INPUTS_NORMAL, 1, 0);
    const struct verdict verdict = trial_run(&trial, kernel);
    cr_expect(verdict.status == VERDICT_REFUSED, "%s %s was not refused: status %d, %s", name, text,
              (int)verdict.status, verdict.reason);
    cr_expect(strstr(verdict.reason, words) != NULL, "%s %s: '%s' does not say '%s'", name, text,
              verdict.reason, words);
    for (int t = trial.input_count; t < trial.tensor_count; t++) {
        const struct tensor *tensor = &trial.tensors[t];
        const size_t count = tensor->rows * tensor->cols;
        cr_assert(device_buffer_download(&trial.device[t], trial.host[t]) == cudaSuccess);
        for (size_t i = 0; i < count; i++)
            cr_assert(check_is_poison(trial.host[t], tensor->type, i, t),
                      "%s %s wrote %s although it refused", name, text, tensor->name);
    }
    trial_destroy(&trial);
}
