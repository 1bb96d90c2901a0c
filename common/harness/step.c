#include "step.h"

#include "device/backend.h"
#include "options.h"
#include "output.h"
#include "refusal.h"
#include "report.h"
#include "trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Fails a kernel that does not pass each of the first cases, too. */
static void judge_first(const struct request *request, struct trial *first,
                        const struct kernel *kernel, struct verdict *verdict)
{
    struct case_walk walk;
    struct test_case one;
    cases_begin(&walk, request->problem, kernel, CASES_FIRST, request->seed);
    while (verdict->status == VERDICT_PASS && cases_next(&walk, &one)) {
        struct trial trial;
        if (case_trial(&trial, request->problem, &one) != cudaSuccess)
            continue; /* the device has no memory left */
        const struct verdict other = trial_run(&trial, kernel);
        if (other.status == VERDICT_FAIL) {
            verdict->status = other.status;
            verdict->detector = other.detector;
            trial_say(first, verdict, "at %s: %s", case_options(request->problem, &one),
                      other.reason);
        }
        trial_destroy(&trial);
    }
}

static struct result run_kernel(const struct request *request, struct trial *trial, size_t index)
{
    struct result result = {.kernel = request_kernel(request, index)};
    backend_counters_reset();
    result.verdict = trial_run(trial, result.kernel);
    result.counted = backend_counters(&result.counters) && result.verdict.status == VERDICT_PASS;
    if (result.verdict.status == VERDICT_PASS && backend_has_timing())
        result.milliseconds =
            trial_time(trial, result.kernel, (size_t)request->repeat, &result.verdict);
    if (result.verdict.status == VERDICT_PASS && !request->has_case && !request->trace &&
        !request->json /* a tool asks for one run */)
        judge_first(request, trial, result.kernel, &result.verdict);
    return result;
}

/* A failed check outweighs a refusal. */
static enum step_status worse(enum step_status status, const struct result *result)
{
    if (result->verdict.status == VERDICT_FAIL)
        return STEP_FAILED;
    if (result->verdict.status == VERDICT_REFUSED && status == STEP_PASSED)
        return STEP_BAD_USAGE;
    return status;
}

static enum step_status run_ladder(struct request *request, struct trial *trial, const char *device)
{
    enum step_status status = STEP_PASSED;
    struct result *const results = calloc(request_kernels(request) + 1, sizeof *results);
    size_t count = 0;
    if (results == NULL) {
        fprintf(stderr, "%s: there is no memory left\n", request->step->name);
        return STEP_BAD_USAGE;
    }
    memcpy(request->sizes, trial->sizes, sizeof request->sizes);
    for (size_t index = 0; index < request_kernels(request); index++) {
        if (!request_wants(request, index))
            continue;
        struct result *result = &results[count++];
        report_running(request, request_kernel(request, index));
        *result = run_kernel(request, trial, index);
        report_running(request, NULL);
        /* The report says this too. The line on stderr is for those who send the report
         * elsewhere. */
        if ((result->verdict.status == VERDICT_FAIL || result->verdict.status == VERDICT_REFUSED) &&
            !(isatty(STDOUT_FILENO) && isatty(STDERR_FILENO)))
            fprintf(stderr, "%s: %s: %s\n", request->step->name, result->kernel->name,
                    result->verdict.reason);
        status = worse(status, result);
    }
    report_results(request, device, results, count);
    free(results);
    return status;
}

/* Judges a kernel by the list of cases. */
static enum step_status run_cases_of(const struct request *request, const struct kernel *kernel)
{
    enum step_status status = STEP_PASSED;
    struct case_walk walk;
    struct test_case one;
    struct result result = {.kernel = kernel};
    struct case_count count = {.kernel = kernel};
    cases_begin(&walk, request->problem, kernel, (enum case_level)request->cases, request->seed);
    for (long long number = 0; result.verdict.status != VERDICT_SKIPPED && cases_next(&walk, &one);
         number++) {
        struct trial trial;
        if (number % request->parts != request->part - 1)
            continue;
        report_case(request, kernel, &one);
        if (case_trial(&trial, request->problem, &one) != cudaSuccess) {
            count.skipped++; /* the device has no memory left */
            continue;
        }
        result.verdict = trial_run(&trial, kernel);
        report_case_verdict(request, &one, &result);
        if (result.verdict.status == VERDICT_SKIPPED)
            count.skipped++;
        else if (result.verdict.status == VERDICT_PASS)
            count.passed++;
        else
            count.failed++;
        status = worse(status, &result);
        trial_destroy(&trial);
    }
    report_case_count(request, &count);
    if (walk.unreadable) {
        fprintf(stderr, "%s: %s\n", request->step->name, refusal());
        status = STEP_BAD_USAGE;
    }
    return status;
}

static enum step_status run_claims_of(const struct request *request, const struct kernel *kernel)
{
    struct claims claims;
    if (!claims_check(request->problem, kernel, kernel, &claims)) {
        fprintf(stderr, "%s: %s\n", request->step->name, claims.complaint);
        return claims.refused ? STEP_BAD_USAGE : STEP_FAILED;
    }
    report_claims(request, kernel, &claims);
    return claims.kept ? STEP_PASSED : STEP_FAILED;
}

static enum step_status run_cases(const struct request *request)
{
    enum step_status status = STEP_PASSED;
    for (size_t index = 0; index < request_kernels(request); index++)
        if (request_wants(request, index)) {
            const struct kernel *kernel = request_kernel(request, index);
            const enum step_status one =
                request->claims ? run_claims_of(request, kernel) : run_cases_of(request, kernel);
            status = status == STEP_FAILED || one == STEP_PASSED ? status : one;
        }
    return status;
}

static enum step_status run_request(struct request *request)
{
    const char *const step = request->step->name;
    const struct problem *const problem = request->problem;
    if (request->list) {
        struct tensor tensors[MAX_TENSORS];
        int count;
        if (problem->tensors(request->sizes, tensors, &count) != cudaSuccess) {
            fprintf(stderr, "%s: %s\n", step, refusal());
            return STEP_BAD_USAGE;
        }
        report_list(request);
        return STEP_PASSED;
    }

    if (request->json)
        output_set_apart();
    const char *complaint =
        request->trace ? backend_trace(request->trace, request->trace_block, request->trace_warp)
                       : "";
    if (*complaint) {
        fprintf(stderr, "%s: --trace: %s\n", step, complaint);
        return STEP_BAD_USAGE;
    }
    if (*backend_complaint()) {
        fprintf(stderr, "%s: %s\n", step, backend_complaint());
        return STEP_BAD_USAGE;
    }

    int devices = 0;
    struct cudaDeviceProp properties;
    cudaError_t status = cudaGetDeviceCount(&devices);
    if (status == cudaSuccess)
        status = devices > 0 ? cudaGetDeviceProperties(&properties, 0) : cudaErrorNoDevice;
    if (status != cudaSuccess) {
        fprintf(stderr,
                "%s: no usable device (%s); `make doctor` says why, BACKEND=cpu needs none\n", step,
                cudaGetErrorString(status));
        return STEP_NO_DEVICE;
    }

    struct trial trial;
    struct test_case one = {.inputs = request->inputs, .seed = request->seed};
    memcpy(one.sizes, request->sizes, sizeof one.sizes);
    refusal_clear();
    if (request->cases >= 0 || request->claims)
        return run_cases(request);
    if (!case_read(problem, request->placement, &one)) {
        fprintf(stderr, "%s: %s\n", step, refusal());
        return STEP_BAD_USAGE;
    }
    status = case_trial(&trial, problem, &one);
    if (status != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", step, *refusal() ? refusal() : cudaGetErrorString(status));
        return STEP_BAD_USAGE;
    }
    const enum step_status outcome = run_ladder(request, &trial, properties.name);
    trial_destroy(&trial);
    return outcome;
}

/* Where nothing is named, a further problem that does not have the options is not meant. */
static enum step_status run_problem(int argc, char **argv, const struct step *step,
                                    const struct problem *problem)
{
    struct request request;
    enum step_status status = STEP_PASSED;
    const bool understood = options_parse(&request, step, problem, argc, argv);
    const bool further = problem != step->ladders[0].problem;
    if (!request_asks(&request) || (!understood && further && !request.named)) {
        status = STEP_PASSED;
    } else if (!understood) {
        fprintf(stderr, "%s: %s\n", step->name, request.complaint);
        status = STEP_BAD_USAGE;
    } else if (!request.help) {
        if (further && !request.named && !request.list)
            printf("\n");
        status = run_request(&request);
    }
    options_free(&request);
    return status;
}

static enum step_status run_step(int argc, char **argv, const struct step *step)
{
    enum step_status status = STEP_PASSED;
    const struct problem *problem = NULL;
    while (status != STEP_BAD_USAGE && (problem = step_problem_after(step, problem))) {
        const enum step_status one = run_problem(argc, argv, step, problem);
        status = one == STEP_PASSED || status == STEP_FAILED ? status : one;
    }
    return status;
}

int step_main(int argc, char **argv, const struct step *step)
{
    if (!output_is_open())
        return STEP_BAD_USAGE;
    const enum step_status status = run_step(argc, argv, step);
    if (!output_arrived(stdout) && status == STEP_PASSED)
        return STEP_BAD_USAGE;
    return status;
}
