#include "host/environment.h"
#include "host/checker.h"
#include "host/errors.h"
#include <algorithm>
#include <atomic>
#include <charconv>
#include <sstream>
#include <thread>

using namespace simt;

typedef unsigned long long Number;

static std::string setting(const char *name)
{
    const char *text = getenv(name);
    return text ? text : "";
}

static bool parse(const std::string &text, Number least, Number most, Number *value)
{
    const char *const end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, *value);
    return result.ec == std::errc() && result.ptr == end && *value >= least && *value <= most;
}

/* Keeps the first of several complaints. */
static void complain(std::string *complaint, const char *name, const std::string &what)
{
    if (complaint && complaint->empty())
        *complaint =
            format("%s is '%.100s'; it must be %s", name, setting(name).c_str(), what.c_str());
}

static Number read_number(const char *name, Number least, Number most, Number otherwise,
                          std::string *complaint, const std::string &what = "")
{
    Number value = otherwise;
    if (setting(name).empty() || parse(setting(name), least, most, &value))
        return value;
    const std::string range = format("a number from %llu to %llu", least, most);
    complain(complaint, name, what.empty() ? range : what);
    return otherwise;
}

Order simt::read_order(std::string *complaint)
{
    static const char *const kinds[] = {"inorder", "reversed", "random", "overlap"};
    const std::string text = setting("SIMT_ORDER").empty() ? kinds[0] : setting("SIMT_ORDER");
    const size_t colon = text.find(':');
    Number seed = 1;
    for (int kind = Order::in_order; kind <= Order::overlap; kind++)
        if (text.substr(0, colon) == kinds[kind] &&
            (colon == std::string::npos ||
             (kind >= Order::random && parse(text.substr(colon + 1), 0, UINT64_MAX, &seed))))
            return {Order::Kind(kind), seed};
    complain(complaint, "SIMT_ORDER",
             "inorder, reversed, random or random:SEED, overlap or overlap:SEED");
    return {Order::in_order, seed};
}

/* One of these shall fail, by its number from 1 since the variable was set. */
struct Failing {
    const char *variable, *what;
    std::atomic<Number> counted{0};
};
static Failing launches = {"SIMT_FAIL_LAUNCH", "launch"}, maps = {"SIMT_FAIL_MAP", "tensor map"};

/* Returns the number; 0 for none. A launch complains of a bad value. */
static Number read_failing(Failing &of, std::string *complaint)
{
    const std::string number = format("the number of a %s, counted from 1", of.what);
    const Number failing = read_number(of.variable, 1, UINT64_MAX, 0, complaint, number);
    if (failing == 0)
        of.counted = 0;
    return failing;
}

cudaError_t simt::fail_if_injected(const char *call)
{
    read_failing(maps, nullptr);
    const Number failing = read_failing(launches, nullptr);
    return failing == 0 || ++launches.counted != failing
               ? cudaSuccess
               : refuse(cudaErrorLaunchOutOfResources,
                        "%s: SIMT_FAIL_LAUNCH makes launch %llu fail", call, failing);
}

bool simt::map_is_to_fail()
{
    const Number failing = read_failing(maps, nullptr);
    return failing != 0 && ++maps.counted == failing;
}

int simt::read_exit_status(int otherwise, std::string *complaint)
{
    return int(read_number("SIMT_EXIT", 0, 255, Number(otherwise), complaint));
}

TraceOptions simt::read_trace(std::string *complaint)
{
    TraceOptions options = {
        getenv("SIMT_TRACE"),
        read_number("SIMT_TRACE_BLOCK", 0, UINT64_MAX - 1, TraceOptions::all, complaint),
        read_number("SIMT_TRACE_WARP", 0, 31, TraceOptions::all, complaint),
        read_number("SIMT_TRACE_LIMIT", 0, 1 << 20, 64, complaint) << 20};
    if (options.file && !*options.file)
        options.file = nullptr;
    if (options.file && !checker->armed && complaint && complaint->empty())
        *complaint =
            "SIMT_TRACE is set, but only the checked build (simtcc --check) can write a trace";
    return options;
}

static std::vector<std::string> read_ignored()
{
    std::vector<std::string> all;
    std::istringstream list(setting("SIMT_IGNORE"));
    for (std::string entry; std::getline(list, entry, ',');)
        all.push_back(entry);
    return all;
}

bool simt::is_ignored(const std::string &kind, const std::string &kernel)
{
    const std::vector<std::string> all = read_ignored();
    const std::string bare = kernel.substr(0, kernel.find('<'));
    return std::any_of(all.begin(), all.end(), [&](const std::string &entry) {
        return entry == kind || entry == kind + ":" + kernel || entry == kind + ":" + bare;
    });
}

std::vector<int> simt::read_architectures(std::string *complaint)
{
    static const int known[] = {70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121};
    const std::string text = setting("SIMT_ARCH");
    std::istringstream list(text);
    std::vector<int> all;
    for (std::string entry; std::getline(list, entry, ',');)
        for (int each : known)
            if (entry == std::to_string(each))
                all.push_back(each);
    if (!text.empty() && all.size() == size_t(1 + std::count(text.begin(), text.end(), ',')))
        return all;
    if (!text.empty())
        complain(complaint, "SIMT_ARCH",
                 "a compute capability without the dot or a letter, from 70 (Volta) to 121: 75, "
                 "80, 86, 89, 90, ..., or one for each of several devices, with commas between");
    return {90};
}

Environment simt::read_environment(std::string *complaint)
{
    const Number workers = std::max(std::thread::hardware_concurrency(), 1u);
    const Environment environment = {
        read_order(complaint), unsigned(read_number("SIMT_WORKERS", 1, 1024, workers, complaint)),
        read_trace(complaint)};
    read_architectures(complaint);
    read_failing(launches, complaint);
    read_failing(maps, complaint);
    read_exit_status(0, complaint);
    for (const std::string &entry : read_ignored()) {
        const std::string kind = entry.substr(0, entry.find(':'));
        const bool known = kind == "race" || kind == "uninitialised" || kind == "volatile";
        if ((!known || entry == kind + ":") && complaint->empty())
            *complaint =
                format("SIMT_IGNORE names '%.100s'; it must be race, race:KERNEL, uninitialised, "
                       "volatile and so on, or several with commas between them",
                       entry.c_str());
    }
    return environment;
}
