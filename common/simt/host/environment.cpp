#include "host/environment.h"
#include "host/checker.h"
#include "host/errors.h"
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>

namespace simt
{

/* A whole decimal number from `least` to `most`. */
static bool parse(const char *text, unsigned long long least, unsigned long long most,
                  unsigned long long *value)
{
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return !*end && errno == 0 && *value >= least && *value <= most;
}

/* KIND, or KIND:SEED. */
static bool is_seeded(const char *text, const std::string &kind, unsigned long long *seed)
{
    return text == kind || (!strncmp(text, (kind + ":").c_str(), kind.size() + 1) &&
                            parse(text + kind.size() + 1, 0, UINT64_MAX, seed));
}

std::string read_order(Order *order)
{
    const char *text = getenv("SIMT_ORDER");
    unsigned long long seed = 1;
    if (!text || !*text || !strcmp(text, "inorder"))
        order->kind = Order::in_order;
    else if (!strcmp(text, "reversed"))
        order->kind = Order::reversed;
    else if (is_seeded(text, "random", &seed))
        order->kind = Order::random;
    else if (is_seeded(text, "overlap", &seed))
        order->kind = Order::overlap;
    else
        return format("SIMT_ORDER is '%.100s'; it must be inorder, reversed, random or "
                      "random:SEED, overlap or overlap:SEED",
                      text);
    order->seed = seed;
    return "";
}

std::string read_workers(unsigned *workers)
{
    const char *text = getenv("SIMT_WORKERS");
    unsigned long long value = std::max(std::thread::hardware_concurrency(), 1u);
    if (text && *text && !parse(text, 1, 1024, &value))
        return format("SIMT_WORKERS is '%.100s'; it must be a number from 1 to 1024", text);
    *workers = unsigned(value);
    return "";
}

static std::string read_failing_launch(unsigned long long *number)
{
    const char *text = getenv("SIMT_FAIL_LAUNCH");
    *number = 0;
    if (!text || !*text || parse(text, 0, UINT64_MAX, number))
        return "";
    return format("SIMT_FAIL_LAUNCH is '%.100s'; it must be the number of a launch, counted from 1",
                  text);
}

cudaError_t fail_if_injected(const char *call)
{
    static std::atomic<unsigned long long> counted; /* since SIMT_FAIL_LAUNCH was set */
    unsigned long long failing;
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
    unsigned long long megabytes = 64;
    *options = TraceOptions{getenv("SIMT_TRACE"), TraceOptions::all, TraceOptions::all, 0};
    if (options->file && !*options->file)
        options->file = nullptr;
    const struct {
        const char *name;
        unsigned long long *value, most;
    } numbers[] = {{"SIMT_TRACE_BLOCK", &options->block, UINT64_MAX - 1},
                   {"SIMT_TRACE_WARP", &options->warp, 31},
                   {"SIMT_TRACE_LIMIT", &megabytes, 1 << 20}};
    for (const auto &number : numbers) {
        const char *text = getenv(number.name);
        if (text && *text && !parse(text, 0, number.most, number.value))
            return format("%s is '%.100s'; it must be a number from 0 to %llu", number.name, text,
                          number.most);
    }
    options->bytes = megabytes << 20;
    if (options->file && !checker->armed)
        return "SIMT_TRACE is set, but only the checked build (simtcc --check) can write a trace";
    return "";
}

/* The next KIND or KIND:KERNEL of SIMT_IGNORE; false at its end. */
static bool next_ignored(std::istream &list, std::string *kind, std::string *kernel)
{
    std::string entry;
    if (!std::getline(list, entry, ','))
        return false;
    const size_t colon = entry.find(':');
    *kind = entry.substr(0, colon);
    *kernel = colon == std::string::npos ? "" : entry.substr(colon + 1);
    return true;
}

static std::istringstream ignored_list()
{
    const char *text = getenv("SIMT_IGNORE");
    return std::istringstream(text ? text : "");
}

static std::string check_ignored()
{
    std::istringstream list = ignored_list();
    std::string kind, kernel;
    while (next_ignored(list, &kind, &kernel))
        if (kind != "race" && kind != "uninitialised")
            return format("SIMT_IGNORE names '%.100s'; it must be race, race:KERNEL, uninitialised "
                          "or uninitialised:KERNEL, or several with commas between them",
                          kind.c_str());
    return "";
}

bool is_ignored(const char *kind, const char *kernel)
{
    std::istringstream list = ignored_list();
    std::string each, name;
    while (next_ignored(list, &each, &name)) {
        const size_t length = name.size();
        if (each == kind && (name.empty() || name == kernel ||
                             (name == std::string(kernel, std::min(length, strlen(kernel))) &&
                              kernel[length] == '<')))
            return true;
    }
    return false;
}

std::string read_architecture(int *architecture)
{
    static const int known[] = {70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121};
    const char *text = getenv("SIMT_ARCH");
    unsigned long long value = *architecture = 90;
    if (!text || !*text || parse(text, 0, 1000, &value)) {
        for (int each : known) {
            if (each == int(value)) {
                *architecture = each;
                return "";
            }
        }
    }
    return format("SIMT_ARCH is '%.100s'; it must be a compute capability without the dot or a "
                  "letter, from 70 (Volta) to 121: 75, 80, 86, 89, 90, ...",
                  text);
}

std::string read_environment(Environment *environment)
{
    unsigned long long failing;
    for (const std::string &complaint :
         {read_order(&environment->order), read_workers(&environment->workers),
          read_architecture(&environment->architecture), read_failing_launch(&failing),
          read_trace(&environment->trace), check_ignored()})
        if (!complaint.empty())
            return complaint;
    return "";
}

} /* namespace simt */
