#include "instructions/asynchronous.h"
#include <ptx.cuh>
#include <simt/atomics.h>

using namespace simt;

void ptx::red_add_4(float *global, float4 value, Site site)
{
    const Call call("red.v4.f32", site);
    if (reinterpret_cast<uintptr_t>(global) % sizeof value)
        fail_at(call, "the global address %p is not a multiple of 16", static_cast<void *>(global));
    const float addends[4] = {value.x, value.y, value.z, value.w};
    simt_atomic_add_floats(global, addends, 4, call.where);
}
