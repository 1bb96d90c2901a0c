/* Faults in kernels: bad addresses, integer division by zero, failed asserts. A worker that faults
 * leaves the handler by switching to its own stack, as abandon_block does anywhere else. */
#include "run/engine.h"
#include "host/memory.h"
#include "host/errors.h"

using namespace simt;

static __thread bool failing; /* a fault while a fault is being reported is the runtime's own */

static void fail_kernel(int signal, const siginfo_t *info)
{
    if (!current_thread || failing)
        return; /* a fault of host code */
    failing = true;
    Launch &launch = *worker->block->launch;
    const bool divided = signal == SIGFPE, instruction = signal == SIGILL;
    const bool overflow = !divided && !instruction && on_thread_stack(info->si_addr);
    report(launch,
           instruction           ? cudaErrorIllegalInstruction
           : divided || overflow ? cudaErrorLaunchFailure
                                 : cudaErrorIllegalAddress,
           "%s in kernel %s, %s%s",
           divided       ? "integer division by zero (or overflow)"
           : instruction ? "illegal instruction"
           : overflow
               ? "stack overflow"
               : format("illegal address %s,", describe_address(info->si_addr).c_str()).c_str(),
           kernel_name(launch), describe(self()).c_str(),
           overflow ? ": too much local memory or recursion" : "");
    failing = false;
    abandon_block();
}

void simt::catch_faults_of_kernels() { catch_faults(fail_kernel); }

void simt::catch_faults_on_this_thread()
{
    constexpr size_t bytes = 64 << 10;
    stack_t stack = {};
    /* for as long as the worker lives, which is as long as the process */
    stack.ss_sp = malloc(bytes);
    stack.ss_size = bytes;
    if (stack.ss_sp)
        sigaltstack(&stack, nullptr);
}

/* What assert() calls, in place of the C library's. */
extern "C" void __assert_fail(const char *assertion, const char *file, unsigned int line,
                              const char *function) noexcept
{
    Thread *thread = current_thread;
    if (!thread) {
        fprintf(stderr, "%s:%u: %s: Assertion `%s' failed.\n", file, line, function, assertion);
        abort();
    }
    const std::string who = describe(*thread);
    fprintf(stderr, "%s:%u: %s: %s: Assertion `%s' failed.\n", file, line, function, who.c_str(),
            assertion);
    report(*worker->block->launch, cudaErrorAssert, "%s:%u: assertion `%s' failed in kernel %s, %s",
           file, line, assertion, kernel_name(*worker->block->launch), who.c_str());
    abandon_block();
}
