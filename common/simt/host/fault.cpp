/*
 * Signals of the running program, as far as device memory and kernels cause them. Faults of host
 * code are explained where a device pointer was followed, and go on to whoever handled them before.
 * The handler of kernels' faults never returns, so signals are not blocked meanwhile (SA_NODEFER).
 */
#include "host/errors.h"
#include "host/memory.h"
#include <atomic>
#include <mutex>
#include <unistd.h>

using namespace simt;

static std::atomic<fault_handler *> in_kernels;
static struct sigaction previous[NSIG];

std::string simt::describe_address(const void *address)
{
    const char *p = static_cast<const char *>(address);
    const Allocation *near = in_device_arena(address) ? find_allocation(address) : nullptr;
    if (p < reinterpret_cast<const char *>(4096))
        return format("%p, a null pointer", address);
    if (near && near->freed && p < near->begin + near->bytes)
        return format("%p, in freed memory (allocation %llu, %zu bytes)", address, near->number,
                      near->bytes);
    if (near && p >= near->begin + near->bytes)
        return format("%p, %zu bytes past the end of %s %llu (%zu bytes)", address,
                      size_t(p - near->begin) - near->bytes,
                      near->freed ? "freed allocation" : "allocation", near->number, near->bytes);
    return format("%p, where there is no device memory", address);
}

static void explain_host_fault(const void *address)
{
    if (!in_device_arena(address))
        return;
    const Allocation *allocation = find_allocation(address);
    const size_t at =
        allocation ? size_t(static_cast<const char *>(address) - allocation->begin) : 0;
    std::string line = "simt: host code touched " + describe_address(address) + "\n";
    if (allocation && !allocation->freed && at < allocation->bytes)
        line = format("simt: host code touched %p, which is device memory (byte %zu of allocation "
                      "%llu, %zu bytes); use cudaMemcpy\n",
                      address, at, allocation->number, allocation->bytes);
    if (write(STDERR_FILENO, line.data(), line.size()) < 0)
        return; /* nothing more can be done */
}

static void handle(int signal, siginfo_t *info, void *)
{
    if (fault_handler *handler = in_kernels)
        handler(signal, info); /* does not return if it is a kernel's */
    explain_host_fault(info->si_addr);
    sigaction(signal, &previous[signal], nullptr);
    /* The faulting instruction runs again, and this time it is the previous handler's. */
}

void simt::catch_faults(fault_handler *handler)
{
    if (handler)
        in_kernels = handler;
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction action = {};
        action.sa_sigaction = handle;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
            sigaction(signal, &action, &previous[signal]);
    });
}
