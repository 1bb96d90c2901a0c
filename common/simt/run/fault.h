/* Faults in kernels (bad addresses, integer division by zero, failed asserts) end the launch, not
 * the process. */
#pragma once

namespace simt
{

/* Once per process (again after a fork that lost them). */
void catch_faults_of_kernels();

/* Once per worker: a signal stack, since the fault may be that the thread's own stack is full. */
void catch_faults_on_this_thread();

} /* namespace simt */
