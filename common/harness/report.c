#include "report.h"

#include "output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Prints a size as on the command line: a number, or a choice's name between `quote`s. */
static void print_size(const struct request *request, int index, const char *quote)
{
    const struct size_option *size = &request->options[index];
    if (size->choices)
        printf("%s%s%s", quote, size->choices[request->sizes[index]], quote);
    else
        printf("%lld", request->sizes[index]);
}

/* ---- The table for people ---- */

enum { PAGE = 100, GAP = 2, STATUS = 7, IDEA_INDENT = 4, CELL = 64 };

enum column_name {
    ERROR,
    BOUND,
    MILLISECONDS,
    FASTER,
    TFLOPS,
    GIGABYTES_PER_SECOND,
    PREDICTED_LOADS,
    LOADS,
    FEWER_LOADS,
    PREDICTED_STORES,
    STORES,
    PREDICTED_BYTES,
    BYTES,
    FEWER_BYTES,
    SECTORS,
    WAVEFRONTS,
    TO_IDEAL,
    BARRIERS,
    ATOMICS,
    FLOP_PER_BYTE,
    COLUMNS
};

enum notation { COUNT, RATIO, SCIENTIFIC };

enum { WIDE = 99 };

/* The table has columns of numbers. */
struct column {
    const char *title[2]; /* the title's two lines */
    /* A column of rank 0 is always shown. Of the others, the largest rank goes first when the page
     * is too narrow. WIDE columns are shown only on request. */
    int rank;
    enum notation notation;
    bool predicted; /* the column before holds the number that this one should have */
};

/* The lessons' tables have the same titles and notation (docs/make/lessons.py). */
static const struct column columns[COLUMNS] = {
    [ERROR] = {{"", "error"}, WIDE, SCIENTIFIC, false},
    [BOUND] = {{"", "bound"}, WIDE, SCIENTIFIC, false},
    [MILLISECONDS] = {{"", "ms"}, 0, RATIO, false},
    [FASTER] = {{"", "× faster"}, 0, RATIO, false},
    [TFLOPS] = {{"", "TFLOP/s"}, 0, RATIO, false},
    [GIGABYTES_PER_SECOND] = {{"", "GB/s"}, 0, RATIO, false},
    [PREDICTED_LOADS] = {{"predicted", "loads"}, 2, COUNT, false},
    [LOADS] = {{"counted", "loads"}, 0, COUNT, true},
    [FEWER_LOADS] = {{"", "× fewer"}, 1, RATIO, false},
    [PREDICTED_STORES] = {{"predicted", "stores"}, WIDE, COUNT, false},
    [STORES] = {{"counted", "stores"}, WIDE, COUNT, true},
    [PREDICTED_BYTES] = {{"predicted", "bytes"}, 9, COUNT, false},
    [BYTES] = {{"counted", "bytes"}, 0, COUNT, true},
    [FEWER_BYTES] = {{"", "× fewer"}, 3, RATIO, false},
    [SECTORS] = {{"sectors per", "load request"}, 5, RATIO, false},
    [WAVEFRONTS] = {{"shared", "wavefronts"}, 4, COUNT, false},
    [TO_IDEAL] = {{"", "× ideal"}, 8, RATIO, false},
    [BARRIERS] = {{"", "barriers"}, 6, COUNT, false},
    [ATOMICS] = {{"", "atomics"}, 7, COUNT, false},
    [FLOP_PER_BYTE] = {{"FLOP per", "byte"}, 10, RATIO, false},
};

/* Returns the row that this one is compared with: of the kernel that it changes, or else the one
 * before; -1 for none. */
static long row_before(const struct result *results, long row)
{
    const char *after = results[row].kernel->after;
    for (long other = row - 1; after && other >= 0; other--)
        if (strcmp(results[other].kernel->name, after) == 0)
            return other;
    return row - 1;
}

/* Evaluates a row's numbers, NAN for what is not known. `before` is the row to compare with, or
 * null. */
static void evaluate(double value[COLUMNS], const double *before, const struct request *request,
                     const struct result *result)
{
    for (int column = 0; column < COLUMNS; column++)
        value[column] = NAN;
    if (result->verdict.status != VERDICT_PASS)
        return;
    const double flops = request->problem->flops(request->sizes);
    const struct cost cost = request->problem->cost(result->kernel, request->sizes);
    value[ERROR] = result->verdict.error;
    value[BOUND] = result->verdict.bound;
    value[PREDICTED_LOADS] = (double)cost.loads;
    value[PREDICTED_STORES] = (double)cost.stores;
    value[PREDICTED_BYTES] = (double)(cost.bytes_read + cost.bytes_written);
    if (result->milliseconds > 0.0) {
        value[MILLISECONDS] = result->milliseconds;
        value[TFLOPS] = flops * 1e-9 / result->milliseconds;
        value[GIGABYTES_PER_SECOND] =
            request->problem->compulsory_bytes(request->sizes) * 1e-6 / result->milliseconds;
    }
    if (result->counted) {
        const struct counters *c = &result->counters;
        value[LOADS] = (double)c->global_loads;
        value[STORES] = (double)c->global_stores;
        value[BYTES] = (double)(c->global_load_bytes + c->global_store_bytes);
        value[SECTORS] = (double)c->global_load_sectors / (double)c->global_load_requests;
        value[WAVEFRONTS] = (double)c->shared_wavefronts;
        value[TO_IDEAL] = (double)c->shared_wavefronts / (double)c->shared_wavefronts_ideal;
        value[BARRIERS] = (double)c->barriers;
        value[ATOMICS] = (double)c->atomics;
        value[FLOP_PER_BYTE] = flops / value[BYTES];
    }
    if (before) { /* from the formulas where nothing is counted */
        const int loads = result->counted ? LOADS : PREDICTED_LOADS;
        const int bytes = result->counted ? BYTES : PREDICTED_BYTES;
        value[FASTER] = before[MILLISECONDS] / value[MILLISECONDS];
        value[FEWER_LOADS] = before[loads] / value[loads];
        value[FEWER_BYTES] = before[bytes] / value[bytes];
    }
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* Counts the characters of a UTF-8 text. */
static int width(const char *text)
{
    int characters = 0;
    for (; *text; text++)
        characters += ((unsigned char)*text & 0xc0) != 0x80;
    return characters;
}

static void print_right(const char *text, int columns_wide)
{
    printf("%*s%s", columns_wide - width(text), "", text);
}

/* Writes a whole number with a separator between thousands. */
static void write_count(char *text, double value)
{
    char digits[CELL];
    const int length = snprintf(digits, sizeof digits, "%.0f", value);
    int used = 0;
    for (int at = 0; at < length; at++) {
        if (at > 0 && (length - at) % 3 == 0)
            text[used++] = ',';
        text[used++] = digits[at];
    }
    text[used] = '\0';
}

/* Writes three significant digits, or all that are before the point. */
static void write_ratio(char *text, double value)
{
    if (value >= 99.95)
        write_count(text, value);
    else
        sprintf(text, "%.*f",
                value >= 9.995     ? 1
                : value >= 0.9995  ? 2
                : value >= 0.09995 ? 3
                                   : 4,
                value);
}

static void write_cell(char text[CELL], const double value[COLUMNS], int column)
{
    if (!isfinite(value[column])) {
        snprintf(text, CELL, "–");
        return;
    }
    if (columns[column].predicted && value[column - 1] != value[column])
        text += snprintf(text, CELL, "≠ ");
    if (columns[column].notation == COUNT)
        write_count(text, value[column]);
    else if (columns[column].notation == RATIO)
        write_ratio(text, value[column]);
    else
        sprintf(text, "%.2e", value[column]);
}

/* A grid has the table's cells and the width of each column; 0 hides a column. */
struct grid {
    size_t rows;
    char (*cell)[COLUMNS][CELL]; /* one for each row */
    int width[COLUMNS];
};

/* Returns the width of a column's contents. It returns 0 when they say nothing: all dashes or,
 * unless `wide`, all 0 and 1. */
static int column_width(const struct grid *grid, int column, bool wide)
{
    bool telling = false;
    int widest = 0;
    for (int line = 0; line < 2; line++)
        widest = larger(widest, width(columns[column].title[line]));
    for (size_t row = 0; row < grid->rows; row++) {
        const char *cell = grid->cell[row][column];
        widest = larger(widest, width(cell));
        telling |= strcmp(cell, "–") != 0 &&
                   (wide || (strcmp(cell, "0") != 0 && strcmp(cell, "1.00") != 0));
    }
    return telling && (wide || columns[column].rank < WIDE) ? widest : 0;
}

/* Drops columns until the table fits the page. `first` is the width of what is to their left. */
static void fit(struct grid *grid, int first)
{
    for (;;) {
        int total = first, last = 0;
        for (int column = 0; column < COLUMNS; column++) {
            if (grid->width[column] == 0)
                continue;
            total += GAP + grid->width[column];
            if (columns[column].rank > columns[last].rank || grid->width[last] == 0)
                last = column;
        }
        if (total <= PAGE || columns[last].rank == 0)
            return;
        grid->width[last] = 0;
    }
}

/* Prints a text indented, in lines that fit the page. */
static void print_wrapped(const char *text)
{
    int used = 0;
    while (*text) {
        char word[PAGE * 4];
        const int length = (int)strcspn(text, " ");
        snprintf(word, sizeof word, "%.*s", length, text);
        if (used > 0 && used + 1 + width(word) > PAGE) {
            printf("\n");
            used = 0;
        }
        used += printf("%*s", used > 0 ? 1 : IDEA_INDENT, "") + width(word);
        printf("%s", word);
        text += length;
        text += strspn(text, " ");
    }
    printf("\n");
}

/* Prints lines, each indented. */
static void print_lines(const char *text)
{
    while (*text) {
        const int length = (int)strcspn(text, "\n");
        printf("%*s%.*s\n", IDEA_INDENT, "", length, text);
        text += length;
        text += *text == '\n';
    }
}

static void print_heading(const struct request *request, const char *device)
{
    char flop[CELL], bytes[CELL];
    write_count(flop, request->problem->flops(request->sizes));
    write_count(bytes, request->problem->compulsory_bytes(request->sizes));
    printf("%s on %s (backend %s)\n", request->step->name, device, backend_name());
    for (int index = 0; request->options[index].name; index++) {
        const struct size_option *size = &request->options[index];
        const bool left_out = request->sizes[index] == 0 && size->device == 0 && !size->choices;
        if (size->hidden || left_out)
            continue;
        printf("%s%s ", index > 0 ? "  " : "", size->name);
        print_size(request, index, "");
    }
    printf("\ninputs %s  seed %llu\n", input_kind_name(request->inputs),
           (unsigned long long)request->seed);
    printf("%s FLOP, %s compulsory bytes\n", flop, bytes);
    printf("loads, stores and bytes are those of global memory; --wide shows more columns\n\n");
}

static void print_table(const struct request *request, const char *device,
                        const struct result *results, size_t count)
{
    struct grid grid = {.rows = count, .cell = calloc(count + 1, sizeof *grid.cell)};
    int names = width("kernel");
    double(*value)[COLUMNS] = calloc(count + 1, sizeof *value);
    if (grid.cell == NULL || value == NULL) {
        fprintf(stderr, "there is no memory left for a table\n");
        free(grid.cell);
        free(value);
        return;
    }
    for (size_t row = 0; row < count; row++) {
        names = larger(names, width(results[row].kernel->name));
        const long before = row_before(results, (long)row);
        evaluate(value[row], before < 0 ? NULL : value[before], request, &results[row]);
        for (int column = 0; column < COLUMNS; column++)
            write_cell(grid.cell[row][column], value[row], column);
    }
    free(value);
    for (int column = 0; column < COLUMNS; column++)
        grid.width[column] = column_width(&grid, column, request->wide);
    if (!request->wide)
        fit(&grid, names + GAP + STATUS);

    print_heading(request, device);
    for (int line = 0; line < 2; line++) {
        printf("%-*s%*s%-*s", names, line == 1 ? "kernel" : "", GAP, "", STATUS,
               line == 1 ? "check" : "");
        for (int column = 0; column < COLUMNS; column++)
            if (grid.width[column] > 0)
                print_right(columns[column].title[line], GAP + grid.width[column]);
        printf("\n");
    }
    for (size_t row = 0; row < count; row++) {
        const struct verdict *verdict = &results[row].verdict;
        printf("%-*s%*s%-*s", names, results[row].kernel->name, GAP, "", STATUS,
               status_name(verdict->status));
        for (int column = 0; column < COLUMNS; column++)
            if (grid.width[column] > 0 && verdict->status == VERDICT_PASS)
                print_right(grid.cell[row][column], GAP + grid.width[column]);
        printf("\n");
        print_wrapped(verdict->status == VERDICT_PASS ? results[row].kernel->idea
                                                      : verdict->reason);
        if (verdict->explanation)
            print_lines(verdict->explanation->map);
    }
    free(grid.cell);
}

/* Prints a JSON string. */
static void print_quoted(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\' || *text == '\n')
            putchar('\\');
        putchar(*text == '\n' ? 'n' : (unsigned char)*text >= ' ' ? *text : ' ');
    }
    putchar('"');
}

static void print_counters(const struct counters *c)
{
#define PRINT(name) printf(", \"" #name "\": %llu", c->name);
    EACH_COUNTER(PRINT)
#undef PRINT
}

static void print_text(const char *name, const char *text)
{
    printf(", \"%s\": ", name);
    print_quoted(text);
}

/* JSON has no infinities and no NaN. */
static void print_number(const char *name, double value)
{
    if (isfinite(value))
        printf(", \"%s\": %.9g", name, value);
    else
        printf(", \"%s\": null", name);
}

static void json_header(const struct request *request, const char *device)
{
    printf("{\"step\": \"%s\", \"backend\": \"%s\", \"device\": ", request->step->name,
           backend_name());
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

/* The texts are empty where there is no explanation. */
static void print_explanation(const struct explanation *explanation)
{
    static const struct explanation none;
    explanation = explanation ? explanation : &none;
    print_text("pattern", explanation->name);
    print_text("where", explanation->where);
    print_text("why", explanation->why);
    print_text("map", explanation->map);
    print_text("elements", explanation->elements);
}

static void print_verdict(const struct verdict *verdict)
{
    print_text("check", status_name(verdict->status));
    print_text("detector", detector_name(verdict->detector));
    print_text("reason", verdict->reason);
    if (verdict->status == VERDICT_FAIL)
        print_explanation(verdict->explanation);
    print_number("error", verdict->error);
    print_number("bound", verdict->bound);
    print_number("relative_l2", verdict->relative_l2);
}

static void json_row(const struct request *request, const struct result *result, bool first)
{
    printf("%s\n {\"name\": \"%s\"", first ? "" : ",", result->kernel->name);
    print_text("idea", result->kernel->idea);
    print_verdict(&result->verdict);
    if (result->milliseconds > 0.0)
        printf(", \"time_ms\": %.9g, \"gflops\": %.9g, \"gb_per_s\": %.9g", result->milliseconds,
               request->problem->flops(request->sizes) * 1e-6 / result->milliseconds,
               request->problem->compulsory_bytes(request->sizes) * 1e-6 / result->milliseconds);
    if (result->counted)
        print_counters(&result->counters);
    printf("}");
}

void report_results(const struct request *request, const char *device, const struct result *results,
                    size_t count)
{
    if (!request->json) {
        print_table(request, device, results, count);
        return;
    }
    output_begin();
    json_header(request, device);
    for (size_t index = 0; index < count; index++)
        json_row(request, &results[index], index == 0);
    printf("\n]}\n");
    output_end();
}

void report_case(const struct request *request, const struct kernel *kernel,
                 const struct test_case *one)
{
    if (!request->json)
        return;
    output_begin();
    printf("{\"kernel\": \"%s\"", kernel->name);
    print_text("case", case_options(request->problem, one));
    print_text("wrong", one->wrong);
    printf(", \"check\": \"\"}\n");
    output_end();
}

void report_case_verdict(const struct request *request, const struct test_case *one,
                         const struct result *result)
{
    const struct verdict *verdict = &result->verdict;
    const char *options = case_options(request->problem, one);
    if (request->json) {
        output_begin();
        printf("{\"kernel\": \"%s\"", result->kernel->name);
        print_text("case", options);
        print_text("wrong", one->wrong);
        print_verdict(verdict);
        printf("}\n");
        output_end();
    } else if (verdict->status == VERDICT_FAIL || verdict->status == VERDICT_REFUSED) {
        printf("%s %s (%s): %s\n", result->kernel->name, options, one->wrong,
               status_name(verdict->status));
        print_wrapped(verdict->reason);
    }
}

void report_case_count(const struct request *request, const struct case_count *count)
{
    if (request->json)
        return;
    printf("%-24s", count->kernel->name);
    if (count->passed + count->failed > 0)
        printf(" %d of %d %s cases right", count->passed, count->passed + count->failed,
               case_level_names[request->cases]);
    if (count->skipped > 0)
        printf(" %d not run here", count->skipped);
    printf("\n");
    fflush(stdout);
}

void report_claims(const struct request *request, const struct kernel *kernel,
                   const struct claims *claims)
{
    if (!request->json && claims->count == 0)
        printf("%-24s claims nothing that is counted\n", kernel->name);
    output_begin();
    for (int i = 0; i < claims->count; i++) {
        const struct claim *claim = &claims->claim[i];
        const char *relation = claim->at_most ? "<=" : ">=";
        if (request->json) {
            printf("{\"kernel\": \"%s\", \"what\": \"%s\", \"relation\": \"%s\", \"bound\": %llu, "
                   "\"value\": %llu, \"kept\": %s",
                   kernel->name, claim->what, relation, claim->bound, claim->value,
                   claim->kept ? "true" : "false");
            print_text("at", claim->options);
            printf("}\n");
        } else {
            printf("%-24s %s %s %llu at %s: %llu%s\n", kernel->name, claim->what, relation,
                   claim->bound, claim->options, claim->value, claim->kept ? "" : " BROKEN");
        }
    }
    output_end();
}

void report_running(const struct request *request, const struct kernel *kernel)
{
    if (!request->json && isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s", kernel ? kernel->name : "");
}

/* Prints a size with its range and its value: what the command line says or the backend
 * suggests. */
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

/* Copies options of a case (cases.h) as the step's program takes them: of "33..60" the 33. */
static void first_of_ranges(char *to, size_t bytes, const char *options)
{
    size_t used = 0;
    while (*options && used + 1 < bytes)
        if (strncmp(options, "..", 2) == 0)
            options += strspn(options, ".0123456789/");
        else
            to[used++] = *options++;
    to[used] = '\0';
}

/* Prints the quick cases that sizes alone make. */
static void print_quick_cases(const struct problem *problem, const struct kernel *kernel)
{
    struct case_walk walk;
    struct test_case one;
    printf(", \"quick\": [");
    cases_begin(&walk, problem, kernel, CASES_QUICK, 1);
    for (const char *between = ""; cases_next(&walk, &one);)
        if (one.inputs == INPUTS_NORMAL && one.placement.offset == 0 &&
            one.placement.null_array == 0 && one.placement.launches == 1) {
            printf("%s\"%s\"", between, case_options(problem, &one));
            between = ", ";
        }
    printf("]");
}

/* Prints a row's own facts as a JSON object that it leaves open. */
static void json_facts(const struct problem *problem, const struct kernel *kernel)
{
    printf("{\"name\": \"%s\", \"file\": \"%s\", \"ladder\": \"%s\"", kernel->name,
           kernel_path(kernel), kernel->ladder);
    printf(", \"problem\": \"%s\", \"function\": \"%s\"", problem->name,
           problem_function(problem, kernel));
    print_text("idea", kernel->idea);
    print_text("after", kernel->after ? kernel->after : "");
    print_text("was", kernel->was ? kernel->was : "");
    print_text("architecture", kernel->architecture ? kernel->architecture : "");
    printf(", \"falls_back\": %s, \"polls\": %s", kernel->falls_back ? "true" : "false",
           kernel->polls ? "true" : "false");
    char own_sizes[200];
    first_of_ranges(own_sizes, sizeof own_sizes, kernel->own_sizes ? kernel->own_sizes : "");
    print_text("own_sizes", own_sizes);
    print_text("edges", kernel->edges ? kernel->edges : "");
    print_text("shown_sizes", kernel->shown_sizes ? kernel->shown_sizes : own_sizes);
    print_text("timed_at", kernel->timed_at ? kernel->timed_at : "");
    print_text("claims", kernel->claims ? kernel->claims : "");
    print_quick_cases(problem, kernel);
    if (problem->print_limits)
        problem->print_limits(kernel);
    else
        printf(", \"types\": [\"f32\"]");
}

void report_facts(const struct step *step)
{
    const struct problem *problem = NULL;
    const char *between = "";
    printf("{\"step\": \"%s\", \"kernels\": [", step->name);
    while ((problem = step_problem_after(step, problem))) {
        const void *rows = step_rows(step, problem);
        const struct kernel *kernel;
        for (size_t index = 0; (kernel = problem_kernel(problem, rows, index))->name; index++) {
            printf("%s\n ", between);
            json_facts(problem, kernel);
            printf("}");
            between = ",";
        }
    }
    printf("\n]}\n");
}

static void json_kernel(const struct request *request, const struct kernel *kernel, bool first)
{
    const struct problem *problem = request->problem;
    const struct cost cost = problem->cost(kernel, request->sizes);
    printf("%s\n ", first ? "" : ",");
    json_facts(problem, kernel);
    printf(", \"workspace\": %zu, \"global_loads\": %lld, \"global_stores\": %lld, "
           "\"bytes_read\": %lld, \"bytes_written\": %lld}",
           problem_workspace(problem, kernel, request->sizes), cost.loads, cost.stores,
           cost.bytes_read, cost.bytes_written);
}

static void json_list(const struct request *request)
{
    printf("{\"step\": \"%s\", \"problem\": \"%s\", \"sizes\": [", request->step->name,
           request->problem->name);
    for (int index = 0; request->options[index].name; index++)
        if (!request->options[index].hidden)
            json_size(request, index);
    printf("], \"inputs\": [");
    for (int kind = 0; kind < INPUT_KINDS; kind++)
        printf("%s\"%s\"", kind > 0 ? ", " : "", input_kind_name((enum input_kind)kind));
    printf("], \"kernels\": [");
    bool first = true;
    for (size_t index = 0; index < request_kernels(request); index++)
        if (request_wants(request, index)) {
            json_kernel(request, request_kernel(request, index), first);
            first = false;
        }
    printf("\n]}\n");
}

void report_list(const struct request *request)
{
    if (request->json) {
        json_list(request);
        return;
    }
    for (size_t index = 0; index < request_kernels(request); index++)
        if (request_wants(request, index))
            printf("%-24s %s\n", request_kernel(request, index)->name,
                   request_kernel(request, index)->idea);
}
