/* Error codes, sticky errors and reports. */
#include "host/errors.h"
#include "host/checker.h"
#include "host/environment.h"
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <set>
#include <vector>

using namespace simt;

/* guards everything below but `last`, which each host thread has for itself */
static std::mutex mutex;
static cudaError_t failed_kernel; /* not shown yet */
static cudaError_t sticky;
static std::string report;
static bool noticed; /* the report, or its error */
static __thread cudaError_t last;

/* What the program has not heard of: of several with one text the first, and not too many. */
struct Untold {
    std::string text;
    bool by_kernel, costs_status; /* a kernel that failed; that, or a launch or copy refused */
};
constexpr size_t most_untold = 8;
static std::vector<Untold> untold;
static size_t reports;  /* of kernels that failed, heard of or not */
static bool complained; /* of the environment */

/* simtcc asks the linker for it: the program is none of this project's. */
extern "C" __attribute__((weak)) const char simt_foreign_program;
static bool is_foreign() { return &simt_foreign_program != nullptr; }

static void tell_untold(const std::vector<std::string> &texts)
{
    for (const std::string &text : texts)
        fprintf(stderr, "simt: %s\n", text.c_str());
}
void (*simt::say_at_end)(const std::vector<std::string> &) = tell_untold;

void simt::tell_at_end()
{
    static std::atomic<bool> told;
    std::vector<std::string> texts;
    for (const Untold &each : untold)
        if (!(each.by_kernel && say_at_end != tell_untold)) /* whose reports these are */
            texts.push_back(each.text);
    fflush(stdout);
    if (!told.exchange(true))
        say_at_end(texts);
}

/* What nobody has heard of is told at the end, and the exit status is not 0. (Calling exit() again,
 * glibc goes on with the functions that are left.) */
static void farewell(int status, void *)
{
    const bool watched = is_foreign() && checker->armed;
    const bool found = complained || (watched && reports > 0) ||
                       std::any_of(untold.begin(), untold.end(), [=](const Untold &each) {
                           return each.costs_status || watched;
                       });
    tell_at_end();
    const int wanted = is_foreign() ? read_exit_status() : complained ? 2 : 1;
    if (status == 0 && found && wanted != 0)
        exit(wanted);
}

[[maybe_unused]] static const int registered = on_exit(farewell, nullptr);

/* A program that gives up over what a kernel did not do hears why, too. */
static void abort_handler(int number)
{
    signal(number, SIG_DFL);
    tell_at_end();
}

/* With the lock held. */
static void remember(const std::string &text, bool by_kernel, bool costs_status)
{
    const auto same = [&](const Untold &each) { return each.text == text; };
    if ((costs_status || is_foreign()) && untold.size() < most_untold &&
        std::none_of(untold.begin(), untold.end(), same))
        untold.push_back({text, by_kernel, costs_status});
    if (is_foreign() && signal(SIGABRT, abort_handler) != SIG_DFL)
        signal(SIGABRT, abort_handler);
}

/* With the lock held. */
static void heard()
{
    noticed = true;
    untold.clear();
}

std::string simt::format(const char *pattern, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(nullptr, 0, pattern, again);
    va_end(again);
    std::string text(size_t(length), '\0');
    vsnprintf(text.data(), text.size() + 1, pattern, arguments);
    return text;
}

std::string simt::format(const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    std::string text = format(pattern, arguments);
    va_end(arguments);
    return text;
}

cudaError_t simt::done(cudaError_t error)
{
    if (error != cudaSuccess)
        last = error;
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
    return done(sticky);
}

cudaError_t simt::standing_error_or(bool arguments_are_right, cudaError_t otherwise)
{
    const cudaError_t standing = standing_error();
    return standing || arguments_are_right ? standing : done(otherwise);
}

/* With the lock held. */
static void keep_report(const std::string &text)
{
    if (failed_kernel == cudaSuccess && (report.empty() || noticed)) {
        report = text;
        noticed = false;
    }
}

static cudaError_t refuse(cudaError_t error, const std::string &text, bool costs_status)
{
    std::lock_guard<std::mutex> lock(mutex);
    keep_report(text);
    if (error != cudaSuccess)
        remember(text, false, costs_status);
    return done(error);
}

#define REFUSE(name, costs_status)                                                                 \
    cudaError_t simt::name(cudaError_t error, const char *pattern, ...)                            \
    {                                                                                              \
        va_list arguments;                                                                         \
        va_start(arguments, pattern);                                                              \
        const std::string text = format(pattern, arguments);                                       \
        va_end(arguments);                                                                         \
        return ::refuse(error, text, costs_status);                                                \
    }
REFUSE(refuse, false)
REFUSE(refuse_work, true)
#undef REFUSE

cudaError_t simt::refuse_environment(const std::string &complaint)
{
    static std::set<std::string> said;
    std::lock_guard<std::mutex> lock(mutex);
    if (said.insert(complaint).second)
        fprintf(stderr, "simt: %s\n", complaint.c_str());
    complained = true;
    keep_report(complaint);
    return done(cudaErrorInvalidValue);
}

void simt::kernel_failed(cudaError_t error, const std::string &text)
{
    std::lock_guard<std::mutex> lock(mutex);
    reports++;
    if (failed_kernel == cudaSuccess) {
        failed_kernel = error;
        report = text;
        noticed = false;
        remember(text, true, true);
    }
    checker->reported(text.c_str());
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
    heard();
    return report.c_str();
}

void simt::clear_errors()
{
    std::lock_guard<std::mutex> lock(mutex);
    failed_kernel = sticky = last = cudaSuccess;
    report.clear();
    if (!is_foreign()) /* to which it is a matter of course before the end */
        heard();
}

static cudaError_t fetched(cudaError_t error)
{
    std::lock_guard<std::mutex> lock(mutex);
    if (error != cudaSuccess)
        heard();
    return error;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last;
    last = standing_error_without_waiting();
    return fetched(error != cudaSuccess ? error : last);
}

cudaError_t cudaPeekAtLastError(void) { return fetched(last); }

/* Its name and description. */
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
