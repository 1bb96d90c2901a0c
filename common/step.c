#include "step.h"

#include "backend.h"
#include "output.h"
#include "refusal.h"
#include "trial.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KERNELS = 32, MAX_REPEAT = 100000, MAX_ARGUMENT_NAMES = 512 };

enum report_format { REPORT_TABLE, REPORT_JSON, REPORT_CSV };

/* Keys of the options that every step has; the problem's sizes follow from FIRST_SIZE_KEY on. */
enum option_key {
    HELP_KEY = 256,
    KERNEL_KEY,
    LIST_KEY,
    INPUTS_KEY,
    SEED_KEY,
    REPEAT_KEY,
    JSON_KEY,
    CSV_KEY,
    FIRST_SIZE_KEY
};

struct request {
    const char *step;
    const struct problem *problem;
    const void *table;

    long long sizes[MAX_SIZES];
    bool selected[MAX_KERNELS];
    bool any_selected;
    bool list, help;
    enum input_kind inputs;
    uint64_t seed;
    long long repeat;
    enum report_format format;

    char complaint[512]; /* what is wrong with the command line; empty when nothing is */
};

/* One kernel's outcome. */
struct result {
    struct kernel_row row;
    struct verdict verdict;
    double milliseconds; /* 0 where it was not timed */
    struct counters counters;
    bool counted;
};

static error_t complain(struct request *request, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static error_t complain(struct request *request, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(request->complaint, sizeof request->complaint, format, arguments);
    va_end(arguments);
    return EINVAL;
}

/* Parses the whole of `text` as an integer in minimum .. maximum. */
static error_t parse_integer(struct request *request, const char *option, const char *text,
                             long long minimum, long long maximum, long long *value)
{
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno == ERANGE || *value < minimum || *value > maximum)
        return complain(request, "--%s is '%s'; it must be a whole number in %lld .. %lld", option,
                        text, minimum, maximum);
    return 0;
}

static size_t kernel_count(const struct request *request)
{
    size_t count = 0;
    while (count < MAX_KERNELS && request->problem->kernel(request->table, count).name)
        count++;
    return count;
}

/* Appends ", name" to a list of what would have been allowed. */
static void append_name(char *names, const char *name)
{
    const size_t used = strlen(names);
    snprintf(names + used, MAX_ARGUMENT_NAMES - used, "%s%s", used > 0 ? ", " : "", name);
}

static error_t select_kernel(struct request *request, const char *name)
{
    char names[MAX_ARGUMENT_NAMES] = "";
    for (size_t index = 0; index < kernel_count(request); index++) {
        const char *candidate = request->problem->kernel(request->table, index).name;
        if (strcmp(candidate, name) == 0) {
            request->selected[index] = true;
            request->any_selected = true;
            return 0;
        }
        append_name(names, candidate);
    }
    return complain(request, "--kernel is '%s'; it must be one of %s", name, names);
}

static error_t select_inputs(struct request *request, const char *name)
{
    char names[MAX_ARGUMENT_NAMES] = "";
    if (input_kind_find(name, &request->inputs))
        return 0;
    for (int kind = 0; kind < INPUT_KINDS; kind++)
        append_name(names, input_kind_name((enum input_kind)kind));
    return complain(request, "--inputs is '%s'; it must be one of %s", name, names);
}

static error_t select_format(struct request *request, enum report_format format)
{
    if (request->format != REPORT_TABLE && request->format != format)
        return complain(request, "--json and --csv exclude each other");
    request->format = format;
    return 0;
}

static error_t set_size(struct request *request, int index, const char *text)
{
    const struct size_option *size = &request->problem->sizes[index];
    if (size->flag) {
        request->sizes[index] = 1;
        return 0;
    }
    return parse_integer(request, size->name, text, size->minimum, size->maximum,
                         &request->sizes[index]);
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct request *request = state->input;
    long long value = 0;
    error_t error;
    switch (key) {
    case HELP_KEY:
        request->help = true;
        return 0;
    case KERNEL_KEY:
        return select_kernel(request, text);
    case LIST_KEY:
        request->list = true;
        return 0;
    case INPUTS_KEY:
        return select_inputs(request, text);
    case SEED_KEY:
        error = parse_integer(request, "seed", text, 0, INT64_MAX, &value);
        request->seed = (uint64_t)value;
        return error;
    case REPEAT_KEY:
        return parse_integer(request, "repeat", text, 1, MAX_REPEAT, &request->repeat);
    case JSON_KEY:
        return select_format(request, REPORT_JSON);
    case CSV_KEY:
        return select_format(request, REPORT_CSV);
    case ARGP_KEY_ARG:
        return complain(request, "unexpected argument '%s'; only options are allowed, see --help",
                        text);
    default:
        if (key >= FIRST_SIZE_KEY && key < FIRST_SIZE_KEY + MAX_SIZES)
            return set_size(request, key - FIRST_SIZE_KEY, text);
        return ARGP_ERR_UNKNOWN;
    }
}

/* Defaults that suit the backend: small where every access is watched, large on a GPU. */
static void set_defaults(struct request *request)
{
    const bool device = strcmp(backend_name(), "gpu") == 0;
    for (int index = 0; request->problem->sizes[index].name; index++) {
        const struct size_option *size = &request->problem->sizes[index];
        request->sizes[index] = device ? size->device : size->watched;
    }
    request->seed = 1;
    request->repeat = device ? 20 : 3;
}

/* What the last argument that argp looked at should have been. */
static void complain_of_option(struct request *request, const struct argp_option *options,
                               const char *argument)
{
    char names[MAX_ARGUMENT_NAMES] = "";
    const char *name = strncmp(argument, "--", 2) == 0 ? argument + 2 : argument;
    for (const struct argp_option *option = options; option->name; option++) {
        char dashed[64];
        snprintf(dashed, sizeof dashed, "--%s", option->name);
        append_name(names, dashed);
        if (option->arg && strcmp(option->name, name) == 0) {
            complain(request, "--%s needs a value: --%s %s (%s)", name, name, option->arg,
                     option->doc);
            return;
        }
    }
    complain(request, "'%s' is not understood; allowed are %s", argument, names);
}

/* Fills in *request. Returns false, with a complaint, for a command line that is not understood. */
static bool parse_command_line(struct request *request, int argc, char **argv)
{
    static const struct argp_option general[] = {
        {"help", HELP_KEY, NULL, 0, "Show this and exit", 1},
        {"list", LIST_KEY, NULL, 0, "List the kernels in reading order and exit", 1},
        {"kernel", KERNEL_KEY, "NAME", 0, "Run this kernel only; may be repeated (default: all)",
         1},
        {"inputs", INPUTS_KEY, "KIND", 0,
         "normal, uniform, large, ascending, descending, outliers or constant (default: normal)",
         3},
        {"seed", SEED_KEY, "N", 0, "Seed of the inputs (default: 1)", 3},
        {"repeat", REPEAT_KEY, "N", 0, "Timed runs per kernel; the median is reported", 3},
        {"json", JSON_KEY, NULL, 0, "Report as one JSON object", 4},
        {"csv", CSV_KEY, NULL, 0, "Report as CSV with a header line", 4},
    };
    enum { GENERAL = sizeof general / sizeof general[0] };
    struct argp_option options[GENERAL + MAX_SIZES + 1] = {{0}};
    char help[MAX_SIZES][160];

    memcpy(options, general, sizeof general);
    for (int index = 0; request->problem->sizes[index].name; index++) {
        const struct size_option *size = &request->problem->sizes[index];
        if (size->flag)
            snprintf(help[index], sizeof help[index], "%s", size->help);
        else
            snprintf(help[index], sizeof help[index], "%s, %lld .. %lld (default: %lld)",
                     size->help, size->minimum, size->maximum, request->sizes[index]);
        options[GENERAL + index] = (struct argp_option){
            size->name, FIRST_SIZE_KEY + index, size->flag ? NULL : "N", 0, help[index], 2};
    }

    char description[256];
    snprintf(description, sizeof description,
             "Runs the kernels of step %s, checks each against a double-precision reference and "
             "prints the ladder."
             "\vExit status: 0 all passed, 1 a check failed, 2 bad usage, 3 no usable device.",
             request->step);
    const struct argp argp = {options, parse_option, NULL, description, NULL, NULL, NULL};

    int next = 1;
    const error_t error =
        argp_parse(&argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP, &next, request);
    if (error && request->complaint[0] == '\0') {
        int wrong = next > 1 && next <= argc ? next - 1 : argc - 1;
        while (wrong > 1 && argv[wrong][0] != '-')
            wrong--; /* past the value that would have been the option's */
        complain_of_option(request, options, argv[wrong]);
    }
    if (!error && request->help)
        argp_help(&argp, stdout, ARGP_HELP_USAGE | ARGP_HELP_DOC | ARGP_HELP_LONG, argv[0]);
    return !error;
}

static void list_kernels(const struct request *request)
{
    for (size_t index = 0; index < kernel_count(request); index++) {
        const struct kernel_row row = request->problem->kernel(request->table, index);
        printf("%-24s %s\n", row.name, row.idea);
    }
}

static double per(double amount, double whole)
{
    return whole > 0.0 ? amount / whole : 0.0;
}

static double sectors_per_request(const struct counters *counters)
{
    return per((double)(counters->global_load_sectors + counters->global_store_sectors),
               (double)(counters->global_load_requests + counters->global_store_requests));
}

static double global_bytes(const struct counters *counters)
{
    return (double)(counters->global_load_bytes + counters->global_store_bytes);
}

static const char *status_name(enum verdict_status status)
{
    static const char *const names[] = {
        [VERDICT_PASS] = "pass",
        [VERDICT_FAIL] = "FAIL",
        [VERDICT_REFUSED] = "refused",
        [VERDICT_SKIPPED] = "skipped",
    };
    return names[status];
}

/* The device's rates at the problem's own FLOPs and compulsory bytes, 0 where there is no time. */
static double gflops(const struct request *request, const struct result *result)
{
    return per(request->problem->flops(request->sizes) * 1e-6, result->milliseconds);
}

static double gigabytes_per_second(const struct request *request, const struct result *result)
{
    return per(request->problem->compulsory_bytes(request->sizes) * 1e-6, result->milliseconds);
}

static void print_sizes(const struct request *request, const char *format)
{
    for (int index = 0; request->problem->sizes[index].name; index++)
        printf(format, request->problem->sizes[index].name, request->sizes[index]);
}

static void table_header(const struct request *request, const char *device)
{
    printf("%s on %s (backend %s)\n", request->step, device, backend_name());
    print_sizes(request, "%s %lld  ");
    printf("inputs %s  seed %llu\n", input_kind_name(request->inputs),
           (unsigned long long)request->seed);
    printf("%.4g FLOP, %.4g compulsory bytes\n\n", request->problem->flops(request->sizes),
           request->problem->compulsory_bytes(request->sizes));
    printf("%-24s %-7s %9s %9s", "kernel", "check", "error", "bound");
    if (backend_has_timing())
        printf(" %10s %10s %9s\n", "time ms", "GFLOP/s", "GB/s");
    else
        printf(" %11s %10s %12s %11s %11s %7s %9s %8s %9s\n", "glob.loads", "stores", "glob.bytes",
               "sect./req.", "wavefronts", "/ideal", "barriers", "atomics", "FLOP/byte");
}

static void table_row(const struct request *request, const struct result *result)
{
    printf("%-24s %-7s", result->row.name, status_name(result->verdict.status));
    if (result->verdict.status != VERDICT_PASS) {
        printf(" %s\n", result->verdict.reason);
        return;
    }
    printf(" %9.2e %9.2e", result->verdict.error, result->verdict.bound);
    if (backend_has_timing())
        printf(" %10.4f %10.1f %9.1f", result->milliseconds, gflops(request, result),
               gigabytes_per_second(request, result));
    if (result->counted) {
        const struct counters *c = &result->counters;
        printf(" %11llu %10llu %12.0f %11.2f %11llu %7.2f %9llu %8llu %9.2f", c->global_loads,
               c->global_stores, global_bytes(c), sectors_per_request(c), c->shared_wavefronts,
               per((double)c->shared_wavefronts, (double)c->shared_wavefronts_ideal), c->barriers,
               c->atomics, per(request->problem->flops(request->sizes), global_bytes(c)));
    }
    printf("\n%-24s   %s\n", "", result->row.idea);
}

/* The counters as (name, value) pairs, the same names in JSON and CSV. */
enum { COUNTER_FIELDS = 15 };

struct counter_field {
    const char *name;
    unsigned long long value;
};

static void counter_fields(const struct counters *c, struct counter_field fields[COUNTER_FIELDS])
{
    const struct counter_field all[COUNTER_FIELDS] = {
        {"launches", c->launches},
        {"global_loads", c->global_loads},
        {"global_load_bytes", c->global_load_bytes},
        {"global_load_requests", c->global_load_requests},
        {"global_load_sectors", c->global_load_sectors},
        {"global_stores", c->global_stores},
        {"global_store_bytes", c->global_store_bytes},
        {"global_store_requests", c->global_store_requests},
        {"global_store_sectors", c->global_store_sectors},
        {"shared_loads", c->shared_loads},
        {"shared_stores", c->shared_stores},
        {"shared_wavefronts", c->shared_wavefronts},
        {"shared_wavefronts_ideal", c->shared_wavefronts_ideal},
        {"barriers", c->barriers},
        {"atomics", c->atomics},
    };
    memcpy(fields, all, sizeof all);
}

/* JSON strings and, with its quote doubled, CSV ones. */
static void print_quoted(const char *text, char escape)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || (escape == '\\' && *text == '\\'))
            putchar(escape);
        if ((unsigned char)*text >= ' ')
            putchar(*text);
        else
            putchar(' ');
    }
    putchar('"');
}

/* JSON has no infinities and no NaN. */
static void print_number(double value)
{
    if (isfinite(value))
        printf("%.9g", value);
    else
        printf("null");
}

static void json_header(const struct request *request, const char *device)
{
    printf("{\"step\": \"%s\", \"backend\": \"%s\", \"device\": ", request->step, backend_name());
    print_quoted(device, '\\');
    printf(", \"sizes\": {");
    for (int index = 0; request->problem->sizes[index].name; index++)
        printf("%s\"%s\": %lld", index > 0 ? ", " : "", request->problem->sizes[index].name,
               request->sizes[index]);
    printf("}, \"inputs\": \"%s\", \"seed\": %llu, \"flops\": %.17g, \"compulsory_bytes\": %.17g, "
           "\"kernels\": [",
           input_kind_name(request->inputs), (unsigned long long)request->seed,
           request->problem->flops(request->sizes),
           request->problem->compulsory_bytes(request->sizes));
}

static void json_row(const struct request *request, const struct result *result, bool first)
{
    printf("%s\n {\"name\": \"%s\", \"idea\": ", first ? "" : ",", result->row.name);
    print_quoted(result->row.idea, '\\');
    printf(", \"check\": \"%s\", \"detector\": \"%s\", \"reason\": ",
           status_name(result->verdict.status), detector_name(result->verdict.detector));
    print_quoted(result->verdict.reason, '\\');
    printf(", \"error\": ");
    print_number(result->verdict.error);
    printf(", \"bound\": ");
    print_number(result->verdict.bound);
    printf(", \"relative_l2\": ");
    print_number(result->verdict.relative_l2);
    if (result->milliseconds > 0.0)
        printf(", \"time_ms\": %.9g, \"gflops\": %.9g, \"gb_per_s\": %.9g", result->milliseconds,
               gflops(request, result), gigabytes_per_second(request, result));
    if (result->counted) {
        struct counter_field fields[COUNTER_FIELDS];
        counter_fields(&result->counters, fields);
        for (int f = 0; f < COUNTER_FIELDS; f++)
            printf(", \"%s\": %llu", fields[f].name, fields[f].value);
    }
    printf("}");
}

static void csv_header(const struct request *request)
{
    const struct counters none = {0};
    struct counter_field fields[COUNTER_FIELDS];
    counter_fields(&none, fields);
    printf("step,backend");
    for (int index = 0; request->problem->sizes[index].name; index++)
        printf(",%s", request->problem->sizes[index].name);
    printf(",inputs,seed,kernel,check,detector,reason,error,bound,relative_l2,time_ms,gflops,gb_"
           "per_s");
    for (int f = 0; f < COUNTER_FIELDS; f++)
        printf(",%s", fields[f].name);
    printf("\n");
}

static void csv_row(const struct request *request, const struct result *result)
{
    printf("%s,%s", request->step, backend_name());
    for (int index = 0; request->problem->sizes[index].name; index++)
        printf(",%lld", request->sizes[index]);
    printf(",%s,%llu,%s,%s,%s,", input_kind_name(request->inputs),
           (unsigned long long)request->seed, result->row.name, status_name(result->verdict.status),
           detector_name(result->verdict.detector));
    print_quoted(result->verdict.reason, '"');
    printf(",%.9g,%.9g,%.9g,", result->verdict.error, result->verdict.bound,
           result->verdict.relative_l2);
    if (result->milliseconds > 0.0)
        printf("%.9g,%.9g,%.9g", result->milliseconds, gflops(request, result),
               gigabytes_per_second(request, result));
    else
        printf(",,");
    struct counter_field fields[COUNTER_FIELDS];
    counter_fields(&result->counters, fields);
    for (int f = 0; f < COUNTER_FIELDS; f++) {
        if (result->counted)
            printf(",%llu", fields[f].value);
        else
            printf(",");
    }
    printf("\n");
}

static void report_header(const struct request *request, const char *device)
{
    if (request->format == REPORT_JSON)
        json_header(request, device);
    else if (request->format == REPORT_CSV)
        csv_header(request);
    else
        table_header(request, device);
}

static void report_row(const struct request *request, const struct result *result, bool first)
{
    if (request->format == REPORT_JSON)
        json_row(request, result, first);
    else if (request->format == REPORT_CSV)
        csv_row(request, result);
    else
        table_row(request, result);
    fflush(stdout);
}

static struct result run_kernel(const struct request *request, struct trial *trial, size_t index)
{
    struct result result = {.row = request->problem->kernel(request->table, index)};
    backend_counters_reset();
    result.verdict = trial_run(trial, request->table, index);
    result.counted = backend_counters(&result.counters) && result.verdict.status == VERDICT_PASS;
    if (result.verdict.status == VERDICT_PASS && backend_has_timing()) {
        const cudaError_t status =
            trial_time(trial, request->table, index, (size_t)request->repeat, &result.milliseconds);
        if (status != cudaSuccess) {
            result.verdict.status = VERDICT_FAIL;
            result.verdict.detector = DETECTOR_LAUNCH;
            snprintf(result.verdict.reason, sizeof result.verdict.reason, "while timing: %s",
                     cudaGetErrorString(status));
        }
    }
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
    bool first = true;
    memcpy(request->sizes, trial->sizes, sizeof request->sizes);
    report_header(request, device);
    for (size_t index = 0; index < kernel_count(request); index++) {
        if (request->any_selected && !request->selected[index])
            continue;
        const struct result result = run_kernel(request, trial, index);
        report_row(request, &result, first);
        if (result.verdict.status == VERDICT_FAIL || result.verdict.status == VERDICT_REFUSED)
            fprintf(stderr, "%s: %s: %s\n", request->step, result.row.name, result.verdict.reason);
        status = worse(status, &result);
        first = false;
    }
    if (request->format == REPORT_JSON)
        printf("\n]}\n");
    return status;
}

static enum step_status run_step(int argc, char **argv, const char *step,
                                 const struct problem *problem, const void *table)
{
    struct request request = {.step = step, .problem = problem, .table = table};
    set_defaults(&request);
    if (!parse_command_line(&request, argc, argv)) {
        fprintf(stderr, "%s: %s\n", step, request.complaint);
        return STEP_BAD_USAGE;
    }
    if (request.help)
        return STEP_PASSED;
    if (request.list) {
        list_kernels(&request);
        return STEP_PASSED;
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
    refusal_clear();
    status = trial_create(&trial, problem, request.sizes, request.inputs, request.seed, 0);
    if (status != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", step, *refusal() ? refusal() : cudaGetErrorString(status));
        return STEP_BAD_USAGE;
    }
    const enum step_status outcome = run_ladder(&request, &trial, properties.name);
    trial_destroy(&trial);
    return outcome;
}

int step_main(int argc, char **argv, const char *step, const struct problem *problem,
              const void *table)
{
    if (!output_is_open())
        return STEP_BAD_USAGE;
    const enum step_status status = run_step(argc, argv, step, problem, table);
    if (!output_arrived(stdout) && status == STEP_PASSED)
        return STEP_BAD_USAGE;
    return status;
}
