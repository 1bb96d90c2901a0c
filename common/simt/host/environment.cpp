#include "host/environment.h"
#include "host/checker.h"
#include "host/errors.h"
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace simt
{

typedef unsigned long long Number;

/* What a variable is set to; "" when it is not. */
static std::string setting(const char *name)
{
    const char *text = getenv(name);
    return text ? text : "";
}

/* A whole decimal number from `least` to `most`. */
static bool parse(const std::string &text, Number least, Number most, Number *value)
{
    const char *const end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, *value);
    return result.ec == std::errc() && result.ptr == end && *value >= least && *value <= most;
}

static std::string complain(const char *name, const std::string &what)
{
    return format("%s is '%.100s'; it must be %s", name, setting(name).c_str(), what.c_str());
}

/* Leaves *value as it is when the variable is not set; a complaint about what is no such number. */
static std::string read_number(const char *name, Number least, Number most, Number *value)
{
    if (setting(name).empty() || parse(setting(name), least, most, value))
        return "";
    return complain(name, format("a number from %llu to %llu", least, most));
}

std::string read_order(Order *order)
{
    static const char *const kinds[] = {"inorder", "reversed", "random", "overlap"};
    const std::string text = setting("SIMT_ORDER").empty() ? kinds[0] : setting("SIMT_ORDER");
    const size_t colon = text.find(':');
    Number seed = 1;
    for (int kind = Order::in_order; kind <= Order::overlap; kind++)
        if (text.substr(0, colon) == kinds[kind] &&
            (colon == std::string::npos ||
             (kind >= Order::random && parse(text.substr(colon + 1), 0, UINT64_MAX, &seed)))) {
            *order = {Order::Kind(kind), seed};
            return "";
        }
    return complain("SIMT_ORDER",
                    "inorder, reversed, random or random:SEED, overlap or overlap:SEED");
}

std::string read_workers(unsigned *workers)
{
    Number value = std::max(std::thread::hardware_concurrency(), 1u);
    const std::string complaint = read_number("SIMT_WORKERS", 1, 1024, &value);
    *workers = unsigned(value);
    return complaint;
}

static std::string read_failing_launch(Number *number)
{
    *number = 0;
    if (read_number("SIMT_FAIL_LAUNCH", 0, UINT64_MAX, number).empty())
        return "";
    return complain("SIMT_FAIL_LAUNCH", "the number of a launch, counted from 1");
}

cudaError_t fail_if_injected(const char *call)
{
    static std::atomic<Number> counted; /* since SIMT_FAIL_LAUNCH was set */
    Number failing;
    if (!read_failing_launch(&failing).empty() || failing == 0) {
        counted = 0; /* the launch makes the complaint */
        return cudaSuccess;
    }
    return ++counted != failing
               ? cudaSuccess
               : refuse(cudaErrorLaunchOutOfResources,
                        "%s: SIMT_FAIL_LAUNCH makes launch %llu fail", call, failing);
}

std::string read_trace(TraceOptions *options)
{
    Number megabytes = 64;
    *options = {getenv("SIMT_TRACE"), TraceOptions::all, TraceOptions::all, 0};
    if (options->file && !*options->file)
        options->file = nullptr;
    for (const std::string &complaint :
         {read_number("SIMT_TRACE_BLOCK", 0, UINT64_MAX - 1, &options->block),
          read_number("SIMT_TRACE_WARP", 0, 31, &options->warp),
          read_number("SIMT_TRACE_LIMIT", 0, 1 << 20, &megabytes)})
        if (!complaint.empty())
            return complaint;
    options->bytes = megabytes << 20;
    if (options->file && !checker->armed)
        return "SIMT_TRACE is set, but only the checked build (simtcc --check) can write a trace";
    return "";
}

struct Ignored {
    std::string kind, kernel; /* of every kernel: "" */
};

static std::vector<Ignored> read_ignored()
{
    std::vector<Ignored> all;
    std::istringstream list(setting("SIMT_IGNORE"));
    for (std::string entry; std::getline(list, entry, ',');) {
        const size_t colon = std::min(entry.find(':'), entry.size());
        all.push_back({entry.substr(0, colon), entry.substr(std::min(colon + 1, entry.size()))});
    }
    return all;
}

static std::string check_ignored()
{
    for (const Ignored &each : read_ignored())
        if (each.kind != "race" && each.kind != "uninitialised")
            return format("SIMT_IGNORE names '%.100s'; it must be race, race:KERNEL, uninitialised "
                          "or uninitialised:KERNEL, or several with commas between them",
                          each.kind.c_str());
    return "";
}

bool is_ignored(const char *kind, const char *kernel)
{
    const std::vector<Ignored> all = read_ignored();
    const std::string name = kernel, bare = name.substr(0, name.find('<'));
    return std::any_of(all.begin(), all.end(), [&](const Ignored &each) {
        return each.kind == kind &&
               (each.kernel.empty() || each.kernel == name || each.kernel == bare);
    });
}

std::string read_architecture(int *architecture)
{
    static const int known[] = {70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121};
    Number value = 90;
    const bool is_number = read_number("SIMT_ARCH", 0, 1000, &value).empty();
    const bool is_known =
        is_number && std::find(std::begin(known), std::end(known), int(value)) != std::end(known);
    *architecture = is_known ? int(value) : 90;
    return is_known ? ""
                    : complain("SIMT_ARCH", "a compute capability without the dot or a letter, "
                                            "from 70 (Volta) to 121: 75, 80, 86, 89, 90, ...");
}

std::string read_environment(Environment *environment)
{
    Number failing;
    for (const std::string &complaint :
         {read_order(&environment->order), read_workers(&environment->workers),
          read_architecture(&environment->architecture), read_failing_launch(&failing),
          read_trace(&environment->trace), check_ignored()})
        if (!complaint.empty())
            return complaint;
    return "";
}

} /* namespace simt */
