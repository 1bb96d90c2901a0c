#include "report.h"

#include <math.h>
#include <stdio.h>

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

/* A size as the command line has it: a number, or a choice's name between `quote`s. */
static void print_size(const struct request *request, int index, const char *quote)
{
    const struct size_option *size = &request->options[index];
    if (size->choices)
        printf("%s%s%s", quote, size->choices[request->sizes[index]], quote);
    else
        printf("%lld", request->sizes[index]);
}

static void table_header(const struct request *request, const char *device)
{
    printf("%s on %s (backend %s)\n", request->step, device, backend_name());
    for (int index = 0; request->options[index].name; index++) {
        if (request->options[index].hidden)
            continue;
        printf("%s ", request->options[index].name);
        print_size(request, index, "");
        printf("  ");
    }
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
    printf("%-24s %-7s", result->kernel->name, status_name(result->verdict.status));
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
    printf("\n%-24s   %s\n", "", result->kernel->idea);
}

/* A JSON string. */
static void print_quoted(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar((unsigned char)*text >= ' ' ? *text : ' ');
    }
    putchar('"');
}

static void print_counters(const struct counters *c)
{
    const struct {
        const char *name;
        unsigned long long value;
    } fields[] = {
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
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
        printf(", \"%s\": %llu", fields[f].name, fields[f].value);
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
    print_quoted(device);
    printf(", \"sizes\": {");
    for (int index = 0; request->options[index].name; index++) {
        if (request->options[index].hidden)
            continue;
        printf("%s\"%s\": ", index > 0 ? ", " : "", request->options[index].name);
        print_size(request, index, "\"");
    }
    printf("}, \"inputs\": \"%s\", \"seed\": %llu, \"flops\": %.17g, \"compulsory_bytes\": %.17g, "
           "\"kernels\": [",
           input_kind_name(request->inputs), (unsigned long long)request->seed,
           request->problem->flops(request->sizes),
           request->problem->compulsory_bytes(request->sizes));
}

static void json_row(const struct request *request, const struct result *result, bool first)
{
    printf("%s\n {\"name\": \"%s\", \"idea\": ", first ? "" : ",", result->kernel->name);
    print_quoted(result->kernel->idea);
    printf(", \"check\": \"%s\", \"detector\": \"%s\", \"reason\": ",
           status_name(result->verdict.status), detector_name(result->verdict.detector));
    print_quoted(result->verdict.reason);
    printf(", \"error\": ");
    print_number(result->verdict.error);
    printf(", \"bound\": ");
    print_number(result->verdict.bound);
    printf(", \"relative_l2\": ");
    print_number(result->verdict.relative_l2);
    if (result->milliseconds > 0.0)
        printf(", \"time_ms\": %.9g, \"gflops\": %.9g, \"gb_per_s\": %.9g", result->milliseconds,
               gflops(request, result), gigabytes_per_second(request, result));
    if (result->counted)
        print_counters(&result->counters);
    printf("}");
}

void report_begin(const struct request *request, const char *device)
{
    if (request->json)
        json_header(request, device);
    else
        table_header(request, device);
}

void report_result(const struct request *request, const struct result *result, bool first)
{
    if (request->json)
        json_row(request, result, first);
    else
        table_row(request, result);
    fflush(stdout);
}

void report_end(const struct request *request)
{
    if (request->json)
        printf("\n]}\n");
}

/* A size with its range, and its value: what the command line gives or the backend suggests. */
static void json_size(const struct request *request, int index)
{
    const struct size_option *size = &request->options[index];
    printf(
        "%s\n {\"name\": \"%s\", \"flag\": %s, \"minimum\": %lld, \"maximum\": %lld, \"value\": ",
        index > 0 ? "," : "", size->name, size->flag ? "true" : "false", size->minimum,
        size->maximum);
    print_size(request, index, "\"");
    printf("}");
}

static void json_kernel(const struct request *request, const struct kernel *kernel, bool first)
{
    const struct problem *problem = request->problem;
    const struct cost cost = problem->cost(kernel, request->sizes);
    printf("%s\n {\"name\": \"%s\", \"file\": \"%s\", \"idea\": ", first ? "" : ",", kernel->name,
           kernel->file);
    print_quoted(kernel->idea);
    printf(", \"begins\": %s, \"architecture\": ", kernel->begins ? "true" : "false");
    print_quoted(kernel->architecture ? kernel->architecture : "");
    printf(", \"falls_back\": %s", kernel->falls_back ? "true" : "false");
    if (problem->print_limits)
        problem->print_limits(kernel);
    else
        printf(", \"types\": [\"f32\"]");
    printf(", \"workspace\": %zu, \"global_loads\": %lld, \"global_stores\": %lld, "
           "\"bytes_read\": %lld, \"bytes_written\": %lld}",
           problem_workspace(problem, kernel, request->sizes), cost.loads, cost.stores,
           cost.bytes_read, cost.bytes_written);
}

static void json_list(const struct request *request)
{
    printf("{\"step\": \"%s\", \"problem\": \"%s\", \"sizes\": [", request->step,
           request->problem->name);
    for (int index = 0; request->options[index].name; index++)
        if (!request->options[index].hidden)
            json_size(request, index);
    printf("], \"inputs\": [");
    for (int kind = 0; kind < INPUT_KINDS; kind++)
        printf("%s\"%s\"", kind > 0 ? ", " : "", input_kind_name((enum input_kind)kind));
    printf("], \"kernels\": [");
    for (size_t index = 0; index < request_kernels(request); index++)
        json_kernel(request, request_kernel(request, index), index == 0);
    printf("\n]}\n");
}

void report_list(const struct request *request)
{
    if (request->json) {
        json_list(request);
        return;
    }
    for (size_t index = 0; index < request_kernels(request); index++)
        printf("%-24s %s\n", request_kernel(request, index)->name,
               request_kernel(request, index)->idea);
}
