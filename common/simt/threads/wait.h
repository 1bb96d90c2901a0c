/* Waiting for a condition. */
#pragma once

#include "run/state.h"

namespace simt
{

/* simt_wait(), for a `call` that can say more than its name. Nothing of it is copied. */
void wait_for(simt_condition *condition, void *argument, const Call &call,
              Wait kind = Wait::condition);

} /* namespace simt */
