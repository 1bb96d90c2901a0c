/*
 * For programs built by `simtcc --check`: when the program ends it prints what was reported, and what each
 * kernel did. simtcc asks the linker for simt_print_at_exit, which pulls this file in; other programs go
 * without.
 */
#include "check.h"

#include <cstdio>
#include <cstdlib>

namespace simt
{
namespace checker
{

static std::mutex lock;
static std::vector<std::string> reports;
static std::vector<std::pair<std::string, struct counters>> kernels; /* in order of first launch */

static void remember_launch(const Launch &launch, const struct counters &counted)
{
    std::lock_guard<std::mutex> hold(lock);
    std::string name = kernel_name(launch);
    for (auto &kernel : kernels)
        if (kernel.first == name) {
            add_counters(&kernel.second, counted);
            return;
        }
    kernels.emplace_back(name, counted);
}

static void remember_report(const char *text)
{
    std::lock_guard<std::mutex> hold(lock);
    reports.push_back(text);
}

static double ratio(unsigned long long a, unsigned long long b)
{
    return b ? static_cast<double>(a) / static_cast<double>(b) : 0;
}

static void print_kernel(const char *name, const struct counters &c)
{
    fprintf(stderr, "simt: %s\n", name);
    fprintf(stderr, "simt:   %12llu launches    %12llu barriers         %12llu atomics\n", c.launches,
            c.barriers, c.atomics);
    fprintf(stderr,
            "simt:   %12llu global loads  %10llu bytes   %10llu requests  %6.2f sectors per request\n",
            c.global_loads, c.global_load_bytes, c.global_load_requests,
            ratio(c.global_load_sectors, c.global_load_requests));
    fprintf(stderr,
            "simt:   %12llu global stores %10llu bytes   %10llu requests  %6.2f sectors per request\n",
            c.global_stores, c.global_store_bytes, c.global_store_requests,
            ratio(c.global_store_sectors, c.global_store_requests));
    if (c.shared_loads + c.shared_stores > 0)
        fprintf(stderr,
                "simt:   %12llu shared loads  %10llu shared stores  %10llu wavefronts, ideally %llu\n",
                c.shared_loads, c.shared_stores, c.shared_wavefronts, c.shared_wavefronts_ideal);
}

static void print_all()
{
    std::lock_guard<std::mutex> hold(lock);
    fflush(stdout);
    for (const auto &kernel : kernels)
        print_kernel(kernel.first.c_str(), kernel.second);
    for (const std::string &text : reports)
        fprintf(stderr, "simt: report: %s\n", text.c_str());
    fprintf(stderr, "simt: %zu report%s\n", reports.size(), reports.size() == 1 ? "" : "s");
}

struct Registration {
    Registration()
    {
        launch_listener = remember_launch;
        report_listener = remember_report;
        atexit(print_all);
    }
};

static Registration registration;

} /* namespace checker */
} /* namespace simt */

extern "C" void simt_print_at_exit(void)
{
}
