#include "host/environment.h"
#include "host/checker.h"
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
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

bool read_order(Order *order, char *complaint, size_t size)
{
    const char *text = getenv("SIMT_ORDER");
    unsigned long long seed = 1;
    if (!text || !*text || !strcmp(text, "inorder"))
        order->kind = Order::in_order;
    else if (!strcmp(text, "reversed"))
        order->kind = Order::reversed;
    else if (!strcmp(text, "random") ||
             (!strncmp(text, "random:", 7) && parse(text + 7, 0, UINT64_MAX, &seed)))
        order->kind = Order::random;
    else if (!strcmp(text, "overlap") ||
             (!strncmp(text, "overlap:", 8) && parse(text + 8, 0, UINT64_MAX, &seed)))
        order->kind = Order::overlap;
    else {
        snprintf(complaint, size,
                 "SIMT_ORDER is '%.100s'; it must be inorder, reversed, random or random:SEED, "
                 "overlap or overlap:SEED",
                 text);
        return false;
    }
    order->seed = seed;
    return true;
}

bool read_workers(unsigned *workers, char *complaint, size_t size)
{
    const char *text = getenv("SIMT_WORKERS");
    unsigned long long value = std::thread::hardware_concurrency();
    if (value == 0)
        value = 1;
    if (text && *text && !parse(text, 1, 1024, &value)) {
        snprintf(complaint, size, "SIMT_WORKERS is '%.100s'; it must be a number from 1 to 1024",
                 text);
        return false;
    }
    *workers = static_cast<unsigned>(value);
    return true;
}

bool read_failing_launch(unsigned long long *number, char *complaint, size_t size)
{
    const char *text = getenv("SIMT_FAIL_LAUNCH");
    *number = 0;
    if (!text || !*text || parse(text, 0, UINT64_MAX, number))
        return true;
    snprintf(complaint, size,
             "SIMT_FAIL_LAUNCH is '%.100s'; it must be the number of a launch, counted from 1",
             text);
    return false;
}

unsigned long long count_towards_failure()
{
    static std::atomic<unsigned long long> counted; /* since SIMT_FAIL_LAUNCH was set */
    unsigned long long failing;
    char complaint[300]; /* the launch makes it */
    if (!read_failing_launch(&failing, complaint, sizeof complaint) || failing == 0) {
        counted = 0;
        return 0;
    }
    return ++counted == failing ? failing : 0;
}

bool read_trace(TraceOptions *options, char *complaint, size_t size)
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
        if (text && *text && !parse(text, 0, number.most, number.value)) {
            snprintf(complaint, size, "%s is '%.100s'; it must be a number from 0 to %llu",
                     number.name, text, number.most);
            return false;
        }
    }
    options->bytes = megabytes << 20;
    if (!options->file || checker->armed)
        return true;
    snprintf(complaint, size,
             "SIMT_TRACE is set, but only the checked build (simtcc --check) can write a trace");
    return false;
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

bool check_ignored(char *complaint, size_t size)
{
    std::istringstream list = ignored_list();
    std::string kind, kernel;
    while (next_ignored(list, &kind, &kernel)) {
        if (kind == "race" || kind == "uninitialised")
            continue;
        snprintf(complaint, size,
                 "SIMT_IGNORE names '%.100s'; it must be race, race:KERNEL, uninitialised or "
                 "uninitialised:KERNEL, or several with commas between them",
                 kind.c_str());
        return false;
    }
    return true;
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

bool read_architecture(int *architecture, char *complaint, size_t size)
{
    static const int known[] = {70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121};
    const char *text = getenv("SIMT_ARCH");
    unsigned long long value = 90;
    if (!text || !*text || parse(text, 0, 1000, &value)) {
        for (int each : known) {
            if (each == static_cast<int>(value)) {
                *architecture = each;
                return true;
            }
        }
    }
    snprintf(complaint, size,
             "SIMT_ARCH is '%.100s'; it must be a compute capability without the dot or a letter, "
             "from 70 (Volta) to 121: 75, 80, 86, 89, 90, ...",
             text);
    return false;
}

} /* namespace simt */
