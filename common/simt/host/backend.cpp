/* common/backend.h on the CPU. */
#include "host/checker.h"
#include "host/errors.h"
#include "host/environment.h"
#include <backend.h>

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
    const bool good = read_order(&order, complaint, sizeof complaint) &&
                      read_workers(&workers, complaint, sizeof complaint) &&
                      read_architecture(&architecture, complaint, sizeof complaint) &&
                      read_failing_launch(&failing, complaint, sizeof complaint) &&
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

void backend_fence(const void *device, size_t bytes)
{
    checker->fenced(device, bytes);
}

const char *backend_report(void)
{
    return last_report();
}
