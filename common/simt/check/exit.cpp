/* A program built by `simtcc --check` prints this at its end: the reports, and what each kernel
 * did. simtcc asks the linker for simt_print_at_exit, which pulls this file in. */
#include "check/check.h"
#include "host/errors.h"

namespace simt::check
{

/* These outlive the program's own variables. */
static std::mutex lock;
__attribute__((init_priority(101))) static std::vector<std::pair<std::string, struct counters>>
    kernels; /* in order of first launch */

static void remember_launch(const Launch &launch, const struct counters &counted)
{
    std::lock_guard<std::mutex> hold(lock);
    std::string name = kernel_name(launch);
    for (auto &kernel : kernels)
        if (kernel.first == name)
            return add_counters(&kernel.second, counted);
    kernels.emplace_back(name, counted);
}

static std::string ratio(unsigned long long a, unsigned long long b)
{
    return b ? format("%.2f", double(a) / double(b)) : "";
}

static void print_table()
{
    fprintf(stderr,
            "simt: launches  glob.loads      stores       bytes sect/load /store  shar.loads      "
            "stores  wavefronts /ideal    barriers     atomics  kernel\n");
    for (const auto &kernel : kernels) {
        const struct counters &c = kernel.second;
        fprintf(
            stderr,
            "simt: %8llu %11llu %11llu %11llu %9s %6s %11llu %11llu %11llu %6s %11llu %11llu  %s\n",
            c.launches, c.global_loads, c.global_stores, c.global_load_bytes + c.global_store_bytes,
            ratio(c.global_load_sectors, c.global_load_requests).c_str(),
            ratio(c.global_store_sectors, c.global_store_requests).c_str(), c.shared_loads,
            c.shared_stores, c.shared_wavefronts,
            ratio(c.shared_wavefronts, c.shared_wavefronts_ideal).c_str(), c.barriers, c.atomics,
            kernel.first.c_str());
    }
}

static bool print_all(const std::vector<std::string> &reports)
{
    std::unique_lock<std::mutex> hold(lock, std::try_to_lock);
    if (!kernels.empty())
        print_table();
    for (const std::string &text : reports)
        fprintf(stderr, "simt: report: %s\n", text.c_str());
    fprintf(stderr, "simt: %zu report%s\n", reports.size(), reports.size() == 1 ? "" : "s");
    return !reports.empty();
}

[[maybe_unused]] static const bool registered = [] {
    launch_listener = remember_launch;
    print_reports = print_all;
    return true;
}();

} /* namespace simt::check */

extern "C" void simt_print_at_exit(void) {}
