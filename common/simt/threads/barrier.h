/* What barriers share with the reports about them. */
#ifndef SIMT_BARRIER_H
#define SIMT_BARRIER_H

#include "run/internal.h"

namespace simt
{

/* How a thread came to a barrier: Fiber::flavour. The first ones are simt_syncthreads_reduce's. */
enum Flavour : unsigned char { flavour_count, flavour_and, flavour_or, flavour_plain, flavour_named };

/* "__syncthreads()" */
const char *flavour_name(unsigned char flavour);

bool same_site(const Site &a, const Site &b);

/* Says who came to which barrier and who did not, fails the launch and gives the block up. */
[[noreturn]] void report_divergent_barrier(Block &block);

} /* namespace simt */

#endif
