/*
 * This is the grader's own process: the judge of the step programs and the tests, with their lists
 * of cases, claims and explanations. A student's code never runs here. Where a trial launches a
 * kernel, this program asks the grader to run the student's program on a copy of the trial's
 * memory, and puts what comes back in its place (case.h).
 *
 *     judge REQUEST ANSWER   (the two files)
 *
 * Commands come on stdin, one a line, and each is answered with a line of JSON:
 *
 *     kernel NAME             the commands below are about this kernel
 *     cases LEVEL SEED        lists its cases
 *     case ORDER LAPS OPTIONS judges one; ORDER is that of threads (SIMT_ORDER), - for the default
 *     claims [TEXT]           checks the claims of its row, or these
 *
 * Before an answer there may be lines {"run": BYTES}. The grader then runs the student's program
 * with REQUEST as its input and ANSWER, of so many bytes, as its output, and says "ended", or how
 * it ended otherwise.
 *
 * In a judgement, "what" is this program's own words, which reveal neither sizes nor inputs;
 * "reason" is for instructors.
 */
#include "case.h"
#include "device/backend.h"
#include "harness/cases.h"
#include "harness/claims.h"
#include "harness/device_buffer.h"
#include "harness/ladder.h"
#include "harness/refusal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define DECLARED(name) extern const struct step name;
EACH_STEP(DECLARED)
#define NAMED(name) &name,
static const struct step *const steps[] = {EACH_STEP(NAMED)};

static struct {
    const char *request_path, *answer_path;
    const struct kernel *kernel;
    struct problem problem; /* the kernel's, but that run() asks the grader */
    cudaError_t (*run)(const struct kernel *, const long long *, void *const *, void *,
                       cudaStream_t);
    char order[32];
    long long calls, laps;
    struct lab_answer head;
    char what[200], reason[sizeof(((struct lab_answer *)0)->report) + 100];
} now;

/* ---- JSON ---- */

static void print_text(const char *name, const char *text)
{
    printf(", \"%s\": \"", name);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else
            putchar((unsigned char)*text >= ' ' && (unsigned char)*text < 127 ? *text : ' ');
    printf("\"");
}

static void complain(const char *why)
{
    printf("{\"verdict\": \"error\"");
    print_text("reason", why);
    printf("}\n");
}

/* ---- A launch ---- */

/* Says what the checked build reports, in words that no submission can influence. */
static const char *kind_of_report(const char *report)
{
    static const char *const kinds[][2] = {
        {"race on shared memory", "a race on shared memory"},
        {"race on global memory", "a race on global memory"},
        {"shared memory of another block",
         "shared memory of another block was used at a wrong time"},
        {"proxy fence", "a proxy fence is missing"},
        {"uninitialised", "memory was read before anything was written to it"},
        {"use after free", "freed memory was used"},
        {"out of bounds", "an access out of bounds"},
        {"misaligned", "a misaligned address"},
        {"null pointer", "a null pointer was followed"},
        {"host pointer", "a kernel followed a pointer to host memory"},
        {"stack overflow", "too much local memory, or recursion"},
        {"division by zero", "an integer was divided by zero"},
        {"illegal address", "an illegal address"},
        {"divergent barrier", "a barrier that not all threads of the block reach"},
        {"a barrier that not all", "a barrier that not all threads of the block reach"},
        {"deadlock", "threads wait for each other for ever"},
        {"never arrive", "threads wait for each other for ever"},
        {"dynamic shared memory", "more dynamic shared memory than a launch may have"},
        {"static shared memory", "more static shared memory than a kernel may have"},
        {"no memory for", "more memory than grading allows"},
        {"a grid of", "a launch with an impossible grid"},
        {"a block of", "a launch with an impossible block"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(report, kinds[i][0]))
            return kinds[i][1];
    return "a kernel failed, or could not be launched";
}

/* Remembers why a launch failed, and returns an error that says so. */
static cudaError_t failed(const char *what, const char *reason)
{
    snprintf(now.what, sizeof now.what, "%s", what);
    snprintf(now.reason, sizeof now.reason, "%s", reason);
    return cudaErrorLaunchFailure;
}

/* Places the images in the request: guard, array, guard, as they are in this process. */
static void lay_out(struct lab_request *request, const struct tensor *tensors, int count,
                    const char *const *data, size_t workspace)
{
    size_t end = sizeof(struct lab_answer) + sizeof *request + 255; /* a file has one of them */
    for (int t = 0; t < LAB_IMAGES; t++) {
        if (data[t]) {
            request->bytes[t] = t == LAB_WORKSPACE ? workspace
                                                   : tensors[t].rows * tensors[t].cols *
                                                         tensor_element_bytes(tensors[t].type);
            request->output[t] = t < count && tensors[t].role == TENSOR_OUTPUT;
            request->data[t] = DEVICE_BUFFER_GUARD + (size_t)data[t] % DEVICE_BUFFER_ALIGNMENT;
            request->image_bytes[t] = request->data[t] + request->bytes[t] + DEVICE_BUFFER_GUARD;
        }
        request->image[t] = end / 256 * 256;
        end = request->image[t] + request->image_bytes[t] + 255;
    }
    request->total = end;
}

/* Copies the images between the arrays here and a file's contents. */
static cudaError_t copy_images(const struct lab_request *request, const char *const *data,
                               char *file, enum cudaMemcpyKind kind)
{
    cudaError_t status = cudaSuccess;
    for (int t = 0; t < LAB_IMAGES && status == cudaSuccess; t++) {
        if (!data[t])
            continue;
        char *const here = (char *)data[t] - request->data[t], *const there =
                                                                   file + request->image[t];
        status = kind == cudaMemcpyHostToDevice
                     ? cudaMemcpy(here, there, request->image_bytes[t], kind)
                     : cudaMemcpy(there, here, request->image_bytes[t], kind);
    }
    return status;
}

static bool write_file(const char *path, const char *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    const bool written = file && fwrite(bytes, count, 1, file) == 1;
    return file && fclose(file) == 0 && written;
}

static bool read_file(const char *path, char *bytes, size_t count)
{
    FILE *file = fopen(path, "rb");
    const bool whole = file && fread(bytes, count, 1, file) == 1;
    if (file)
        fclose(file);
    return whole;
}

/* Returns what became of the run, by an answer that comes from a process of the submission. */
static cudaError_t outcome(const char *ended)
{
    static const char *const whats[LAB_ENDS] = {
        [LAB_CRASHED] = "it ended before its answer was complete",
        [LAB_LAUNCHER_ERROR] = "the launcher returned an error",
        [LAB_SKIPPED] = "the launcher says that the device is too old",
        [LAB_NO_DEVICE] = "there is no device, or too little memory",
        [LAB_WORKSPACE_TOO_LARGE] = "it asks for more workspace than this kernel may have",
        [LAB_OTHER_STREAM] = "it uses a stream other than the one that it is given",
        [LAB_IDLE_LAP] = "one of several calls left its outputs unwritten"};
    struct lab_answer *head = &now.head;
    head->report[sizeof head->report - 1] = '\0';
    if (strcmp(ended, "ended") != 0)
        return failed(ended, ended);
    if (head->magic != LAB_MAGIC || head->end < 0 || head->end >= LAB_ENDS)
        head->end = LAB_CRASHED;
    if (head->end == LAB_KERNEL_ERROR)
        return failed(head->status == cudaErrorAssert ? "an assertion of yours failed"
                                                      : kind_of_report(head->report),
                      head->report);
    return head->end == LAB_RAN ? cudaSuccess : failed(whats[head->end], head->report);
}

/* Between two calls outputs are filled with bytes of 0xff. What still holds them was not written,
 * and gets the poison by which a trial knows that. */
static void restore_poison(const struct lab_request *request, const struct tensor *tensors,
                           char *file)
{
    static const unsigned char filled[4] = {0xff, 0xff, 0xff, 0xff};
    for (int t = 0; t < MAX_TENSORS; t++) {
        if (!request->output[t])
            continue;
        const size_t bytes = tensor_element_bytes(tensors[t].type);
        const uint32_t poison = check_poison(tensors[t].type, t);
        char *const data = file + request->image[t] + request->data[t];
        for (size_t at = 0; at < request->bytes[t]; at += bytes)
            if (memcmp(data + at, filled, bytes) == 0)
                memcpy(data + at, &poison, bytes);
    }
}

/* Runs the student's program. Takes the place of the problem's run(). */
static cudaError_t ask(const struct kernel *kernel, const long long sizes[MAX_SIZES],
                       void *const *device, void *workspace, cudaStream_t stream)
{
    struct lab_request request = {.magic = LAB_MAGIC, .calls = now.calls, .laps = now.laps};
    struct tensor tensors[MAX_TENSORS];
    long long understood[MAX_SIZES];
    const char *data[LAB_IMAGES] = {NULL};
    int count = 0;
    char ended[300];
    memcpy(understood, sizes, sizeof understood);
    if (now.problem.tensors(understood, tensors, &count) != cudaSuccess)
        return cudaErrorInvalidValue;
    for (int t = 0; t < count; t++)
        data[t] = device[t];
    data[LAB_WORKSPACE] = workspace;
    snprintf(request.kernel, sizeof request.kernel, "%s", kernel->name);
    snprintf(request.order, sizeof request.order, "%s", now.order);
    memcpy(request.sizes, sizes, sizeof request.sizes);
    lay_out(&request, tensors, count, data, problem_workspace(&now.problem, kernel, sizes));

    char *const file = calloc(request.total, 1);
    cudaError_t status = file ? cudaStreamSynchronize(stream) : cudaErrorMemoryAllocation;
    if (status == cudaSuccess)
        status = copy_images(&request, data, file, cudaMemcpyDeviceToHost);
    if (status == cudaSuccess) {
        memcpy(file, &request, sizeof request);
        printf("{\"run\": %zu}\n",
               write_file(now.request_path, file, request.total) ? request.total : 0);
        if (!fgets(ended, sizeof ended, stdin))
            exit(2);
        ended[strcspn(ended, "\n")] = '\0';
        memset(&now.head, 0, sizeof now.head);
        if (read_file(now.answer_path, file, request.total))
            memcpy(&now.head, file, sizeof now.head);
        status = outcome(ended);
        if (now.calls + now.laps > 1)
            restore_poison(&request, tensors, file);
    }
    if (status == cudaSuccess)
        status = copy_images(&request, data, file, cudaMemcpyHostToDevice);
    free(file);
    return status;
}

/* What the harness asks the backend about a run is what the student's process says of it. */
bool __wrap_backend_counters(struct counters *total);
bool __wrap_backend_counters(struct counters *total)
{
    *total = now.head.counters;
    return true;
}

const char *__wrap_backend_report(void);
const char *__wrap_backend_report(void)
{
    return now.reason;
}

/* ---- Judgements ---- */

/* Kernels must have stored the outputs and loaded the inputs: what is missing was computed
 * elsewhere, or out of sight. */
static const char *moved_too_little(const struct trial *trial)
{
    const struct counters *c = &now.head.counters;
    double outputs = 0.0, unwanted = 0.0;
    if (!now.head.counted)
        return now.laps > 0 ? NULL : "nothing was counted";
    if (now.problem.flops(trial->sizes) == 0) /* zeros, which no kernel need store */
        return NULL;
    for (int t = trial->input_count; t < trial->tensor_count; t++) {
        outputs += (double)trial->device[t].bytes;
        if (t == trial->placement.null_array)
            unwanted = (double)trial->device[t].bytes;
    }
    const double added = sizeof(float4) * (double)c->atomics; /* an atomic adds at most that */
    if ((double)c->global_store_bytes + added < outputs - unwanted)
        return "the kernels themselves stored less than the outputs hold";
    if ((double)c->global_load_bytes < now.problem.compulsory_bytes(trial->sizes) - outputs)
        return "the kernels themselves loaded less than the inputs hold";
    return NULL;
}

/* Copies a text with each number left out: it may be a hidden size. */
static void without_numbers(char *to, size_t bytes, const char *text)
{
    size_t used = 0;
    while (*text && used + 4 < bytes)
        if (*text >= '0' && *text <= '9') {
            text += strspn(text, "0123456789.");
            used += (size_t)snprintf(to + used, bytes - used, "...");
        } else {
            to[used++] = *text++;
        }
    to[used] = '\0';
}

/* Says what is wrong with a run without a size or a value. */
static void print_what(const struct verdict *verdict)
{
    static const char *const whats[] = {
        [DETECTOR_NONE] = "it could not be run",
        [DETECTOR_LAUNCH] = now.what,
        [DETECTOR_GUARD] = "it wrote outside of an array",
        [DETECTOR_INPUTS] = "it changed an input",
        [DETECTOR_POISON] = "elements of an output were never written",
        [DETECTOR_COMPARISON] = "an output is wrong",
    };
    const struct explanation *explanation = verdict->explanation;
    char what[800], why[sizeof explanation->why];
    without_numbers(why, sizeof why, explanation ? explanation->why : "");
    snprintf(what, sizeof what, "%s%s%s", whats[verdict->detector], *why ? ": " : "", why);
    print_text("what", what);
}

static void print_counters(void)
{
    const struct counters *c = &now.head.counters;
    const char *between = ", \"counters\": {";
#define PRINT(name) printf("%s\"" #name "\": %llu", between, c->name), between = ", ";
    EACH_COUNTER(PRINT)
#undef PRINT
    printf("}");
}

static void judge_case(const char *text)
{
    struct trial trial;
    struct test_case one;
    int read = 0;
    case_default(&now.problem, &one);
    if (sscanf(text, "case %31s %lld %n", now.order, &now.laps, &read) != 2 ||
        !case_read(&now.problem, text + read, &one)) {
        complain(*refusal() ? refusal() : "not understood");
        return;
    }
    if (strcmp(now.order, "-") == 0)
        now.order[0] = '\0';
    /* The student's process makes all calls, so that it finds what it left behind. */
    now.calls = one.placement.launches > 1 ? one.placement.launches : 1;
    one.placement.launches = 1;
    now.what[0] = now.reason[0] = '\0';
    refusal_clear();
    if (!case_fits(&now.problem, now.kernel, &one) ||
        case_trial(&trial, &now.problem, &one) != cudaSuccess) {
        complain(*refusal() ? refusal() : "the kernel does not take it, or there is no memory");
        return;
    }
    const struct verdict verdict = trial_run(&trial, now.kernel);
    const char *hollow = verdict.status == VERDICT_PASS ? moved_too_little(&trial) : NULL;
    const bool passed = verdict.status == VERDICT_PASS && !hollow;
    printf("{\"verdict\": \"%s\"", passed ? "pass" : "fail");
    print_text("detector", hollow ? "hollow" : detector_name(verdict.detector));
    if (hollow)
        print_text("what", hollow);
    else if (!passed)
        print_what(&verdict);
    print_text("reason", verdict.reason);
    /* Which assertion fails, or what a launcher refuses with, may tell a hidden size. */
    const bool checked = now.head.end == LAB_KERNEL_ERROR && now.head.status != cudaErrorAssert;
    print_text("report", checked ? now.reason : "");
    printf(", \"milliseconds\": %.9g", now.head.milliseconds);
    if (now.head.counted)
        print_counters();
    printf("}\n");
    trial_destroy(&trial);
}

/* Checks the row's claims, or those of the text. */
static void judge_claims(const char *text)
{
    struct claims claims;
    struct kernel *const claimant = calloc(1, now.problem.row_bytes);
    memcpy(claimant, now.kernel, now.problem.row_bytes);
    if (*text)
        claimant->claims = text;
    now.order[0] = now.what[0] = now.reason[0] = '\0';
    now.calls = 1;
    now.laps = 0;
    claims_check(&now.problem, claimant, now.kernel, &claims);
    printf("{\"verdict\": \"%s\"", claims.refused ? "error" : claims.kept ? "pass" : "fail");
    print_text("what", now.what);
    print_text("reason", claims.complaint);
    printf(", \"claims\": [");
    for (int i = 0; i < claims.count; i++) {
        const struct claim *claim = &claims.claim[i];
        printf("%s{\"bound\": %llu, \"value\": %llu, \"kept\": %s", i > 0 ? ", " : "", claim->bound,
               claim->value, claim->kept ? "true" : "false");
        print_text("says", claim->what);
        print_text("relation", claim->at_most ? "<=" : ">=");
        print_text("at", claim->options);
        printf("}");
    }
    printf("]}\n");
    free(claimant);
}

static void list_cases(const char *text)
{
    struct case_walk walk;
    struct test_case one;
    char name[16];
    unsigned long long seed;
    enum case_level level;
    if (sscanf(text, "cases %15s %llu", name, &seed) != 2 || !case_level_find(name, &level)) {
        complain("no such level");
        return;
    }
    cases_begin(&walk, &now.problem, now.kernel, level, seed);
    printf("{\"verdict\": \"pass\", \"claims\": %s, \"cases\": [",
           now.kernel->claims ? "true" : "false");
    for (const char *between = ""; cases_next(&walk, &one); between = ", ") {
        printf("%s{\"level\": %d", between, level);
        print_text("options", case_options(&now.problem, &one));
        print_text("wrong", one.wrong);
        printf("}");
    }
    printf("]}\n");
}

static void choose_kernel(const char *name)
{
    now.kernel = NULL;
    const struct problem *problem;
    for (size_t s = 0; s < sizeof steps / sizeof *steps && !now.kernel; s++)
        now.kernel = step_kernel(steps[s], name, &problem);
    if (!now.kernel) {
        complain("no such kernel");
        return;
    }
    now.problem = *problem;
    now.problem.run = ask;
    printf("{\"verdict\": \"pass\"}\n");
}

int main(int argc, char **argv)
{
    static char line[8192];
    if (argc != 3)
        return 2;
    now.request_path = argv[1];
    now.answer_path = argv[2];
    prctl(PR_SET_DUMPABLE, 0); /* no process of the same user may look into this one */
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "kernel ", 7) == 0)
            choose_kernel(line + 7);
        else if (!now.kernel)
            complain("choose a kernel first");
        else if (strncmp(line, "cases ", 6) == 0)
            list_cases(line);
        else if (strncmp(line, "case ", 5) == 0)
            judge_case(line);
        else if (strncmp(line, "claims", 6) == 0)
            judge_claims(line + 6 + strspn(line + 6, " "));
        else
            complain("not understood");
    }
    return 0;
}
