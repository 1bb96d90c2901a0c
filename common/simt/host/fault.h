/* Signals that bad addresses and bad arithmetic raise. */
#pragma once

#include <csignal>
#include <string>

namespace simt
{

/* Is asked first. Does not return when the fault is a kernel's. */
typedef void fault_handler(int signal, const siginfo_t *info);

/* From now on device pointers that host code follows are explained, and, with a handler, kernels'
 * faults handled. */
void catch_faults(fault_handler *in_kernels);

/* "0x..., 12 bytes past the end of allocation 3 (400 bytes)", or what else is known about an
 * address. */
std::string describe_address(const void *address);

} /* namespace simt */
