/* Handles signals. Faults of host code are explained where a device pointer was followed, and go on
 * to the previous handler. That of kernels' faults never returns, so SA_NODEFER blocks none. */
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
    const Allocation *near = in_device_arena(address) ? find_allocation(address) : nullptr;
    if (uintptr_t(address) < 4096)
        return format("%p, a null pointer", address);
    if (const uintptr_t host = guarded_pointer(address))
        return format("%#zx, which is host memory: allocate it with cudaMalloc and copy the data",
                      host);
    if (!near)
        return format("%p, where there is no device memory", address);
    const size_t at = uintptr_t(address) - uintptr_t(near->begin);
    if (at >= near->bytes)
        return format("%p, %zu bytes past the end of %s %llu (%zu bytes)", address,
                      at - near->bytes, near->freed ? "freed allocation" : "allocation",
                      near->number, near->bytes);
    if (near->freed)
        return format("%p, in freed memory (allocation %llu, %zu bytes)", address, near->number,
                      near->bytes);
    return format("%p, which is device memory (byte %zu of allocation %llu, %zu bytes)", address,
                  at, near->number, near->bytes);
}

static void handle(int signal, siginfo_t *info, void *)
{
    const void *const address = info->si_addr;
    if (fault_handler *handler = in_kernels)
        handler(signal, info); /* does not return if it is a kernel's */
    if (in_device_arena(address)) {
        const std::string line =
            format("simt: host code touched %s%s\n", describe_address(address).c_str(),
                   is_device_range(address, 1) ? "; use cudaMemcpy" : "");
        (void)!write(STDERR_FILENO, line.data(), line.size()); /* or nothing more can be done */
    }
    sigaction(signal, &previous[signal], nullptr);
    /* The faulting instruction runs again, and this time the previous handler gets it. */
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
