/* backend.h on a GPU: no counters, no fences, no report beyond CUDA's error code. */
#include "backend.h"

const char *backend_name(void)
{
    return "gpu";
}

int backend_architecture(void)
{
    int device = 0, major = 0, minor = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
        return 0;
    return 10 * major + minor;
}

const char *backend_complaint(void)
{
    return "";
}

bool backend_has_timing(void)
{
    return true;
}

bool backend_counters(struct counters *total)
{
    *total = (struct counters){0};
    return false;
}

void backend_counters_reset(void)
{
}

const char *backend_trace(const char *file, long long block, long long warp)
{
    (void)file, (void)block, (void)warp;
    return "only the checked build for the CPU writes traces (BACKEND=cpu)";
}

void backend_describe(const void *device, size_t bytes, const struct description *about)
{
    (void)device, (void)bytes, (void)about;
}

void backend_fence(const void *device, size_t bytes)
{
    (void)device, (void)bytes;
}

const char *backend_report(void)
{
    return "";
}
