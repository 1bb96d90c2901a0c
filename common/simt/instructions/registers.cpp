/*
 * setmaxnreg: registers that move between the warps of a block. The block's pool is what a launch
 * can get at most: 65536 registers, shared equally, in steps of 8 per thread. Who asks for more
 * waits until somebody has given enough back.
 */
#include "instructions/asynchronous.h"
#include "run/engine.h"
#include <ptx.cuh>

namespace simt
{

static const unsigned register_file = 65536;

static unsigned at_launch(const Block &block)
{
    unsigned registers = register_file / (block.warps * warp_size) / 8 * 8;
    return registers < 248 ? registers : 248;
}

struct Request {
    BlockWork *work;
    unsigned registers;
};

static int are_free(void *argument)
{
    const Request &request = *static_cast<const Request *>(argument);
    return request.work->free_registers >= request.registers;
}

static void nothing(void *const *, unsigned) {}

} /* namespace simt */

using namespace simt;

void ptx::move_registers(unsigned per_thread, bool increase, Site site)
{
    const char *what = increase ? "registers_increase()" : "registers_decrease()";
    BlockWork &work = block_work();
    Thread &thread = *worker->thread;
    const Block &block = *thread.warp->block;
    simt_meet(~0u, nullptr, nothing, what, 0, site);
    if (thread.lane == 0) { /* for the warp */
        unsigned &own = work.registers[thread.warp->number];
        if (own == 0)
            own = at_launch(block);
        if (block.threads % 128)
            fail_at(site, what, "the block has %u threads; it must consist of warpgroups of 128",
                    block.threads);
        if (increase ? per_thread < own : per_thread > own)
            fail_at(site, what,
                    "to %u registers per thread from %u, of which this block of %u threads began "
                    "with %u",
                    per_thread, own, block.threads, at_launch(block));
        if (increase) {
            Request request = {&work, (per_thread - own) * warp_size};
            simt_wait(are_free, &request,
                      "registers_increase(), for registers that no warpgroup gives back", site);
            work.free_registers -= request.registers;
        } else {
            work.free_registers += (own - per_thread) * warp_size;
        }
        own = per_thread;
    }
    simt_meet(~0u, nullptr, nothing, what, 0, site);
}
