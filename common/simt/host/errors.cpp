/* Error codes, sticky errors and reports, and what a program is told at its end. */
#include "host/errors.h"
#include "host/environment.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <simt/launch.h>
#include <unistd.h>

using namespace simt;

/* The mutex guards everything below but `last`, which each host thread has for itself. */
static std::mutex mutex;
static cudaError_t failed_kernel; /* not shown yet */
static cudaError_t sticky;
static int looks; /* at what calls returned, while that was a failed kernel's error */
/* These outlive the program's own variables. */
__attribute__((init_priority(101))) static std::string report;
__attribute__((init_priority(101))) static std::vector<std::string> unheard; /* of other errors */
__attribute__((init_priority(101))) static std::vector<std::string> reports; /* of all kernels */
static bool noticed; /* the report, or its error */
static __thread cudaError_t last;
static thread_local std::string refusal; /* the text of `last`, if it has one */

int simt::failure_status = 1;
bool (*simt::print_reports)(const std::vector<std::string> &);

static void remember(const std::string &text)
{
    if (std::find(unheard.begin(), unheard.end(), text) == unheard.end())
        unheard.push_back(text);
}

static void heard()
{
    noticed = true;
    looks++;
    unheard.clear();
}

bool simt::tell_what_went_wrong()
{
    std::unique_lock<std::mutex> lock(mutex,
                                      std::try_to_lock); /* a signal may have come anywhere */
    fflush(stdout);
    const bool reported = print_reports && print_reports(reports);
    if (failed_kernel && looks <= 0 && !reported)
        remember(report);
    for (const std::string &text : unheard)
        fprintf(stderr, "simt: %s\n", text.c_str());
    return reported || !unheard.empty();
}

static void at_exit(int status, void *)
{
    const int failed = read_exit_status(failure_status);
    if (!tell_what_went_wrong() || status != 0 || failed == 0)
        return;
    fflush(nullptr);
    _exit(failed);
}

/* What comes first ends last: after the program's own functions. */
__attribute__((constructor(102))) static void tell_at_exit() { on_exit(at_exit, nullptr); }

std::string simt::format(const char *pattern, va_list arguments)
{
    char *made = nullptr;
    const int length = vasprintf(&made, pattern, arguments);
    const std::string text(made, size_t(length));
    free(made);
    return text;
}

std::string simt::format(const char *pattern, ...)
{
    SIMT_FORMATTED(text, pattern);
    return text;
}

cudaError_t simt::done(cudaError_t error)
{
    if (error != cudaSuccess) {
        last = error;
        refusal.clear();
    }
    return error;
}

cudaError_t simt::standing_error_without_waiting()
{
    std::lock_guard<std::mutex> lock(mutex);
    return done(sticky);
}

void (*simt::run_waiting_launches)() = [] {};

cudaError_t simt::standing_error()
{
    run_waiting_launches();
    std::lock_guard<std::mutex> lock(mutex);
    if (sticky == cudaSuccess)
        sticky = failed_kernel;
    looks += sticky != cudaSuccess;
    return done(sticky);
}

cudaError_t simt::standing_error_or(bool arguments_are_right, cudaError_t otherwise)
{
    const cudaError_t standing = standing_error();
    return standing || arguments_are_right ? standing : done(otherwise);
}

cudaError_t simt::refuse(cudaError_t error, const char *pattern, ...)
{
    SIMT_FORMATTED(text, pattern);
    std::lock_guard<std::mutex> lock(mutex);
    done(error);
    refusal = text;
    if (failed_kernel == cudaSuccess && (report.empty() || noticed)) {
        report = refusal;
        noticed = false;
    }
    return error;
}

void simt::kernel_failed(cudaError_t error, const std::string &text)
{
    std::lock_guard<std::mutex> lock(mutex);
    if (failed_kernel == cudaSuccess) {
        failed_kernel = error;
        report = text;
        noticed = false;
        looks = 0;
    }
    if (print_reports)
        reports.push_back(text);
}

bool simt::a_kernel_failed()
{
    std::lock_guard<std::mutex> lock(mutex);
    return failed_kernel != cudaSuccess;
}

void simt::begin_launch()
{
    std::lock_guard<std::mutex> lock(mutex);
    if (failed_kernel == cudaSuccess && noticed)
        report.clear();
}

const char *simt::last_report()
{
    std::lock_guard<std::mutex> lock(mutex);
    noticed = true;
    if (!report.empty())
        heard();
    return report.c_str();
}

void simt::clear_errors()
{
    std::lock_guard<std::mutex> lock(mutex);
    if (failed_kernel != cudaSuccess && looks <= 0 && !print_reports)
        remember(report);
    looks = 0;
    failed_kernel = sticky = last = cudaSuccess;
    report.clear();
}

/* Returns `last`, which the program hears. */
static cudaError_t told_last()
{
    std::lock_guard<std::mutex> lock(mutex);
    if (last != cudaSuccess)
        heard();
    return last;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = told_last();
    last = standing_error_without_waiting();
    return error != cudaSuccess ? error : last;
}

cudaError_t cudaPeekAtLastError(void) { return told_last(); }

static std::pair<const char *, const char *> text_of(cudaError_t error)
{
    switch (error) {
#define SIMT_ERROR(name, code, description)                                                        \
    case name:                                                                                     \
        return {#name, description};
#include <simt/error_codes.def>
#undef SIMT_ERROR
    }
    return {"unrecognized error code", "unrecognized error code"};
}

const char *cudaGetErrorName(cudaError_t error) { return text_of(error).first; }
const char *cudaGetErrorString(cudaError_t error) { return text_of(error).second; }

/* An error that decides results is told at the program's end, unless it asks before. */
void simt_not_looked_at(cudaError_t error, const char *call, const Site *site)
{
    std::lock_guard<std::mutex> lock(mutex);
    const std::string name = call;
    if (sticky != cudaSuccess)
        looks -= error == sticky;
    else if (static const std::set<std::string> deciding = {"", "cudaMalloc", "cudaMemcpy",
                                                            "cudaMemset", "cudaLaunch"};
             deciding.count(name.substr(0, 10)))
        remember(format("%s:%d: %s (%s)", site->file, site->line,
                        refusal.empty() ? call : refusal.c_str(), cudaGetErrorName(error)));
}
