#include "options.h"

#include "device/backend.h"

#include <argp.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REPEAT = 100000, MAX_ARGUMENT_NAMES = 512 };

/* Every step has these options. The problem's sizes have keys from FIRST_SIZE_KEY on. */
enum option_key {
    HELP_KEY = 256,
    KERNEL_KEY,
    LADDER_KEY,
    LIST_KEY,
    INPUTS_KEY,
    SEED_KEY,
    REPEAT_KEY,
    JSON_KEY,
    WIDE_KEY,
    CASES_KEY,
    PART_KEY,
    CLAIMS_KEY,
    OFFSET_KEY,
    OFFSET_OF_KEY,
    NULL_KEY,
    LAUNCHES_KEY,
    TRACE_KEY,
    TRACE_BLOCK_KEY,
    TRACE_WARP_KEY,
    FIRST_SIZE_KEY
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

const struct kernel *request_kernel(const struct request *request, size_t index)
{
    return problem_kernel(request->problem, request->table, index);
}

size_t request_kernels(const struct request *request)
{
    size_t count = 0;
    while (request_kernel(request, count)->name)
        count++;
    return count;
}

bool request_wants(const struct request *request, size_t index)
{
    return kernel_on_ladder(request_kernel(request, index), request->ladder) &&
           (!request->any_selected || request->selected[index]);
}

/* Says which of the step's problems the command line names a kernel or a ladder of. */
static void find_names(struct request *request, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const bool kernel = strncmp(argv[i], "--kernel", 8) == 0;
        const char *value = argv[i] + 8;
        if (!kernel && strncmp(argv[i], "--ladder", 8) != 0)
            continue;
        if (*value == '=')
            value++;
        else if (*value == '\0' && i + 1 < argc)
            value = argv[i + 1];
        const struct problem *owner = kernel ? step_problem_of_kernel(request->step, value)
                                             : step_problem_of_ladder(request->step, value);
        request->named = request->named || owner == request->problem;
        request->others_named = request->others_named || (owner && owner != request->problem);
    }
}

bool request_asks(const struct request *request)
{
    const bool first = request->problem == request->step->ladders[0].problem;
    const bool once = request->json || request->trace || request->help;
    return request->named || (!request->others_named && (first || !once));
}

/* Appends ", name" to a list of allowed names. */
static void append_name(char *names, const char *name)
{
    const size_t used = strlen(names);
    snprintf(names + used, MAX_ARGUMENT_NAMES - used, "%s%s", used > 0 ? ", " : "", name);
}

static error_t select_kernel(struct request *request, const char *name)
{
    char names[MAX_ARGUMENT_NAMES] = "";
    for (size_t index = 0; index < request_kernels(request); index++) {
        const struct kernel *candidate = request_kernel(request, index);
        const bool was = kernel_was(candidate, name);
        if (was)
            fprintf(stderr, "%s is %s now\n", name, candidate->name);
        if (was || strcmp(candidate->name, name) == 0) {
            request->selected[index] = true;
            request->any_selected = true;
            return 0;
        }
    }
    if (step_problem_of_kernel(request->step, name))
        return 0; /* of another problem */
    for (const struct ladder *ladder = request->step->ladders; ladder->name; ladder++) {
        const struct kernel *row;
        for (size_t i = 0; (row = problem_kernel(ladder->problem, ladder->rows, i))->name; i++)
            append_name(names, row->name);
    }
    return complain(request, "--kernel is '%s'; it must be one of %s", name, names);
}

static error_t select_ladder(struct request *request, const char *name)
{
    char names[MAX_ARGUMENT_NAMES] = "";
    for (const struct ladder *ladder = request->step->ladders; ladder->name; ladder++) {
        if (strcmp(ladder->name, name) == 0) {
            request->ladder = ladder->problem == request->problem ? ladder->name : request->ladder;
            return 0;
        }
        append_name(names, ladder->name);
    }
    return complain(request, "--ladder is '%s'; it must be one of %s", name, names);
}

static void append_kinds(char *names)
{
    for (int kind = 0; kind < INPUT_KINDS; kind++)
        append_name(names, input_kind_name((enum input_kind)kind));
}

static error_t select_inputs(struct request *request, const char *name)
{
    char names[MAX_ARGUMENT_NAMES] = "";
    if (input_kind_find(name, &request->inputs))
        return 0;
    append_kinds(names);
    return complain(request, "--inputs is '%s'; it must be one of %s", name, names);
}

static error_t select_cases(struct request *request, const char *name)
{
    char names[MAX_ARGUMENT_NAMES] = "";
    enum case_level found;
    if (case_level_find(name, &found)) {
        request->cases = found;
        return 0;
    }
    for (int level = 0; level < CASE_LEVELS; level++)
        append_name(names, case_level_names[level]);
    return complain(request, "--cases is '%s'; it must be one of %s", name, names);
}

/* Reads "2/3", the second of three parts. */
static error_t select_part(struct request *request, const char *text)
{
    const char *slash = strchr(text, '/');
    char part[20] = "";
    snprintf(part, sizeof part, "%.*s", slash ? (int)(slash - text) : 0, text);
    error_t error =
        parse_integer(request, "part", slash ? slash + 1 : "", 1, 1000, &request->parts);
    return error ? error : parse_integer(request, "part", part, 1, request->parts, &request->part);
}

/* Keeps an option for cases.h, which knows the problem's arrays. */
static error_t place(struct request *request, const char *option, const char *value)
{
    const size_t used = strlen(request->placement);
    if (used + strlen(option) + strlen(value) + 2 > sizeof request->placement || strchr(value, ','))
        return complain(request, "%s is '%s'; it takes one value", option, value);
    snprintf(request->placement + used, sizeof request->placement - used, " %s %s", option, value);
    return 0;
}

/* Selects a choice by name, if it is allowed, and stores its index. */
static error_t select_choice(struct request *request, int index, const char *name)
{
    const struct size_option *size = &request->options[index];
    char names[MAX_ARGUMENT_NAMES] = "";
    for (int choice = 0; size->choices[choice]; choice++) {
        if (!(size->allowed >> choice & 1))
            continue;
        if (strcmp(size->choices[choice], name) == 0) {
            request->sizes[index] = choice;
            return 0;
        }
        append_name(names, size->choices[choice]);
    }
    return complain(request, "--%s is '%s'; it must be one of %s", size->name, name, names);
}

static error_t set_size(struct request *request, int index, const char *text)
{
    const struct size_option *size = &request->options[index];
    if (size->flag) {
        request->sizes[index] = 1;
        return 0;
    }
    if (size->choices)
        return select_choice(request, index, text);
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
    case LADDER_KEY:
        return select_ladder(request, text);
    case LIST_KEY:
        request->list = true;
        return 0;
    case INPUTS_KEY:
        request->has_case = true;
        return select_inputs(request, text);
    case CASES_KEY:
        return select_cases(request, text);
    case CLAIMS_KEY:
        request->claims = true;
        return 0;
    case PART_KEY:
        return select_part(request, text);
    case OFFSET_KEY:
        error = parse_integer(request, "offset", text, 0, 255, &value);
        return error ? error : place(request, "--offset", text);
    case OFFSET_OF_KEY:
        return place(request, "--offset-of", text);
    case NULL_KEY:
        return place(request, "--null", text);
    case LAUNCHES_KEY:
        error = parse_integer(request, "launches", text, 1, MAX_REPEAT, &value);
        return error ? error : place(request, "--launches", text);
    case SEED_KEY:
        error = parse_integer(request, "seed", text, 0, INT64_MAX, &value);
        request->seed = (uint64_t)value;
        return error;
    case REPEAT_KEY:
        return parse_integer(request, "repeat", text, 1, MAX_REPEAT, &request->repeat);
    case JSON_KEY:
        request->json = true;
        return 0;
    case WIDE_KEY:
        request->wide = true;
        return 0;
    case TRACE_KEY:
        request->trace = text;
        return 0;
    case TRACE_BLOCK_KEY:
        return parse_integer(request, "trace-block", text, 0, INT64_MAX, &request->trace_block);
    case TRACE_WARP_KEY:
        return parse_integer(request, "trace-warp", text, 0, 31, &request->trace_warp);
    case ARGP_KEY_ARG:
        return complain(request, "unexpected argument '%s'; only options are allowed, see --help",
                        text);
    default:
        if (key >= FIRST_SIZE_KEY && key < FIRST_SIZE_KEY + MAX_SIZES) {
            request->has_case = true;
            return set_size(request, key - FIRST_SIZE_KEY, text);
        }
        return ARGP_ERR_UNKNOWN;
    }
}

/* Sets defaults that suit the backend: small where every access is watched, large on a GPU. */
static void set_defaults(struct request *request)
{
    const bool device = strcmp(backend_name(), "gpu") == 0;
    for (int index = 0; request->problem->sizes[index].name; index++)
        request->options[index] = request->problem->sizes[index];
    if (request->problem->narrow)
        request->problem->narrow(request->table, request->options);
    for (int index = 0; request->options[index].name; index++) {
        const struct size_option *size = &request->options[index];
        request->sizes[index] = device ? size->device : size->watched;
    }
    request->seed = 1;
    request->cases = -1;
    request->part = request->parts = 1;
    request->trace_block = request->trace_warp = -1;
    request->repeat = device ? 20 : 3;
}

/* Says what the last argument that argp looked at should have been. */
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

void options_free(struct request *request)
{
    free(request->selected);
}

bool options_parse(struct request *request, const struct step *step, const struct problem *problem,
                   int argc, char **argv)
{
    *request =
        (struct request){.step = step, .problem = problem, .table = step_rows(step, problem)};
    request->selected = calloc(request_kernels(request) + 1, sizeof *request->selected);
    if (request->selected == NULL) {
        complain(request, "there is no memory left");
        return false;
    }
    set_defaults(request);
    find_names(request, argc, argv);

    char kinds[MAX_ARGUMENT_NAMES] = "";
    append_kinds(kinds);
    snprintf(kinds + strlen(kinds), sizeof kinds - strlen(kinds), " (default: %s)",
             input_kind_name(request->inputs));
    const struct argp_option general[] = {
        {"help", HELP_KEY, NULL, 0, "Show this and exit", 1},
        {"list", LIST_KEY, NULL, 0,
         "List the kernels in reading order and exit; with --json, all that their rows say", 1},
        {"kernel", KERNEL_KEY, "NAME", 0, "Run this kernel only; may be repeated (default: all)",
         1},
        {"ladder", LADDER_KEY, "NAME", 0, "Run this ladder only: core, limit ... (default: all)",
         1},
        {"inputs", INPUTS_KEY, "KIND", 0, kinds, 3},
        {"seed", SEED_KEY, "N", 0, "Seed of the inputs (default: 1)", 3},
        {"offset", OFFSET_KEY, "N", 0, "Arrays begin N bytes past an aligned address", 3},
        {"offset-of", OFFSET_OF_KEY, "NAME", 0, "Only this array does", 3},
        {"null", NULL_KEY, "NAME", 0, "Pass null for this output", 3},
        {"launches", LAUNCHES_KEY, "N", 0, "Launches in a row before the result is judged", 3},
        {"cases", CASES_KEY, "LEVEL", 0,
         "Instead of one run, judge by the list of cases: first, quick, usual, full or hidden", 3},
        {"part", PART_KEY, "I/N", 0, "Of the cases, only every Nth", 3},
        {"claims", CLAIMS_KEY, NULL, 0,
         "Instead of one run, judge by what each row claims (the checked build only)", 3},
        {"repeat", REPEAT_KEY, "N", 0, "Timed runs per kernel; the median is reported", 3},
        {"wide", WIDE_KEY, NULL, 0, "Show every column, however wide the table", 4},
        {"json", JSON_KEY, NULL, 0, "Report as one JSON object", 4},
        {"trace", TRACE_KEY, "FILE", 0,
         "Write what the kernels do, event by event (the checked build only)", 5},
        {"trace-block", TRACE_BLOCK_KEY, "N", 0, "Of this block only", 5},
        {"trace-warp", TRACE_WARP_KEY, "N", 0, "Of this warp of each block only", 5},
    };
    enum { GENERAL = sizeof general / sizeof general[0] };
    struct argp_option options[GENERAL + MAX_SIZES + 1] = {{0}}, *option = options + GENERAL;
    char help[MAX_SIZES][160];

    memcpy(options, general, sizeof general);
    for (int index = 0; request->options[index].name; index++) {
        const struct size_option *size = &request->options[index];
        if (size->hidden)
            continue;
        if (size->choices)
            snprintf(help[index], sizeof help[index], "%s (default: %s)", size->help,
                     size->choices[request->sizes[index]]);
        else if (size->flag)
            snprintf(help[index], sizeof help[index], "%s", size->help);
        else
            snprintf(help[index], sizeof help[index], "%s, %lld .. %lld (default: %lld)",
                     size->help, size->minimum, size->maximum, request->sizes[index]);
        *option++ = (struct argp_option){size->name,
                                         FIRST_SIZE_KEY + index,
                                         size->flag      ? NULL
                                         : size->choices ? "NAME"
                                                         : "N",
                                         0,
                                         help[index],
                                         2};
    }

    char description[256];
    snprintf(description, sizeof description,
             "Runs the kernels of step %s, checks each against a double-precision reference and "
             "prints the ladder."
             "\vExit status: 0 all passed, 1 a check failed, 2 bad usage, 3 no usable device.",
             request->step->name);
    const struct argp argp = {options, parse_option, NULL, description, NULL, NULL, NULL};

    int next = 1;
    const error_t error =
        argp_parse(&argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP, &next, request);
    if (error && request->complaint[0] == '\0') {
        int wrong = next > 1 && next <= argc ? next - 1 : argc - 1;
        while (wrong > 1 && argv[wrong][0] != '-')
            wrong--; /* step back from a value to its option */
        complain_of_option(request, options, argv[wrong]);
    }
    if (!error && request->help)
        argp_help(&argp, stdout, ARGP_HELP_USAGE | ARGP_HELP_DOC | ARGP_HELP_LONG, argv[0]);
    return !error;
}
