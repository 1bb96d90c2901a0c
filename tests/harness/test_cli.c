/*
 * The step programs have a command line: these tests are about what it prints, what it refuses, and
 * how it exits.
 */
#include "problems/attention.h"
#include "device/backend.h"
#include "tests/support/harness.h"
#include "problems/matmul.h"
#include "harness/report.h"
#include "harness/step.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static const char *const steps[] = {"01_naive_matmul", "02_tiled_matmul", "03_online_softmax",
                                    "04_flash_v1",     "05_flash_v2",     "06_causal_half"};
enum { STEPS = sizeof steps / sizeof steps[0] };

struct outcome {
    int status;
    char out[65536], error[4096];
};

static void read_all(FILE *stream, char *text, size_t bytes)
{
    const size_t length = fread(text, 1, bytes - 1, stream);
    text[length] = '\0';
}

static const char *build(void)
{
    return strcmp(backend_name(), "gpu") == 0 ? "gpu" : "check";
}

/* Runs "ENVIRONMENT build/check/STEP ARGUMENTS". */
static struct outcome *run(const char *environment, const char *step, const char *arguments)
{
    static struct outcome outcome;
    char command[512], error_file[] = "/tmp/test_cli_XXXXXX";
    const int descriptor = mkstemp(error_file);
    cr_assert(descriptor >= 0);
    snprintf(command, sizeof command, "%s build/%s/%s %s 2>%s", environment, build(), step,
             arguments, error_file);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe != NULL);
    read_all(pipe, outcome.out, sizeof outcome.out);
    outcome.status = WEXITSTATUS(pclose(pipe));
    FILE *error = fdopen(descriptor, "r");
    read_all(error, outcome.error, sizeof outcome.error);
    fclose(error);
    remove(error_file);
    return &outcome;
}

static bool exists(const char *step)
{
    char path[128];
    snprintf(path, sizeof path, "build/%s/%s", build(), step);
    FILE *file = fopen(path, "r");
    if (file)
        fclose(file);
    return file != NULL;
}

/* The program must exit with status 2, print nothing on stdout, and print one line on stderr that
 * has both words. */
static void refused(const char *environment, const char *step, const char *arguments,
                    const char *first, const char *second)
{
    const struct outcome *outcome = run(environment, step, arguments);
    const char *newline = strchr(outcome->error, '\n');
    cr_expect(outcome->status == STEP_BAD_USAGE, "%s %s: exit status %d", step, arguments,
              outcome->status);
    cr_expect(newline != NULL && newline[1] == '\0', "%s %s: not one line: %s", step, arguments,
              outcome->error);
    cr_expect(strstr(outcome->error, first) && strstr(outcome->error, second),
              "%s %s: '%s' says not '%s' and '%s'", step, arguments, outcome->error, first, second);
    cr_expect(outcome->out[0] == '\0', "%s %s: printed %s", step, arguments, outcome->out);
}

static void bad_usage(const char *step, const char *arguments, const char *first,
                      const char *second)
{
    refused("", step, arguments, first, second);
}

TEST(cli, every_step_is_built)
{
    for (int step = 0; step < STEPS; step++)
        cr_expect(exists(steps[step]), "build/%s/%s is missing", build(), steps[step]);
}

TEST(cli, help_lists_every_option)
{
    static const char *const options[] = {"--help", "--list",   "--kernel", "--inputs",
                                          "--seed", "--repeat", "--json",   "--wide"};
    for (int step = 0; step < STEPS; step++) {
        const struct outcome *outcome = run("", steps[step], "--help");
        cr_expect(outcome->status == STEP_PASSED && outcome->error[0] == '\0');
        for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
            cr_expect(strstr(outcome->out, options[i]) != NULL, "%s --help lacks %s", steps[step],
                      options[i]);
    }
    cr_expect(strstr(run("", "01_naive_matmul", "--help")->out, "--m=N") != NULL);
    cr_expect(strstr(run("", "03_online_softmax", "--help")->out, "--cols=N") != NULL);
    cr_expect(strstr(run("", "05_flash_v2", "--help")->out, "--head-dim=N") != NULL);
}

/* Files have numbers in this order. */
TEST(cli, list_is_in_reading_order)
{
    const struct outcome *outcome = run("", "01_naive_matmul", "--list --json");
    static const char member[] = "\"file\": \"";
    long kernels = 0;
    for (const char *file = outcome->out; (file = strstr(file, member)); kernels++) {
        file += strlen(member);
        cr_expect(strtol(file, NULL, 10) == kernels + 1, "%s", outcome->out);
    }
    cr_expect(outcome->status == STEP_PASSED && kernels > 1, "%s", outcome->out);
}

/* Each size option is set to 0, where that is allowed. Every kernel must pass with nothing to do,
 * or with 0 as another size. */
TEST(cli, zero_sizes_pass)
{
    static const char *const matmul[] = {"--m 0", "--n 0", "--k 0", "--m 0 --n 0 --k 0", NULL},
                             *const softmax[] = {"--rows 0", "--cols 0", "--rows 0 --cols 0", NULL},
                             *const attention[] = {"--batch 0",
                                                   "--heads 0",
                                                   "--kv-heads 0",
                                                   "--seq 0",
                                                   "--seq-q 0",
                                                   "--seq-kv 0",
                                                   "--batch 0 --heads 0 --seq 0",
                                                   NULL};
    static const char *const *const sizes[STEPS] = {matmul,    matmul,    softmax,
                                                    attention, attention, attention};
    int judged = 0;
    for (int step = 0; step < STEPS; step++)
        for (const char *const *size = sizes[step]; *size; size++, judged++) {
            char arguments[128];
            snprintf(arguments, sizeof arguments, "%s --list", *size);
            cr_expect(run("", steps[step], arguments)->status == STEP_PASSED, "%s %s", steps[step],
                      arguments);
            cr_expect(run("", steps[step], *size)->status == STEP_PASSED, "%s %s: exit status %d",
                      steps[step], *size, run("", steps[step], *size)->status);
        }
    cr_expect(judged == 2 * 4 + 3 + 3 * 7, "%d runs", judged);
}

/* A step offers an option when one of its kernels takes it. */
TEST(cli, options_follow_from_the_rows)
{
    bad_usage("04_flash_v1", "--causal", "'--causal' is not understood", "--head-dim");
    bad_usage("05_flash_v2", "--causal", "'--causal' is not understood", "--head-dim");
    bad_usage("04_flash_v1", "--type f16", "'--type' is not understood", "--head-dim");
    cr_expect(strstr(run("", "06_causal_half", "--help")->out, "--causal") != NULL);
    cr_expect(strstr(run("", "06_causal_half", "--help")->out, "1 .. 128") != NULL);
}

/* A step has ladders of two problems: names choose one, sizes that only one has run only that, and
 * JSON is of the first where nothing is named. */
TEST(cli, ladders_of_two_problems)
{
    static const struct {
        const char *options, *runs, *does_not;
    } cases[] = {
        {"--list", "P and dS in global memory", "no such word"},
        {"--list --ladder backward", "P and dS in global memory", "split keys"},
        {"--list --ladder decode", "split keys", "P and dS"},
        {"--list --json", "split keys", "P and dS"},
        {"--list --json --ladder=backward", "\"problem\": \"attention_backward\"", "split keys"},
        {"--list --json --ladder core", "\"problem\": \"attention\"", "split keys"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct outcome *outcome = run("", "05_flash_v2", cases[i].options);
        cr_expect(outcome->status == STEP_PASSED, "%s", cases[i].options);
        cr_expect(strstr(outcome->out, cases[i].runs) && !strstr(outcome->out, cases[i].does_not),
                  "%s: %s", cases[i].options, outcome->out);
    }
    bad_usage("05_flash_v2", "--ladder backward --nonsense 3", "'--nonsense' is not understood",
              "--head-dim");
    bad_usage("05_flash_v2", "--kernel backward_nothing", "--kernel is 'backward_nothing'",
              "it must be one of");
}

TEST(cli, list_tells_all_as_json)
{
    const struct outcome *outcome =
        run("", "06_causal_half",
            "--list --json --batch 1 --seq-q 64 --seq-kv 64 --head-dim 64 --heads 1");
    static const char *const words[] = {"\"problem\": \"attention\"",
                                        "\"name\": \"head-dim\"",
                                        "\"maximum\": 128, \"value\": 64",
                                        "\"inputs\": [\"normal\"",
                                        "\"file\": \"limit/19_skipping.cu\"",
                                        "\"architecture\": \"sm_90a\"",
                                        "\"types\": [\"f16\"]",
                                        "\"head_dim_multiple\": 8",
                                        "\"after\": \"folded\"",
                                        "\"bytes_read\": 24576, \"bytes_written\": 8448"};
    cr_expect(outcome->status == STEP_PASSED);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        cr_expect(strstr(outcome->out, words[i]) != NULL, "no %s in %s", words[i], outcome->out);
}

/* The first line of a kernel's file tells the compiler what its row says. */
static void check_needs(const char *step, const char *line)
{
    char name[64], file[64], needs[32] = "", path[128], first[64] = "";
    const char *architecture = strstr(line, "\"architecture\": \"");
    cr_assert(sscanf(line, " {\"name\": \"%63[^\"]\", \"file\": \"%63[^\"]", name, file) == 2, "%s",
              line);
    cr_assert(architecture != NULL);
    sscanf(architecture, "\"architecture\": \"%31[^\"]", needs);
    snprintf(path, sizeof path, "%s/%s", step, file);
    FILE *source = fopen(path, "r");
    cr_assert(source != NULL, "%s: %s is not there", name, path);
    cr_assert(fgets(first, sizeof first, source) != NULL);
    fclose(source);
    char expected[64] = "";
    if (*needs)
        snprintf(expected, sizeof expected, "// needs: %s\n", needs);
    cr_expect(*needs ? strcmp(first, expected) == 0 : strncmp(first, "// needs:", 9) != 0,
              "%s begins '%s', its row says '%s'", path, first, needs);
}

TEST(cli, rows_say_what_their_files_need)
{
    for (int step = 0; step < STEPS; step++) {
        int kernels = 0;
        for (char *line = strtok(run("", steps[step], "--list --json")->out, "\n"); line;
             line = strtok(NULL, "\n"))
            if (strstr(line, "\"idea\"")) {
                check_needs(steps[step], line);
                kernels++;
            }
        cr_expect(kernels > 1, "%s lists %d kernels", steps[step], kernels);
    }
}

static int longest_line(const char *text)
{
    int longest = 0, characters = 0;
    for (; *text; text++) {
        characters = *text == '\n' ? 0 : characters + (((unsigned char)*text & 0xc0) != 0x80);
        longest = characters > longest ? characters : longest;
    }
    return longest;
}

/* The lessons' tables show all steps at the default sizes. Attention takes seconds at those. */
TEST(cli, defaults_pass_and_fit_the_page)
{
    for (int step = 0; step < STEPS; step++) {
        const struct outcome *outcome = run("", steps[step], step < 3 ? "" : "--seq 40");
        cr_expect(outcome->status == STEP_PASSED && strstr(outcome->out, " pass "), "%s: %d %s",
                  steps[step], outcome->status, outcome->error);
        cr_expect(strstr(outcome->out, "backend") != NULL);
        cr_expect(longest_line(outcome->out) <= 100, "%s: %s", steps[step], outcome->out);
    }
}

TEST(cli, kernel_selects)
{
    char name[64], arguments[128], row[80];
    cr_assert(sscanf(run("", "01_naive_matmul", "--list")->out, "%63s", name) == 1);
    snprintf(arguments, sizeof arguments, "--kernel %s --m 5 --n 6 --k 7 --json", name);
    snprintf(row, sizeof row, "\"name\": \"%s\"", name);
    const struct outcome *outcome = run("", "01_naive_matmul", arguments);
    const char *first = strstr(outcome->out, "\"name\"");
    cr_expect(outcome->status == STEP_PASSED && first && !strstr(first + 1, "\"name\"") &&
                  strncmp(first, row, strlen(row)) == 0,
              "%s", outcome->out);
}

/* The first row of the last step that says so was called otherwise: a word of `was`, or all of it.
 */
TEST(cli, an_old_name_selects)
{
    static const char member[] = "\"was\": \"";
    char list[65536], old[64] = "", name[64], line[160];
    snprintf(list, sizeof list, "%s", run("", steps[STEPS - 1], "--list --json")->out);
    const char *was = list;
    while (*old == '\0' && (was = strstr(was, member)) != NULL) {
        was += sizeof member - 1;
        sscanf(was, "%63[a-z0-9_]", old);
    }
    cr_assert(was != NULL && *old != '\0', "no row was anything else");
    const char *row = was;
    while (strncmp(row, "{\"name\"", 7) != 0)
        row--;
    cr_assert(sscanf(row, "{\"name\": \"%63[a-z0-9_]", name) == 1);
    snprintf(line, sizeof line, "--kernel %s --list", old);
    const struct outcome *outcome = run("", steps[STEPS - 1], line);
    snprintf(line, sizeof line, "%s is %s now\n", old, name);
    cr_expect(strcmp(outcome->error, line) == 0, "not '%s': %s", line, outcome->error);
    cr_expect(outcome->status == STEP_PASSED && strncmp(outcome->out, name, strlen(name)) == 0 &&
                  strchr(outcome->out, '\n') == outcome->out + strlen(outcome->out) - 1,
              "%s", outcome->out);
}

TEST(cli, same_seed_same_result)
{
    static char first[65536];
    const char *arguments = "--m 33 --n 34 --k 35 --seed 5 --inputs outliers --json";
    snprintf(first, sizeof first, "%s", run("", "01_naive_matmul", arguments)->out);
    const char *other = run("", "01_naive_matmul", "--m 33 --n 34 --k 35 --seed 6 --json")->out;
    const char *error = strstr(first, "\"error\""), *other_error = strstr(other, "\"error\"");
    cr_assert(error && other_error);
    cr_expect(strncmp(error, other_error, 24) != 0, "another seed gives the same error");
    const char *again = strstr(run("", "01_naive_matmul", arguments)->out, "\"error\"");
    cr_expect(strncmp(error, again, 24) == 0, "the same seed gives another error");
}

TEST(cli, json_counts_where_every_access_is_watched)
{
    const struct outcome *outcome = run("", "01_naive_matmul", "--m 64 --n 64 --k 64 --json");
    cr_expect(outcome->status == STEP_PASSED);
    cr_expect(strstr(outcome->out, "\"backend\": \"") != NULL &&
                  strstr(outcome->out, "\"flops\": 524288,") != NULL,
              "%s", outcome->out);
    if (strcmp(build(), "check") == 0) {
        const char *first = strstr(outcome->out, "\"global_loads\": 524288,");
        cr_assert(first != NULL, "%s", outcome->out);
        cr_expect(strstr(first + 1, "\"global_loads\": 524288,") != NULL, "%s", outcome->out);
    }
}

TEST(cli, an_empty_output_passes)
{
    cr_expect(run("", "01_naive_matmul", "--m 0")->status == STEP_PASSED);
    cr_expect(run("", "01_naive_matmul", "--k 0")->status == STEP_PASSED);
}

TEST(cli, bad_values)
{
    bad_usage("01_naive_matmul", "--m -1", "--m is '-1'", "0 .. 2147482624");
    bad_usage("01_naive_matmul", "--m 99999999999", "--m is '99999999999'", "0 .. 2147482624");
    bad_usage("01_naive_matmul", "--m 99999999999999999999999", "--m is", "0 .. 2147482624");
    bad_usage("01_naive_matmul", "--m 12x", "--m is '12x'", "whole number");
    bad_usage("01_naive_matmul", "--m ''", "--m is ''", "whole number");
    bad_usage("01_naive_matmul", "--kernel nosuch", "--kernel is 'nosuch'",
              "uncoalesced, coalesced");
    bad_usage("01_naive_matmul", "--inputs nosuch", "--inputs is 'nosuch'", "normal, uniform");
    bad_usage("01_naive_matmul", "--seed -1", "--seed is '-1'", "0 ..");
    bad_usage("01_naive_matmul", "--repeat 0", "--repeat is '0'", "1 .. 100000");
    bad_usage("04_flash_v1", "--head-dim 0", "head-dim", "1 ..");
    bad_usage("04_flash_v1", "--head-dim 129", "head-dim", "1 .. 128");
    bad_usage("05_flash_v2", "--heads 3 --kv-heads 2", "kv_heads is 2", "must divide heads");
}

TEST(cli, bad_options)
{
    bad_usage("01_naive_matmul", "--nosuch", "'--nosuch' is not understood", "--kernel");
    bad_usage("01_naive_matmul", "-x", "is not understood", "--kernel");
    bad_usage("01_naive_matmul", "stray", "unexpected argument 'stray'", "options");
    bad_usage("01_naive_matmul", "--m", "--m needs a value", "rows");
    bad_usage("03_online_softmax", "--m 5", "'--m' is not understood", "--rows");
}

TEST(cli, what_does_not_fit_memory)
{
    bad_usage("01_naive_matmul", "--m 2000000000 --n 2000000000", "device memory", "are free");
}

TEST(cli, no_device)
{
    const struct outcome *outcome = run("CUDA_VISIBLE_DEVICES=", "01_naive_matmul", "");
    cr_expect(outcome->status == STEP_NO_DEVICE, "exit status %d", outcome->status);
    cr_expect(strstr(outcome->error, "no usable device") && strstr(outcome->error, "make doctor"),
              "%s", outcome->error);
}

TEST(cli, a_report_that_does_not_arrive)
{
    static const char *const kinds[] = {"--help",        "--list", "--m 4",
                                        "--list --json", "--m 4",  "--m 4 --json"};
    char arguments[64];
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        snprintf(arguments, sizeof arguments, "%s >/dev/full", kinds[kind]);
        bad_usage("01_naive_matmul", arguments, "could not be written", "report");
        snprintf(arguments, sizeof arguments, "%s >&-", kinds[kind]);
        bad_usage("01_naive_matmul", arguments, "standard output is closed", "report");
    }
}

/* The program prints one sentence, not one per kernel, and never says that the device looks too
 * old. */
TEST(cli, bad_environment)
{
    if (strcmp(build(), "gpu") == 0) {
        fprintf(stderr, "skipped: a GPU's program reads no such variables\n");
        return;
    }
    refused("SIMT_ARCH=90a", "06_causal_half", "", "SIMT_ARCH is '90a'", "without the dot");
    refused("SIMT_ARCH=12", "06_causal_half", "", "SIMT_ARCH is '12'", "from 70");
    refused("SIMT_ORDER=sideways", "05_flash_v2", "", "SIMT_ORDER is 'sideways'", "reversed");
    refused("SIMT_WORKERS=0", "01_naive_matmul", "", "SIMT_WORKERS is '0'", "from 1 to");
}

/* tests/steps/trace_sums.py checks the contents. */
TEST(cli, trace)
{
    if (strcmp(build(), "gpu") == 0) {
        bad_usage("01_naive_matmul", "--trace /dev/null", "--trace", "only the checked build");
        return;
    }
    bad_usage("01_naive_matmul", "--trace /nosuch/trace", "cannot write /nosuch/trace", "No such");
    bad_usage("01_naive_matmul", "--trace /dev/null --trace-warp 32", "--trace-warp is '32'",
              "0 .. 31");
    refused("SIMT_TRACE_LIMIT=-1", "01_naive_matmul", "", "SIMT_TRACE_LIMIT is '-1'", "from 0 to");
    cr_expect(system("python3 tests/steps/trace_sums.py") == 0);
}

/* A kernel that needs a newer device is listed and skipped, and the run passes. (A GPU cannot
 * pretend to be older.) */
TEST(cli, an_older_device)
{
    if (strcmp(build(), "gpu") == 0) {
        fprintf(stderr, "skipped: this device is what it is\n");
        return;
    }
    const struct outcome *outcome = run("SIMT_ARCH=75", "06_causal_half", "--seq 16 --causal");
    cr_expect(outcome->status == STEP_PASSED, "exit status %d", outcome->status);
    cr_expect(strstr(outcome->out, "needs sm_80 (this device is sm_75)"), "%s", outcome->out);
    cr_expect(strstr(outcome->out, "needs sm_90a (this device is sm_75)"), "%s", outcome->out);
    cr_expect(strstr(outcome->out, "\nwmma "), "%s", outcome->out);
}

/* A kernel does nothing: the program must not succeed. */
static cudaError_t idle(const float *A, const float *B, float *C, int M, int N, int K,
                        cudaStream_t stream)
{
    (void)A, (void)B, (void)C, (void)M, (void)N, (void)K, (void)stream;
    return cudaSuccess;
}

static struct cost predicted(const struct matmul_kernel *row, int M, int N, int K)
{
    (void)row, (void)M, (void)N, (void)K;
    return (struct cost){4000000, 10, 16000000, 40};
}

TEST(cli, a_failed_check_exits_with_1)
{
    static const struct matmul_kernel kernels[] = {
        {ABOUT(idle, "idle.cu", "does nothing"), .launch = idle, .cost = predicted},
        {.about.name = NULL},
    };
    char *arguments[] = {"idle", "--m", "4", "--n", "4", "--k", "4", NULL};
    static const struct step idle_step = {"idle", {{"core", &matmul_problem, kernels}}};
    cr_expect(step_main(7, arguments, &idle_step) == STEP_FAILED);
}

/* A step offers --type only where its kernels take different types. */
static cudaError_t idle_attention(const struct attention *call)
{
    (void)call;
    return cudaSuccess;
}

static struct cost no_cost(const struct attention_kernel *row, const struct attention *call)
{
    (void)row, (void)call;
    return (struct cost){0};
}

TEST(cli, type_is_offered_where_there_is_a_choice)
{
    static const struct attention_kernel kernels[] = {{.about.name = "idle",
                                                       .about.idea = "",
                                                       .launch = idle_attention,
                                                       .cost = no_cost,
                                                       .types = 1 << TENSOR_F16 | 1 << TENSOR_BF16,
                                                       .max_head_dim = 64},
                                                      {.about.name = NULL}};
    static const struct step idle_step = {"idle", {{"core", &attention_problem, kernels}}};
    char *good[] = {"idle", "--type", "bf16", "--seq", "0", NULL};
    char *bad[] = {"idle", "--type", "f32", NULL};
    cr_expect(step_main(5, good, &idle_step) == STEP_PASSED);
    cr_expect(step_main(3, bad, &idle_step) == STEP_BAD_USAGE);
}

/* Returns what report_results() prints with this option about two made-up kernels, each of which
 * did `times` as much. */
static const char *table_of(char *option, unsigned long long times)
{
    static const struct matmul_kernel kernels[] = {
        {ABOUT(first, "1.cu", "the idea"), .launch = idle, .cost = predicted},
        {ABOUT(second, "2.cu",
               "a long idea, a long idea, a long idea, a long idea, a long idea, a long idea, a "
               "long idea, a long idea, a long idea"),
         .launch = idle, .cost = predicted},
        {.about.name = NULL},
    };
    char *arguments[] = {"fake", option, NULL}, file[] = "/tmp/test_cli_XXXXXX";
    static const struct step fake = {"fake", {{"core", &matmul_problem, kernels}}};
    struct request request;
    cr_assert(options_parse(&request, &fake, &matmul_problem, option ? 2 : 1, arguments));
    struct result results[2] = {{.kernel = &kernels[0].about, .counted = true},
                                {.kernel = &kernels[1].about, .counted = true}};
    results[0].counters = (struct counters){.global_loads = 4000000 * times,
                                            .global_load_bytes = 16000000 * times,
                                            .global_stores = 10 * times,
                                            .global_store_bytes = 40 * times,
                                            .global_load_requests = times,
                                            .global_load_sectors = 32 * times,
                                            .shared_wavefronts = 5 * times,
                                            .shared_wavefronts_ideal = times};
    results[1].counters = results[0].counters;
    results[1].counters.global_loads -= 1000000 * times;

    static char text[65536];
    const int descriptor = mkstemp(file);
    cr_assert(descriptor >= 0 && freopen(file, "w", stdout) != NULL);
    report_results(&request, "a device", results, 2);
    fflush(stdout);
    FILE *printed = fdopen(descriptor, "r");
    read_all(printed, text, sizeof text);
    fclose(printed);
    remove(file);
    return text;
}

TEST(cli, table_compares_with_the_formula_and_the_kernel_before)
{
    const char *table = table_of(NULL, 1), *second = strstr(table, "\nsecond ");
    cr_assert(second != NULL, "%s", table);
    cr_expect(strstr(table, "  4,000,000    4,000,000        –  "), "%s", table);
    cr_expect(strstr(second, "  4,000,000  ≠ 3,000,000     1.33  "), "%s", table);
    cr_expect(!strstr(table, "atomics") && !strstr(table, "barriers"), "columns of zeros: %s",
              table);
    cr_expect(strstr(table, "wavefronts") && !strstr(table, "bound"), "%s", table);
    cr_expect(longest_line(table) <= 100, "%s", table);
}

TEST(cli, table_fits_the_page_unless_it_may_be_wide)
{
    const char *narrow = table_of(NULL, 1000000);
    cr_expect(longest_line(narrow) <= 100, "%s", narrow);
    cr_expect(strstr(narrow, "4,000,000,000,000") && !strstr(narrow, "FLOP per"), "%s", narrow);
    const char *wide = table_of("--wide", 1000000);
    cr_expect(strstr(wide, "FLOP per") && strstr(wide, "bound") && strstr(wide, "atomics"), "%s",
              wide);
}
