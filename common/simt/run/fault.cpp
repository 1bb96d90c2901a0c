/*
 * Signals of the running program, as far as kernels cause them.
 *
 * A worker that faults inside a kernel leaves the handler by switching to its own stack, as
 * abandon_block does anywhere else: the handler never returns, so it must not block its own signal
 * (SA_NODEFER). Faults of host code go on to whoever handled them before.
 */
#include "run/fault.h"
#include "run/engine.h"
#include "host/errors.h"
#include "host/memory.h"
#include <cassert>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace simt
{

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct sigaction previous[sizeof signals / sizeof *signals];

/* "which is 12 bytes past the end of an allocation of 400 bytes", or what else is known about the
 * address. */
static void describe_address(const void *address, char *text, size_t size)
{
    const char *p = static_cast<const char *>(address);
    const Allocation *near = in_device_arena(address) ? find_allocation(address) : nullptr;
    if (p < reinterpret_cast<const char *>(4096))
        snprintf(text, size, "%p, a null pointer", address);
    else if (near && near->freed && p < near->begin + near->bytes)
        snprintf(text, size, "%p, in freed memory (allocation %llu, %zu bytes)", address,
                 near->number, near->bytes);
    else if (near && p >= near->begin + near->bytes)
        snprintf(text, size, "%p, %zu bytes past the end of %s %llu (%zu bytes)", address,
                 static_cast<size_t>(p - near->begin) - near->bytes,
                 near->freed ? "freed allocation" : "allocation", near->number, near->bytes);
    else
        snprintf(text, size, "%p, where there is no device memory", address);
}

static __thread bool failing; /* a fault while a fault is being reported is the runtime's own */

static void fail_kernel(int signal, const siginfo_t *info)
{
    const Thread &thread = self();
    Launch &launch = *worker->block->launch;
    char who[100], where[200];
    describe_thread(thread, who, sizeof who);
    if (signal == SIGFPE) {
        report(&launch, cudaErrorLaunchFailure,
               "integer division by zero (or overflow) in kernel %s, %s", kernel_name(launch), who);
    } else if (signal == SIGILL) {
        report(&launch, cudaErrorIllegalInstruction, "illegal instruction in kernel %s, %s",
               kernel_name(launch), who);
    } else if (on_thread_stack(info->si_addr)) {
        report(&launch, cudaErrorLaunchFailure,
               "stack overflow in kernel %s, %s: too much local memory or recursion",
               kernel_name(launch), who);
    } else {
        describe_address(info->si_addr, where, sizeof where);
        report(&launch, cudaErrorIllegalAddress, "illegal address %s, in kernel %s, %s", where,
               kernel_name(launch), who);
    }
    failing = false;
    abandon_block();
}

static void explain_host_fault(const void *address)
{
    if (!in_device_arena(address))
        return;
    char where[200], line[400];
    describe_address(address, where, sizeof where);
    const Allocation *allocation = find_allocation(address);
    bool inside = allocation && !allocation->freed &&
                  static_cast<const char *>(address) < allocation->begin + allocation->bytes;
    int length;
    if (inside)
        length = snprintf(
            line, sizeof line,
            "simt: host code touched %p, which is device memory (byte %zu of allocation %llu, %zu "
            "bytes); "
            "use cudaMemcpy\n",
            address, static_cast<size_t>(static_cast<const char *>(address) - allocation->begin),
            allocation->number, allocation->bytes);
    else
        length = snprintf(line, sizeof line, "simt: host code touched %s\n", where);
    if (write(STDERR_FILENO, line, static_cast<size_t>(length)) < 0)
        return; /* nothing more can be done */
}

static void handle(int signal, siginfo_t *info, void *)
{
    if (current_thread() && !failing) {
        failing = true;
        fail_kernel(signal, info);
    }
    explain_host_fault(info->si_addr);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (signals[i] == signal)
            sigaction(signal, &previous[i], nullptr);
    /* Returning runs the faulting instruction again, and this time the fault is the previous
     * handler's. */
}

void catch_faults()
{
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction action = {};
        action.sa_sigaction = handle;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
            sigaction(signals[i], &action, &previous[i]);
    });
}

void catch_faults_on_this_thread()
{
    constexpr size_t bytes = 64 << 10;
    stack_t stack = {};
    /* for as long as the worker lives, which is as long as the process */
    stack.ss_sp = malloc(bytes);
    stack.ss_size = bytes;
    if (stack.ss_sp)
        sigaltstack(&stack, nullptr);
}

} /* namespace simt */

using namespace simt;

/* What assert() calls, in place of the C library's. */
extern "C" void __assert_fail(const char *assertion, const char *file, unsigned int line,
                              const char *function) noexcept
{
    Thread *thread = current_thread();
    if (!thread) {
        fprintf(stderr, "%s:%u: %s: Assertion `%s' failed.\n", file, line, function, assertion);
        abort();
    }
    char who[100];
    describe_thread(*thread, who, sizeof who);
    fprintf(stderr, "%s:%u: %s: %s: Assertion `%s' failed.\n", file, line, function, who,
            assertion);
    report(worker->block->launch, cudaErrorAssert, "%s:%u: assertion `%s' failed in kernel %s, %s",
           file, line, assertion, kernel_name(*worker->block->launch), who);
    abandon_block();
}
