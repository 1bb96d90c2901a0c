#include "trial.h"

#include "device/backend.h"
#include "refusal.h"
#include "stopwatch.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A reference may take this many multiply-adds, about a second; beyond that, rows are drawn at
 * random. */
static const double REFERENCE_BUDGET = 5e8;

/* These are the texts about one run that did not pass. */
struct words {
    struct words *earlier;
    struct explanation explanation;
    char reason[2000]; /* the checker's reports are long */
};

const char *detector_name(enum detector detector)
{
    static const char *const names[] = {
        [DETECTOR_NONE] = "none",     [DETECTOR_LAUNCH] = "launch",
        [DETECTOR_GUARD] = "guard",   [DETECTOR_INPUTS] = "inputs",
        [DETECTOR_POISON] = "poison", [DETECTOR_COMPARISON] = "comparison",
    };
    return names[detector];
}

/* The size is a double, because the sizes of a request that must be refused may overflow size_t. */
static double tensor_bytes(const struct tensor *tensor)
{
    return (double)tensor->rows * (double)tensor->cols * (double)tensor_element_bytes(tensor->type);
}

static bool is_output(const struct trial *trial, int index)
{
    return trial->tensors[index].role == TENSOR_OUTPUT;
}

static cudaError_t require_memory(const char *where, double needed, double available)
{
    const double GiB = 1024.0 * 1024.0 * 1024.0;
    if (needed <= available)
        return cudaSuccess;
    return refuse(cudaErrorMemoryAllocation,
                  "these sizes need %.3g GiB of %s memory; %.3g GiB are free", needed / GiB, where,
                  available / GiB);
}

/* Refuses what cannot fit before anything is allocated. A host that promises more memory than it
 * has would die halfway through. */
static cudaError_t require_fit(const struct trial *trial)
{
    double device_bytes = 0.0, host_bytes = 0.0;
    for (int t = 0; t < trial->tensor_count; t++) {
        device_bytes += tensor_bytes(&trial->tensors[t]);
        host_bytes += tensor_bytes(&trial->tensors[t]);
        if (is_output(trial, t))
            host_bytes += 2.0 * sizeof(double) * (double)trial->rows[t].count *
                          (double)trial->tensors[t].cols;
    }

    size_t device_free = 0, device_total = 0;
    cudaError_t status = cudaMemGetInfo(&device_free, &device_total);
    if (status != cudaSuccess)
        return status;
    if ((status = require_memory("device", device_bytes, (double)device_free)) != cudaSuccess)
        return status;
    return require_memory("host", host_bytes,
                          (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE));
}

/* Describes an array to traces. */
static void describe(const struct device_buffer *buffer, const struct tensor *tensor)
{
    struct description about = {
        tensor->name, tensor_type_names[tensor->type], tensor_element_bytes(tensor->type), {0}};
    memcpy(about.shape, tensor->shape, sizeof about.shape);
    backend_describe(buffer->data, buffer->bytes, &about);
}

/* How often a kernel took the whole context along: memory and streams from before are gone. */
static int resets;

static cudaError_t create_device(struct trial *trial)
{
    trial->resets = resets;
    cudaError_t status = cudaStreamCreateWithFlags(&trial->stream, cudaStreamNonBlocking);
    for (int t = 0; t < trial->tensor_count && status == cudaSuccess; t++) {
        const size_t bytes = (size_t)tensor_bytes(&trial->tensors[t]);
        const int alone = trial->placement.offset_array;
        const size_t offset = alone > 0 && alone != t + 1 ? 0 : trial->placement.offset;
        status = device_buffer_create(&trial->device[t], bytes, offset);
        if (status == cudaSuccess)
            describe(&trial->device[t], &trial->tensors[t]);
        if (status == cudaSuccess && !is_output(trial, t))
            status = device_buffer_upload(&trial->device[t], trial->host[t]);
    }
    return status;
}

static void destroy_device(struct trial *trial)
{
    for (int t = 0; t < trial->tensor_count; t++) {
        if (trial->resets == resets)
            device_buffer_destroy(&trial->device[t]);
        trial->device[t] = (struct device_buffer){0};
    }
    if (trial->stream && trial->resets == resets)
        cudaStreamDestroy(trial->stream);
    trial->stream = NULL;
}

static int ascending(const void *left, const void *right)
{
    const size_t a = *(const size_t *)left, b = *(const size_t *)right;
    return (a > b) - (a < b);
}

static size_t rows_to_check(const struct trial *trial, size_t rows)
{
    const double cost = trial->problem->reference_cost(trial->sizes);
    const double affordable = cost > 0.0 ? REFERENCE_BUDGET / cost : (double)rows;
    if ((double)rows <= affordable)
        return rows;
    return affordable < 2.0 ? 2 : (size_t)affordable;
}

/* Chooses all rows, or the first, the last and a random selection of the others. A row that is
 * drawn twice is checked twice, which does no harm. */
static void choose_rows(struct row_list *list, size_t rows, uint64_t seed)
{
    const uint64_t rows_stream = UINT64_MAX;
    for (size_t i = 0; i < list->count; i++) {
        if (list->count == rows)
            list->row[i] = i;
        else if (i < 2)
            list->row[i] = i == 0 ? 0 : rows - 1;
        else
            list->row[i] = input_bits(seed, rows_stream, i) % rows;
    }
    qsort(list->row, list->count, sizeof *list->row, ascending);
}

static void compute_reference(struct trial *trial)
{
    const int first = trial->input_count;
    trial->problem->reference(trial->sizes, (const void *const *)trial->host, trial->rows + first,
                              trial->value + first, trial->scale + first);
}

/* Allocates one byte more, so that an empty array has an address too. */
static void *allocate(size_t count, size_t bytes)
{
    return malloc(count * bytes + 1);
}

static bool allocate_host(struct trial *trial)
{
    bool complete = true;
    for (int t = 0; t < trial->tensor_count; t++) {
        const struct tensor *tensor = &trial->tensors[t];
        trial->host[t] = allocate(tensor->rows * tensor->cols, tensor_element_bytes(tensor->type));
        complete = complete && trial->host[t] != NULL;
        if (is_output(trial, t)) {
            struct row_list *rows = &trial->rows[t];
            rows->row = allocate(rows->count, sizeof *rows->row);
            trial->value[t] = allocate(rows->count * tensor->cols, sizeof(double));
            trial->scale[t] = allocate(rows->count * tensor->cols, sizeof(double));
            complete = complete && rows->row && trial->value[t] && trial->scale[t];
        }
    }
    return complete;
}

cudaError_t trial_create(struct trial *trial, const struct problem *problem, const long long *sizes,
                         enum input_kind kind, uint64_t seed, size_t offset)
{
    return trial_create_placed(trial, problem, sizes, kind, seed,
                               &(struct placement){.offset = offset});
}

cudaError_t trial_create_placed(struct trial *trial, const struct problem *problem,
                                const long long *sizes, enum input_kind kind, uint64_t seed,
                                const struct placement *placement)
{
    *trial = (struct trial){.problem = problem, .placement = *placement};
    memcpy(trial->sizes, sizes, sizeof trial->sizes);

    cudaError_t status = problem->tensors(trial->sizes, trial->tensors, &trial->tensor_count);
    if (status != cudaSuccess) {
        *trial = (struct trial){0};
        return status;
    }
    while (!is_output(trial, trial->input_count))
        trial->input_count++;
    for (int t = trial->input_count; t < trial->tensor_count; t++)
        trial->rows[t].count = rows_to_check(trial, trial->tensors[t].rows);

    if ((status = require_fit(trial)) == cudaSuccess && !allocate_host(trial))
        status =
            refuse(cudaErrorMemoryAllocation, "the host has not enough memory for these sizes");
    if (status == cudaSuccess) {
        problem_inputs(problem, trial->sizes, kind, seed, trial->host);
        for (int t = trial->input_count; t < trial->tensor_count; t++)
            choose_rows(&trial->rows[t], trial->tensors[t].rows, seed);
        compute_reference(trial);
        status = create_device(trial);
    }
    if (status != cudaSuccess)
        trial_destroy(trial);
    return status;
}

cudaError_t trial_update(struct trial *trial)
{
    cudaError_t status = cudaSuccess;
    if (trial->problem->derive)
        trial->problem->derive(trial->sizes, trial->host);
    compute_reference(trial);
    for (int t = 0; t < trial->input_count && status == cudaSuccess; t++)
        status = device_buffer_upload(&trial->device[t], trial->host[t]);
    return status;
}

void trial_destroy(struct trial *trial)
{
    destroy_device(trial);
    for (int t = 0; t < trial->tensor_count; t++) {
        free(trial->host[t]);
        free(trial->rows[t].row);
        free(trial->value[t]);
        free(trial->scale[t]);
    }
    for (struct words *words = trial->words, *earlier; words; words = earlier) {
        earlier = words->earlier;
        free(words);
    }
    *trial = (struct trial){0};
}

void trial_say(struct trial *trial, struct verdict *verdict, const char *format, ...)
{
    struct words *words = calloc(1, sizeof *words);
    verdict->reason = "there is no memory to say why";
    if (!words)
        return;
    words->earlier = trial->words;
    trial->words = words;
    verdict->reason = words->reason;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words->reason, sizeof words->reason, format, arguments);
    va_end(arguments);
}

static void fail(struct verdict *verdict, enum detector detector)
{
    verdict->status = VERDICT_FAIL;
    verdict->detector = detector;
}

static void fail_launch(struct trial *trial, struct verdict *verdict, const char *when,
                        cudaError_t error)
{
    const char *report = backend_report();
    fail(verdict, DETECTOR_LAUNCH);
    trial_say(trial, verdict, "%s%s%s%s", when, cudaGetErrorString(error), *report ? ": " : "",
              report);
}

static bool guards_intact(struct trial *trial, const struct device_buffer *buffer, const char *name,
                          struct verdict *verdict)
{
    long long distance;
    cudaError_t status;
    if (device_buffer_guards_intact(buffer, &distance, &status))
        return true;
    fail(verdict, DETECTOR_GUARD);
    if (status != cudaSuccess)
        fail_launch(trial, verdict, "", status);
    else if (distance < 0)
        trial_say(trial, verdict, "%s: written %lld bytes before its beginning", name, -distance);
    else
        trial_say(trial, verdict, "%s: written %lld bytes past its end", name, distance);
    return false;
}

static bool input_unchanged(struct trial *trial, int t, struct verdict *verdict)
{
    const size_t bytes = trial->device[t].bytes;
    void *after = allocate(bytes, 1);
    bool unchanged = after && device_buffer_download(&trial->device[t], after) == cudaSuccess &&
                     memcmp(after, trial->host[t], bytes) == 0;
    free(after);
    if (!unchanged) {
        fail(verdict, DETECTOR_INPUTS);
        trial_say(trial, verdict, "input %s was changed", trial->tensors[t].name);
    }
    return unchanged;
}

static bool all_written(struct trial *trial, int t, struct verdict *verdict)
{
    const struct tensor *tensor = &trial->tensors[t];
    const size_t count = tensor->rows * tensor->cols;
    const size_t unwritten = check_unwritten(trial->host[t], tensor->type, count, t);
    if (unwritten == count)
        return true;
    fail(verdict, DETECTOR_POISON);
    trial_say(trial, verdict, "%s[%zu][%zu] was never written", tensor->name,
              unwritten / tensor->cols, unwritten % tensor->cols);
    return false;
}

/* An output whose pointer was null still has its array here, in which nothing may be written. */
static bool left_alone(struct trial *trial, int t, struct verdict *verdict)
{
    const struct tensor *tensor = &trial->tensors[t];
    for (size_t i = 0; i < tensor->rows * tensor->cols; i++)
        if (!check_is_poison(trial->host[t], tensor->type, i, t)) {
            fail(verdict, DETECTOR_GUARD);
            trial_say(trial, verdict, "%s[%zu][%zu] was written although %s is null", tensor->name,
                      i / tensor->cols, i % tensor->cols, tensor->name);
            return false;
        }
    return true;
}

void trial_compare(const struct trial *trial, struct comparison *comparison)
{
    for (int t = trial->input_count; t < trial->tensor_count; t++) {
        const struct tensor *tensor = &trial->tensors[t];
        for (size_t i = 0; i < trial->rows[t].count && t != trial->placement.null_array; i++)
            check_compare(comparison, tensor, trial->host[t], trial->rows[t].row[i] * tensor->cols,
                          tensor->cols, trial->value[t] + i * tensor->cols,
                          trial->scale[t] + i * tensor->cols);
    }
}

static double relative_l2(const struct trial *trial)
{
    const int t = trial->input_count;
    const struct tensor *tensor = &trial->tensors[t];
    double difference = 0.0, norm = 0.0;
    for (size_t i = 0; i < trial->rows[t].count * tensor->cols; i++) {
        const size_t row = trial->rows[t].row[i / tensor->cols], col = i % tensor->cols;
        const double value = trial->value[t][i];
        if (!isfinite(value))
            continue;
        const double distance =
            tensor_element(trial->host[t], tensor->type, row * tensor->cols + col) - value;
        difference += distance * distance;
        norm += value * value;
    }
    return norm > 0.0 ? sqrt(difference / norm) : sqrt(difference);
}

/* Checks what a run left behind, in the order of enum detector; the first fault is the verdict. */
static void judge(struct trial *trial, const struct device_buffer *workspace,
                  struct verdict *verdict)
{
    for (int t = 0; t < trial->tensor_count; t++)
        if (!guards_intact(trial, &trial->device[t], trial->tensors[t].name, verdict))
            return;
    if (workspace->base && !guards_intact(trial, workspace, "workspace", verdict))
        return;
    for (int t = 0; t < trial->input_count; t++)
        if (!input_unchanged(trial, t, verdict))
            return;
    for (int t = trial->input_count; t < trial->tensor_count; t++) {
        const cudaError_t status = device_buffer_download(&trial->device[t], trial->host[t]);
        if (status != cudaSuccess) {
            fail_launch(trial, verdict, "", status);
            return;
        }
        if (t == trial->placement.null_array ? !left_alone(trial, t, verdict)
                                             : !all_written(trial, t, verdict))
            return;
    }
    struct comparison comparison = {.bound = verdict->bound, .error = verdict->error};
    trial_compare(trial, &comparison);
    verdict->error = comparison.error;
    verdict->relative_l2 = relative_l2(trial);
    if (comparison.wrong) {
        fail(verdict, DETECTOR_COMPARISON);
        trial_say(trial, verdict, "%s", comparison.first);
    }
}

cudaError_t trial_launch(const struct trial *trial, const struct kernel *kernel,
                         const struct device_buffer *workspace)
{
    void *device[MAX_TENSORS];
    for (int t = 0; t < trial->tensor_count; t++)
        device[t] = t > 0 && t == trial->placement.null_array ? NULL : trial->device[t].data;
    return trial->problem->run(kernel, trial->sizes, device, workspace->data, trial->stream);
}

/* Makes device memory as trial_create() did. A kernel that failed may have left anything in it, and
 * one that crashed took the whole context along. */
static cudaError_t renew_device(struct trial *trial)
{
    cudaGetLastError(); /* asking for an error that is not sticky clears it */
    if (trial->resets == resets && cudaDeviceSynchronize() != cudaSuccess) {
        resets++;
        cudaDeviceReset();
    }
    destroy_device(trial);
    return create_device(trial);
}

cudaError_t trial_poison(const struct trial *trial, const struct device_buffer *workspace)
{
    const bool there = trial->stream && trial->resets == resets;
    cudaError_t status = there ? cudaGetLastError() : cudaErrorInvalidResourceHandle;
    for (int t = trial->input_count; t < trial->tensor_count && status == cudaSuccess; t++)
        status = device_buffer_poison(&trial->device[t], check_poison(trial->tensors[t].type, t));
    if (workspace && status == cudaSuccess)
        status = device_buffer_poison(workspace, check_poison(TENSOR_F32, POISON_OF_WORKSPACE));
    return status;
}

/* An error from before this run is not this kernel's fault. */
static cudaError_t prepare(struct trial *trial)
{
    cudaError_t status = trial_poison(trial, NULL);
    if (status != cudaSuccess && (status = renew_device(trial)) == cudaSuccess)
        status = trial_poison(trial, NULL);
    return status;
}

/* Runs the kernel once more. Returns whether it leaves the same outputs, bit for bit. */
static bool repeats(struct trial *trial, const struct kernel *kernel,
                    const struct device_buffer *workspace)
{
    bool same = true;
    if (trial_poison(trial, workspace) != cudaSuccess ||
        trial_launch(trial, kernel, workspace) != cudaSuccess ||
        cudaStreamSynchronize(trial->stream) != cudaSuccess)
        return true; /* this is another fault, and tells nothing about the values */
    for (int t = trial->input_count; t < trial->tensor_count && same; t++) {
        const size_t bytes = trial->device[t].bytes;
        void *again = allocate(bytes, 1);
        same = !again || device_buffer_download(&trial->device[t], again) != cudaSuccess ||
               memcmp(again, trial->host[t], bytes) == 0;
        free(again);
    }
    return same;
}

/* Puts what is known of wrong values into the verdict, and at the end of its reason. */
static void explain_values(struct trial *trial, const struct kernel *kernel,
                           const struct device_buffer *workspace, struct verdict *verdict)
{
    struct words *words = trial->words;
    for (int t = trial->input_count; t < trial->tensor_count; t++)
        device_buffer_download(&trial->device[t], trial->host[t]);
    const struct outputs outputs = {.problem = trial->problem,
                                    .sizes = trial->sizes,
                                    .tensors = trial->tensors,
                                    .tensor_count = trial->tensor_count,
                                    .input_count = trial->input_count,
                                    .host = (const void *const *)trial->host,
                                    .rows = trial->rows,
                                    .value = trial->value,
                                    .scale = trial->scale};
    if (!words || verdict->reason != words->reason || !explain(&outputs, &words->explanation))
        return;
    if (!repeats(trial, kernel, workspace))
        explain_as_unstable(&words->explanation);
    const struct explanation *explanation = verdict->explanation = &words->explanation;
    const size_t used = strlen(words->reason);
    snprintf(words->reason + used, sizeof words->reason - used, ". %s%s%s", explanation->where,
             *explanation->why ? ". Why: " : "", explanation->why);
}

/* What an earlier launch wrote must not pass for the last one's. */
static cudaError_t launch_all(struct trial *trial, const struct kernel *kernel,
                              const struct device_buffer *workspace)
{
    const int launches = trial->placement.launches;
    cudaError_t status = cudaSuccess;
    for (int i = 0; i + 1 < launches && status == cudaSuccess; i++)
        status = trial_launch(trial, kernel, workspace);
    if (launches > 1 && status == cudaSuccess)
        status = cudaStreamSynchronize(trial->stream);
    if (launches > 1 && status == cudaSuccess)
        status = trial_poison(trial, NULL);
    return status == cudaSuccess ? trial_launch(trial, kernel, workspace) : status;
}

struct verdict trial_run(struct trial *trial, const struct kernel *kernel)
{
    struct verdict verdict = {
        .status = VERDICT_REFUSED, .bound = trial->problem->bound(trial->sizes), .reason = ""};
    struct device_buffer workspace = {0};
    const size_t workspace_bytes = problem_workspace(trial->problem, kernel, trial->sizes);

    cudaError_t status = prepare(trial);
    if (status != cudaSuccess) {
        trial_say(trial, &verdict, "not run: the device could not be set up again (%s)",
                  cudaGetErrorString(status));
        return verdict;
    }
    if (workspace_bytes > 0) {
        status = device_buffer_create(&workspace, workspace_bytes, 0);
        backend_describe(workspace.data, workspace.bytes,
                         &(struct description){"workspace", "", 0, {0}});
    }
    if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        trial_say(trial, &verdict, "needs %zu bytes of workspace, which the device does not have",
                  workspace_bytes);
        return verdict;
    }

    if (status == cudaSuccess)
        status = device_buffer_poison(&workspace, check_poison(TENSOR_F32, POISON_OF_WORKSPACE));

    refusal_clear();
    if (status == cudaSuccess)
        status = launch_all(trial, kernel, &workspace);
    if ((status == cudaErrorInvalidValue || status == cudaErrorNotSupported) && *refusal()) {
        verdict.status = status == cudaErrorNotSupported ? VERDICT_SKIPPED : VERDICT_REFUSED;
        trial_say(trial, &verdict, "%s", refusal());
    } else {
        verdict.status = VERDICT_PASS;
        if (status == cudaSuccess)
            status = cudaStreamSynchronize(trial->stream);
        if (status == cudaSuccess)
            judge(trial, &workspace, &verdict);
        else
            fail_launch(trial, &verdict, "", status);
    }
    if (verdict.detector == DETECTOR_POISON || verdict.detector == DETECTOR_COMPARISON)
        explain_values(trial, kernel, &workspace, &verdict);
    device_buffer_destroy(&workspace);
    if (verdict.status == VERDICT_FAIL && renew_device(trial) != cudaSuccess)
        destroy_device(trial); /* the next run tries again */
    return verdict;
}

static cudaError_t time_laps(struct trial *trial, const struct kernel *kernel,
                             struct stopwatch *watch, const struct device_buffer *workspace,
                             float *lap, size_t laps)
{
    enum { WARM_UP = 2 };
    cudaError_t status = cudaSuccess;
    for (size_t i = 0; i < WARM_UP + laps && status == cudaSuccess; i++) {
        if (i + 1 == WARM_UP + laps)
            status = trial_poison(trial, NULL);
        if (status == cudaSuccess && (status = stopwatch_start(watch)) == cudaSuccess &&
            (status = trial_launch(trial, kernel, workspace)) == cudaSuccess)
            status = stopwatch_stop(watch, &lap[i < WARM_UP ? 0 : i - WARM_UP]);
    }
    return status;
}

double trial_time(struct trial *trial, const struct kernel *kernel, size_t laps,
                  struct verdict *verdict)
{
    struct stopwatch watch = {0};
    struct device_buffer workspace = {0};
    double milliseconds = 0.0;
    const size_t workspace_bytes = problem_workspace(trial->problem, kernel, trial->sizes);
    float *lap = malloc((laps + 1) * sizeof *lap);
    cudaError_t status = lap ? stopwatch_create(&watch, trial->stream) : cudaErrorMemoryAllocation;
    if (status == cudaSuccess && workspace_bytes > 0)
        status = device_buffer_create(&workspace, workspace_bytes, 0);
    if (status == cudaSuccess)
        status = time_laps(trial, kernel, &watch, &workspace, lap, laps);
    if (status == cudaSuccess) {
        milliseconds = stopwatch_median(lap, laps);
        judge(trial, &workspace, verdict);
    } else {
        fail_launch(trial, verdict, "while timing: ", status);
    }
    if (verdict->status == VERDICT_FAIL && renew_device(trial) != cudaSuccess)
        destroy_device(trial); /* the next run tries again */
    free(lap);
    device_buffer_destroy(&workspace);
    stopwatch_destroy(&watch);
    return milliseconds;
}
