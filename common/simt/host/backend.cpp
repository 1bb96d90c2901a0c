/* This is common/device/backend.h on the CPU. */
#include "host/checker.h"
#include "host/device.h"
#include "host/errors.h"
#include "host/environment.h"
#include "device/backend.h"
#include <cerrno>
#include <cstdlib>

using namespace simt;

static Checker unarmed;
Checker *simt::checker = &unarmed;

const char *backend_name(void) { return checker->armed ? "check" : "cpu"; }

int backend_architecture(void)
{
    std::string complaint;
    read_architectures(&complaint);
    return complaint.empty() ? architecture_of_device() : 0;
}

const char *backend_complaint(void)
{
    static thread_local std::string complaint;
    complaint.clear();
    read_environment(&complaint);
    return complaint.c_str();
}

/* When every access of a kernel is watched, its time is the time of watching. */
bool backend_has_timing(void) { return !checker->armed; }

bool backend_counters(struct counters *total)
{
    cudaDeviceSynchronize();
    *total = {};
    return checker->counters(total);
}

void backend_counters_reset(void) { checker->counters_reset(); }

const char *backend_trace(const char *file, long long block, long long warp)
{
    static thread_local std::string complaint;
    if (!checker->armed)
        return "only the checked build writes traces (build/check)";
    FILE *opened = fopen(file, "w");
    if (!opened) {
        complaint = format("cannot write %s: %s", file, strerror(errno));
        return complaint.c_str();
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

void backend_fence(const void *device, size_t bytes) { checker->fenced(device, bytes); }
const char *backend_report(void) { return last_report(); }
