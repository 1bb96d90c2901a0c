/* What warp operations share with the reports about them. */
#ifndef SIMT_SRC_WARP_H
#define SIMT_SRC_WARP_H

#include "run/internal.h"

namespace simt
{

/* Says which lanes wait where, which are missing and why, fails the launch and gives the block
 * up. */
[[noreturn]] void report_incomplete_meeting(const Warp &warp);

} /* namespace simt */

#endif
