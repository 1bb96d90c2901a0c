/*
 * The grader's own process: makes the inputs of a case, computes the reference, and judges answers.
 * A student's code never runs here. Commands come on stdin, a line each; every one is answered with
 * a line of JSON.
 *
 *     case PROBLEM KIND SEED OFFSET SIZE...  matmul, softmax, attention, attention_half; sizes as
 *                                            the problem lists
 *     request KERNEL ORDER WORKSPACE LAPS FILE  writes the request file; ORDER is - for the default
 *     judge FILE                                   reads the answer file
 */
#include "attention.h"
#include "case.h"
#include "check.h"
#include "matmul.h"
#include "refusal.h"
#include "softmax.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static const struct {
    const char *name;
    const struct problem *problem;
    enum tensor_type type;
} problems[] = {{"matmul", &matmul_problem, TENSOR_F32},
                {"softmax", &softmax_problem, TENSOR_F32},
                {"attention", &attention_problem, TENSOR_F32},
                {"attention_half", &attention_problem, TENSOR_F16}};

static struct {
    const struct problem *problem;
    struct tensor tensors[MAX_TENSORS];
    int count, inputs;
    uint64_t seed;
    struct lab_request request;
    /* the request file as written: what the answer's images are compared with */
    unsigned char *file;
    double *value[MAX_TENSORS], *scale[MAX_TENSORS];
    size_t
        /* every stride-th row is compared, and the last: 1 unless the reference would take too
         * long */
        stride;
} now;

/* A line of JSON whose text may hold anything. */
static void say(const char *verdict, const char *reason)
{
    printf("{\"verdict\": \"%s\", \"reason\": \"", verdict);
    for (; *reason; reason++)
        if (*reason == '"' || *reason == '\\')
            printf("\\%c", *reason);
        else
            putchar((unsigned char)*reason >= ' ' && (unsigned char)*reason < 127 ? *reason : ' ');
    printf("\"");
}

static void answer(const char *verdict, const char *reason)
{
    say(verdict, reason);
    printf("}\n");
}

static size_t tensor_bytes(const struct tensor *tensor)
{
    return tensor->rows * tensor->cols * tensor_element_bytes(tensor->type);
}

static void fill_random(unsigned char *bytes, size_t count, uint64_t stream)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)input_bits(now.seed, stream, i);
}

/* Places the images in the file: guard, buffer, guard; the workspace last. */
static void lay_out(size_t offset, size_t workspace)
{
    struct lab_request *request = &now.request;
    size_t end = (sizeof(struct lab_answer) > sizeof *request ? sizeof(struct lab_answer)
                                                              : sizeof *request) +
                 255;
    for (int t = 0; t < LAB_IMAGES; t++) {
        const bool there = t < now.count || (t == LAB_WORKSPACE && workspace > 0);
        request->bytes[t] = t < now.count ? tensor_bytes(&now.tensors[t]) : there ? workspace : 0;
        request->data[t] = LAB_GUARD_BYTES + (t < now.count ? offset : 0);
        request->image_bytes[t] =
            there ? request->data[t] + request->bytes[t] + LAB_GUARD_BYTES : 0;
        request->image[t] = end / 256 * 256;
        end = request->image[t] + request->image_bytes[t] + 255;
    }
    request->total = end;
}

static bool compared(size_t row)
{
    return row % now.stride == 0 || row + 1 == now.tensors[now.inputs].rows;
}

static void set_case(char *text)
{
    char name[32], kind_name[32];
    unsigned long long seed;
    size_t offset;
    int read = 0;
    enum input_kind kind;
    for (int t = 0; t < MAX_TENSORS; t++) {
        free(now.value[t]);
        free(now.scale[t]);
    }
    free(now.file);
    memset(&now, 0, sizeof now);
    if (sscanf(text, "case %31s %31s %llu %zu %n", name, kind_name, &seed, &offset, &read) != 4 ||
        !input_kind_find(kind_name, &kind)) {
        answer("error", "not understood");
        return;
    }
    enum tensor_type type = TENSOR_F32;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        if (strcmp(problems[i].name, name) == 0) {
            now.problem = problems[i].problem;
            type = problems[i].type;
        }
    if (!now.problem) {
        answer("error", "no such problem");
        return;
    }
    text += read;
    for (int s = 0; now.problem->sizes[s].name; s++)
        now.request.sizes[s] = strtoll(text, &text, 10);
    if (now.problem == &attention_problem)
        now.request.sizes[ATTENTION_TYPE] = type;
    now.seed = seed;
    now.request.magic = LAB_MAGIC;
    if (now.problem->tensors(now.request.sizes, now.tensors, &now.count) != cudaSuccess) {
        answer("error", refusal());
        now.problem = NULL;
        return;
    }
    while (now.inputs < now.count && now.tensors[now.inputs].role == TENSOR_INPUT)
        now.inputs++;

    void *host[MAX_TENSORS] = {NULL};
    for (int t = 0; t < now.count; t++)
        host[t] = malloc(tensor_bytes(&now.tensors[t]) + 1);
    now.problem->inputs(now.request.sizes, kind, now.seed, host);
    for (int t = now.inputs; t < now.count; t++) {
        const size_t elements = now.tensors[t].rows * now.tensors[t].cols;
        now.value[t] = malloc((elements + 1) * sizeof(double));
        now.scale[t] = malloc((elements + 1) * sizeof(double));
    }
    const double budget = 5e8; /* multiply-adds */
    const size_t rows = now.tensors[now.inputs].rows;
    now.stride =
        1 + (size_t)((double)rows * now.problem->reference_cost(now.request.sizes) / budget);
    for (size_t row = 0; row < rows; row++) {
        if (!compared(row))
            continue;
        double *value[MAX_TENSORS], *scale[MAX_TENSORS];
        for (int t = now.inputs; t < now.count; t++) {
            value[t - now.inputs] = now.value[t] + row * now.tensors[t].cols;
            scale[t - now.inputs] = now.scale[t] + row * now.tensors[t].cols;
        }
        now.problem->reference(now.request.sizes, (const void *const *)host, row, value, scale);
    }

    /* The largest workspace that a request may offer has to fit: it is laid out again for each. */
    lay_out(offset, 0);
    now.file = calloc(now.request.total, 1);
    for (int t = 0; t < now.count; t++) {
        unsigned char *image = now.file + now.request.image[t];
        fill_random(image, now.request.image_bytes[t], 1000 + (uint64_t)t);
        if (t < now.inputs)
            memcpy(image + now.request.data[t], host[t], now.request.bytes[t]);
        else
            memset(image + now.request.data[t], 0xff, now.request.bytes[t]);
    }
    for (int t = 0; t < now.count; t++)
        free(host[t]);
    answer("ok", "");
}

/* Only the workspace differs from one request of a case to the next, and it lies behind everything
 * else. */
static void write_request(const char *text)
{
    char order[32], path[4096];
    size_t workspace;
    if (!now.problem || sscanf(text, "request %63s %31s %zu %lld %4095[^\n]", now.request.kernel,
                               order, &workspace, &now.request.laps, path) != 5) {
        answer("error", "not understood");
        return;
    }
    const size_t offset = now.request.data[0] - LAB_GUARD_BYTES;
    lay_out(offset, workspace);
    now.file = realloc(now.file, now.request.total);
    unsigned char *image = now.file + now.request.image[LAB_WORKSPACE];
    fill_random(image, now.request.image_bytes[LAB_WORKSPACE], 1000 + LAB_WORKSPACE);
    snprintf(now.request.order, sizeof now.request.order, "%s",
             strcmp(order, "-") == 0 ? "" : order);
    memcpy(now.file, &now.request, sizeof now.request);

    FILE *file = fopen(path, "wb");
    const bool written = file && fwrite(now.file, now.request.total, 1, file) == 1;
    if (file && fclose(file) == 0 && written)
        printf("{\"verdict\": \"ok\", \"reason\": \"\", \"bytes\": %zu}\n", now.request.total);
    else
        answer("error", "the request could not be written");
}

/* True, or the first thing that is wrong with the buffers, said. */
static bool images_intact(const unsigned char *file, char *reason, size_t size)
{
    const struct lab_request *r = &now.request;
    for (int t = 0; t < LAB_IMAGES; t++) {
        const unsigned char *was = now.file + r->image[t], *is = file + r->image[t];
        const size_t behind = r->data[t] + r->bytes[t];
        const char *name =
            t == LAB_WORKSPACE ? "workspace" : now.tensors[t < now.count ? t : 0].name;
        if (r->image_bytes[t] == 0)
            continue;
        if (memcmp(was, is, r->data[t]) != 0 ||
            memcmp(was + behind, is + behind, r->image_bytes[t] - behind) != 0) {
            snprintf(reason, size, "guard: %s: written outside", name);
            return false;
        }
        if (t < now.inputs && memcmp(was + r->data[t], is + r->data[t], r->bytes[t]) != 0) {
            snprintf(reason, size, "inputs: %s was changed", name);
            return false;
        }
    }
    for (int t = now.inputs; t < now.count; t++) {
        const size_t elements = now.tensors[t].rows * now.tensors[t].cols;
        if (check_unwritten(file + r->image[t] + r->data[t], now.tensors[t].type, elements) !=
            elements) {
            snprintf(reason, size, "poison: an element of %s was never written",
                     now.tensors[t].name);
            return false;
        }
    }
    return true;
}

static struct verdict compare(const unsigned char *file)
{
    struct verdict verdict = {.status = VERDICT_PASS,
                              .bound = now.problem->bound(now.request.sizes)};
    for (int t = now.inputs; t < now.count; t++) {
        const size_t cols = now.tensors[t].cols;
        for (size_t row = 0; row < now.tensors[t].rows; row++)
            if (compared(row))
                check_compare(&verdict, &now.tensors[t],
                              file + now.request.image[t] + now.request.data[t], row * cols, cols,
                              now.value[t] + row * cols, now.scale[t] + row * cols);
    }
    return verdict;
}

/* Kernels stored less than the outputs hold: then somebody else computed them. */
static bool stored_too_little(const struct lab_answer *head)
{
    size_t outputs = 0;
    for (int t = now.inputs; t < now.count; t++)
        outputs += now.request.bytes[t];
    return head->counted && head->counters.global_store_bytes < outputs;
}

static void print_counters(const struct lab_answer *head)
{
    const struct counters *c = &head->counters;
    printf(", \"milliseconds\": %.9g, \"workspace\": %zu",
           isfinite(head->milliseconds) ? head->milliseconds : 0.0, head->workspace);
    if (!head->counted)
        return;
    printf(
        ", \"counters\": {\"launches\": %llu, \"global_loads\": %llu, \"global_load_bytes\": %llu, "
        "\"global_load_requests\": %llu, \"global_load_sectors\": %llu, \"global_stores\": %llu, "
        "\"global_store_bytes\": %llu, \"global_store_requests\": %llu, \"global_store_sectors\": "
        "%llu, "
        "\"shared_loads\": %llu, \"shared_stores\": %llu, \"shared_wavefronts\": %llu, "
        "\"shared_wavefronts_ideal\": %llu, \"barriers\": %llu, \"atomics\": %llu}",
        c->launches, c->global_loads, c->global_load_bytes, c->global_load_requests,
        c->global_load_sectors, c->global_stores, c->global_store_bytes, c->global_store_requests,
        c->global_store_sectors, c->shared_loads, c->shared_stores, c->shared_wavefronts,
        c->shared_wavefronts_ideal, c->barriers, c->atomics);
}

static void judge_answer(const unsigned char *file)
{
    static const char *const ends[] = {[LAB_CRASHED] = "crashed",
                                       [LAB_RAN] = "pass",
                                       [LAB_CUDA_ERROR] = "error",
                                       [LAB_REFUSED] = "refused",
                                       [LAB_SKIPPED] = "skipped",
                                       [LAB_NO_DEVICE] = "no device",
                                       [LAB_WORKSPACE_TOO_LARGE] = "workspace",
                                       [LAB_OTHER_STREAM] = "stream"};
    struct lab_answer head;
    char reason[400];
    memcpy(&head, file, sizeof head);
    head.reason[sizeof head.reason - 1] = '\0';
    if (head.magic != LAB_MAGIC || head.end < 0 || head.end > LAB_OTHER_STREAM)
        head.end = LAB_CRASHED;
    if (head.end != LAB_RAN) {
        say(ends[head.end],
            head.end == LAB_CRASHED ? "ended before its answer was complete" : head.reason);
    } else if (!images_intact(file, reason, sizeof reason)) {
        say("fail", reason);
    } else if (stored_too_little(&head)) {
        say("fail", "launch: the kernels themselves stored fewer bytes than the outputs have");
    } else {
        const struct verdict verdict = compare(file);
        snprintf(reason, sizeof reason, "%s: %.300s", detector_name(verdict.detector),
                 verdict.reason);
        say(verdict.status == VERDICT_PASS ? "pass" : "fail",
            verdict.status == VERDICT_PASS ? "" : reason);
    }
    print_counters(&head);
    printf("}\n");
}

static void read_answer(const char *text)
{
    char path[4096];
    if (!now.problem || sscanf(text, "judge %4095[^\n]", path) != 1) {
        answer("error", "not understood");
        return;
    }
    unsigned char *file = calloc(now.request.total, 1);
    FILE *stream = fopen(path, "rb");
    const bool whole = stream && fread(file, now.request.total, 1, stream) == 1;
    if (stream)
        fclose(stream);
    if (whole)
        judge_answer(file);
    else
        answer("crashed", "the answer was cut short");
    free(file);
}

int main(void)
{
    static char line[8192];
    prctl(PR_SET_DUMPABLE, 0); /* nobody of the same user may look into this process */
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        if (strncmp(line, "case ", 5) == 0)
            set_case(line);
        else if (strncmp(line, "request ", 8) == 0)
            write_request(line);
        else
            read_answer(line);
    }
    return 0;
}
