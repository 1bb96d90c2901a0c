/* Waiting for a condition. */
#ifndef SIMT_WAIT_H
#define SIMT_WAIT_H

#include "run/state.h"

namespace simt
{

/* simt_wait(), for a `call` that can say more than its name. Nothing of it is copied. */
void wait_for(simt_condition *condition, void *argument, const Call &call,
              Wait kind = Wait::condition);

} /* namespace simt */

#endif
