/* Waiting for a condition. */
#pragma once

#include "run/state.h"

namespace simt
{

/* The calling thread waits until holds() is true. Other threads of its block run meanwhile, and may
 * call holds(), which only looks. The report of a wait in vain says name(). */
void wait_until(Borrowed<bool> holds, Site site, Borrowed<std::string> name,
                Wait kind = Wait::condition);

} /* namespace simt */
