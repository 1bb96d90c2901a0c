/* common/backend.h on the CPU. */
#include "host/checker.h"
#include "host/errors.h"
#include "host/environment.h"
#include <backend.h>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace simt
{

static Checker nobody;
Checker *checker = &nobody;

} /* namespace simt */

using namespace simt;

const char *backend_name(void)
{
    return checker->armed ? "check" : "cpu";
}

int backend_architecture(void)
{
    int value;
    char complaint[300];
    return read_architecture(&value, complaint, sizeof complaint) ? value : 0;
}

const char *backend_complaint(void)
{
    static thread_local char complaint[300];
    Order order;
    unsigned workers;
    int architecture;
    unsigned long long failing;
    TraceOptions trace;
    const bool good = read_order(&order, complaint, sizeof complaint) &&
                      read_workers(&workers, complaint, sizeof complaint) &&
                      read_architecture(&architecture, complaint, sizeof complaint) &&
                      read_failing_launch(&failing, complaint, sizeof complaint) &&
                      read_trace(&trace, complaint, sizeof complaint) &&
                      check_ignored(complaint, sizeof complaint);
    return good ? "" : complaint;
}

/* A kernel whose every access is watched takes as long as the watching takes. */
bool backend_has_timing(void)
{
    return !checker->armed;
}

bool backend_counters(struct counters *total)
{
    cudaDeviceSynchronize();
    *total = {};
    return checker->counters(total);
}

void backend_counters_reset(void)
{
    checker->counters_reset();
}

const char *backend_trace(const char *file, long long block, long long warp)
{
    static thread_local char complaint[300];
    if (!checker->armed)
        return "only the checked build writes traces (build/check)";
    FILE *opened = fopen(file, "w");
    if (!opened) {
        snprintf(complaint, sizeof complaint, "cannot write %.200s: %s", file, strerror(errno));
        return complaint;
    }
    fclose(opened);
    setenv("SIMT_TRACE", file, 1);
    if (block >= 0)
        setenv("SIMT_TRACE_BLOCK", std::to_string(block).c_str(), 1);
    if (warp >= 0)
        setenv("SIMT_TRACE_WARP", std::to_string(warp).c_str(), 1);
    return "";
}

void backend_describe(const void *device, size_t bytes, const struct description *about)
{
    checker->described(device, bytes, *about);
}

void backend_fence(const void *device, size_t bytes)
{
    checker->fenced(device, bytes);
}

const char *backend_report(void)
{
    return last_report();
}
