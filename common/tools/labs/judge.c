/*
 * This is the grader's own process: it makes the inputs of a case, computes the reference, and
 * judges answers. A student's code never runs here. Commands come on stdin, one a line, and each is
 * answered with a line of JSON.
 *
 *     case PROBLEM KIND SEED OFFSET SIZE...  matmul, softmax, attention, attention_f16,
 *                                            attention_bf16; sizes as the problem lists
 *     request KERNEL ORDER WORKSPACE CALLS LAPS FILE  writes the request file; ORDER is - for the
 *                                            default
 *     judge FILE                             reads the answer file
 *
 * In a judgement, "verdict" and "what" are this program's own words, which reveal neither sizes nor
 * inputs; "reason" is for instructors.
 */
#include "problems/attention.h"
#include "case.h"
#include "harness/check.h"
#include "problems/matmul.h"
#include "harness/refusal.h"
#include "problems/softmax.h"

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
                {"attention_f16", &attention_problem, TENSOR_F16},
                {"attention_bf16", &attention_problem, TENSOR_BF16}};

static struct {
    const struct problem *problem;
    struct tensor tensors[MAX_TENSORS];
    int count, inputs;
    uint64_t seed;
    struct lab_request request;
    /* The answer's images are compared with the request file as it was written. */
    unsigned char *file;
    /* These are the rows of each output that are compared, and their right values. */
    struct row_list rows[MAX_TENSORS];
    double *value[MAX_TENSORS], *scale[MAX_TENSORS];
} now;

/* Begins a line of JSON. The reason may contain anything. */
static void say(const char *verdict, const char *what, const char *reason)
{
    printf("{\"verdict\": \"%s\", \"what\": \"%s\", \"reason\": \"", verdict, what);
    for (; *reason; reason++)
        if (*reason == '"' || *reason == '\\')
            printf("\\%c", *reason);
        else
            putchar((unsigned char)*reason >= ' ' && (unsigned char)*reason < 127 ? *reason : ' ');
    printf("\"");
}

static void answer(const char *verdict, const char *reason)
{
    say(verdict, "", reason);
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

/* Places the images in the file: guard, buffer, guard. The workspace comes last. */
static void lay_out(size_t offset, size_t workspace)
{
    struct lab_request *request = &now.request;
    size_t end = sizeof(struct lab_answer) + sizeof *request + 255; /* a file has one of them */
    for (int t = 0; t < LAB_IMAGES; t++) {
        const bool there = t < now.count || (t == LAB_WORKSPACE && workspace > 0);
        request->bytes[t] = t < now.count ? tensor_bytes(&now.tensors[t]) : there ? workspace : 0;
        request->output[t] = t < now.count && now.tensors[t].role == TENSOR_OUTPUT;
        request->data[t] = LAB_GUARD_BYTES + (t < now.count ? offset : 0);
        request->image_bytes[t] =
            there ? request->data[t] + request->bytes[t] + LAB_GUARD_BYTES : 0;
        request->image[t] = end / 256 * 256;
        end = request->image[t] + request->image_bytes[t] + 255;
    }
    request->total = end;
}

/* Chooses every stride-th row of an output, and the last: all unless the reference would take too
 * long. */
static void choose_rows(int t)
{
    const double budget = 5e8; /* in multiply-adds */
    const size_t rows = now.tensors[t].rows;
    const double cost = (double)rows * now.problem->reference_cost(now.request.sizes);
    const size_t stride = 1 + (size_t)(cost / budget);
    struct row_list *list = &now.rows[t];
    list->row = malloc((rows + 1) * sizeof *list->row);
    for (size_t row = 0; row < rows; row++)
        if (row % stride == 0 || row + 1 == rows)
            list->row[list->count++] = row;
}

static void set_case(char *text)
{
    char name[32], kind_name[32];
    unsigned long long seed;
    size_t offset;
    int read = 0;
    enum input_kind kind;
    for (int t = 0; t < MAX_TENSORS; t++) {
        free(now.rows[t].row);
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
    problem_inputs(now.problem, now.request.sizes, kind, now.seed, host);
    for (int t = now.inputs; t < now.count; t++) {
        choose_rows(t);
        const size_t elements = now.rows[t].count * now.tensors[t].cols;
        now.value[t] = malloc((elements + 1) * sizeof(double));
        now.scale[t] = malloc((elements + 1) * sizeof(double));
    }
    now.problem->reference(now.request.sizes, (const void *const *)host, now.rows + now.inputs,
                           now.value + now.inputs, now.scale + now.inputs);

    /* The largest workspace that a request may offer has to fit. Each request lays the file out
     * again. */
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

/* Requests of a case differ only in their workspace, which comes after everything else. */
static void write_request(const char *text)
{
    char order[32], path[4096];
    size_t workspace;
    if (!now.problem ||
        sscanf(text, "request %63s %31s %zu %lld %lld %4095[^\n]", now.request.kernel, order,
               &workspace, &now.request.calls, &now.request.laps, path) != 6) {
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

/* Returns false when a byte outside the outputs changed, and says which. */
static bool images_intact(const unsigned char *file, const char **what, char *reason, size_t size)
{
    const struct lab_request *r = &now.request;
    for (int t = 0; t < LAB_IMAGES; t++) {
        const unsigned char *was = now.file + r->image[t], *is = file + r->image[t];
        const size_t behind = r->data[t] + r->bytes[t];
        if (r->image_bytes[t] == 0)
            continue;
        snprintf(reason, size, "%s", t == LAB_WORKSPACE ? "workspace" : now.tensors[t].name);
        if (memcmp(was, is, r->data[t]) != 0) {
            *what = "it wrote in front of the beginning of an array";
            return false;
        }
        if (memcmp(was + behind, is + behind, r->image_bytes[t] - behind) != 0) {
            *what = "it wrote past the end of an array";
            return false;
        }
        if (t < now.inputs && memcmp(was + r->data[t], is + r->data[t], r->bytes[t]) != 0) {
            *what = "it changed an input";
            return false;
        }
    }
    return true;
}

/* Describes where in a tensor something was found, as far as a learner may know. */
struct places {
    size_t found, looked_at, first_row, first_col;
};

static void note(struct places *places, bool found, size_t row, size_t col)
{
    places->looked_at++;
    if (!found)
        return;
    if (places->found++ == 0) {
        places->first_row = row;
        places->first_col = col;
    }
    if (col < places->first_col)
        places->first_col = col;
}

static const char *described(const struct places *places, const struct tensor *tensor)
{
    const size_t edge = 32;
    if (places->found == places->looked_at)
        return "everywhere";
    if (places->first_row > 0 && places->first_row + edge >= tensor->rows)
        return "in the last rows only";
    if (places->first_col > 0 && places->first_col + edge >= tensor->cols)
        return "in the last columns only";
    return places->found * 20 < places->looked_at ? "in a few places" : "in many places";
}

/* Returns whether the element still holds what set_case() filled it with. */
static bool untouched(const unsigned char *element, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (element[i] != 0xff)
            return false;
    return true;
}

/* Fills *what and *reason for outputs that are wrong. */
static bool outputs_right(const unsigned char *file, char *what, size_t size, char *reason,
                          size_t reason_size)
{
    const double bound = now.problem->bound(now.request.sizes);
    for (int t = now.inputs; t < now.count; t++) {
        const struct tensor *tensor = &now.tensors[t];
        const unsigned char *data = file + now.request.image[t] + now.request.data[t];
        const size_t bytes = tensor_element_bytes(tensor->type);
        struct places unwritten = {0}, wrong = {0};
        const struct row_list *rows = &now.rows[t];
        struct comparison first = {0};
        size_t nans = 0, compared = 0; /* rows */
        for (size_t row = 0; row < tensor->rows; row++) {
            const bool compares = compared < rows->count && rows->row[compared] == row;
            for (size_t col = 0; col < tensor->cols; col++) {
                const size_t i = row * tensor->cols + col, at = compared * tensor->cols + col;
                struct comparison one = {.bound = bound};
                note(&unwritten, untouched(data + i * bytes, bytes), row, col);
                if (!compares)
                    continue;
                check_compare(&one, tensor, data, i, 1, now.value[t] + at, now.scale[t] + at);
                note(&wrong, one.wrong, row, col);
                nans += one.wrong && !isfinite(tensor_element(data, tensor->type, i));
                if (one.wrong && !first.wrong)
                    first = one;
            }
            compared += compares;
        }
        snprintf(reason, reason_size, "%s: %s", tensor->name, first.first);
        if (unwritten.found > 0)
            snprintf(what, size, "elements of the output %s were never written, %s", tensor->name,
                     described(&unwritten, tensor));
        else if (wrong.found > 0)
            snprintf(what, size, "the output %s is wrong%s, %s", tensor->name,
                     nans == wrong.found ? " (NaN or infinite)" : "", described(&wrong, tensor));
        if (unwritten.found > 0 || wrong.found > 0)
            return false;
    }
    return true;
}

/*
 * Says which inputs kernels did not load, and which outputs they did not store: what is missing was
 * computed elsewhere, or out of sight. Under a causal mask, what no query sees need not be loaded.
 */
static const char *moved_too_little(const struct lab_answer *head)
{
    size_t outputs = 0;
    double inputs = 0.0;
    for (int t = now.inputs; t < now.count; t++)
        outputs += now.request.bytes[t];
    for (int t = 0; t < now.inputs; t++)
        inputs += (double)now.request.bytes[t];
    if (now.problem == &attention_problem) {
        const long long *sizes = now.request.sizes;
        const double q = (double)sizes[ATTENTION_SEQ_Q], kv = (double)sizes[ATTENTION_SEQ_KV];
        if (kv == 0)
            inputs = 0.0;
        else if (sizes[ATTENTION_CAUSAL])
            inputs *= fmin(q, kv) / fmax(q, kv);
    }
    if (!head->counted || outputs == 0)
        return NULL;
    if (head->counters.global_store_bytes < outputs)
        return "the kernels themselves stored less than the outputs hold";
    if ((double)head->counters.global_load_bytes < inputs)
        return "the kernels themselves loaded less than the inputs hold";
    return NULL;
}

static void print_counters(const struct lab_answer *head)
{
    const struct counters *c = &head->counters;
    printf(", \"milliseconds\": %.9g, \"workspace\": %zu",
           isfinite(head->milliseconds) ? head->milliseconds : 0.0, head->workspace);
    if (!head->counted)
        return;
    const char *between = ", \"counters\": {";
#define PRINT(name) printf("%s\"" #name "\": %llu", between, c->name), between = ", ";
    EACH_COUNTER(PRINT)
#undef PRINT
    printf("}");
}

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
        {"assertion", "an assertion of yours failed"},
        {"deadlock", "threads wait for each other for ever"},
        {"never arrive", "threads wait for each other for ever"},
        {"dynamic shared memory", "more dynamic shared memory than a launch may have"},
        {"static shared memory", "more static shared memory than a kernel may have"},
        {"a grid of", "a launch with an impossible grid"},
        {"a block of", "a launch with an impossible block"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(report, kinds[i][0]))
            return kinds[i][1];
    return "a kernel failed, or could not be launched";
}

static void judge_answer(const unsigned char *file)
{
    static const struct {
        const char *verdict, *what;
    } ends[LAB_ENDS] = {
        [LAB_CRASHED] = {"crashed", "it ended before its answer was complete"},
        [LAB_LAUNCHER_ERROR] = {"error", "the launcher returned an error"},
        [LAB_SKIPPED] = {"skipped", "the launcher says that the device is too old"},
        [LAB_NO_DEVICE] = {"no device", "there is no device, or too little memory"},
        [LAB_WORKSPACE_TOO_LARGE] = {"error",
                                     "it asks for more workspace than this kernel may have"},
        [LAB_OTHER_STREAM] = {"error", "it uses a stream other than the one that it is given"},
        [LAB_IDLE_LAP] = {"fail", "one of several calls left its outputs unwritten"}};
    struct lab_answer head;
    char reason[800] = "", text[200];
    const char *what = "";
    memcpy(&head, file, sizeof head);
    head.report[sizeof head.report - 1] = '\0';
    if (head.magic != LAB_MAGIC || head.end < 0 || head.end >= LAB_ENDS)
        head.end = LAB_CRASHED;
    if (head.end == LAB_KERNEL_ERROR) {
        snprintf(reason, sizeof reason, "%s: %s", cudaGetErrorString((cudaError_t)head.status),
                 head.report);
        say("error", kind_of_report(head.report), reason);
    } else if (head.end != LAB_RAN) {
        snprintf(reason, sizeof reason, "%s: workspace %zu", head.report, head.workspace);
        say(ends[head.end].verdict, ends[head.end].what, reason);
    } else if (!images_intact(file, &what, reason, sizeof reason)) {
        say("fail", what, reason);
    } else if (!outputs_right(file, text, sizeof text, reason, sizeof reason)) {
        say("fail", text, reason);
    } else if ((what = moved_too_little(&head))) {
        say("hollow", what, "");
    } else {
        say("pass", "", "");
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
        answer("crashed", "");
    free(file);
}

int main(void)
{
    static char line[8192];
    prctl(PR_SET_DUMPABLE, 0); /* no process of the same user may look into this one */
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
