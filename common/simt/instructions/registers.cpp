/* setmaxnreg moves registers between the warps of a block, whose pool is 65536, shared equally, in
 * steps of 8 per thread. A warp that asks for more waits until others have given enough back. */
#include "instructions/asynchronous.h"
#include <ptx.cuh>

using namespace simt;

static const unsigned register_file = 65536;

static unsigned at_launch(const Block &block)
{
    unsigned registers = register_file / (block.warps * warp_size) / 8 * 8;
    return registers < 248 ? registers : 248;
}

void ptx::move_registers(unsigned per_thread, bool increase, Site site)
{
    const Call call(increase ? "registers_increase()" : "registers_decrease()", site);
    BlockWork &work = block_work();
    Thread &thread = *current_thread;
    const Block &block = *thread.warp->block;
    come_together(whole_warp, call);
    if (thread.lane == 0) { /* once for the warp */
        unsigned &own = work.registers[thread.warp->number];
        if (own == 0)
            own = at_launch(block);
        if (block.threads % 128)
            fail_at(call, "the block has %u threads; it must consist of warpgroups of 128",
                    block.threads);
        const int more = int(per_thread - own) * int(warp_size); /* negative: given back */
        if (increase ? more < 0 : more > 0)
            fail_at(call,
                    "to %u registers per thread from %u, of which this block of %u threads began "
                    "with %u",
                    per_thread, own, block.threads, at_launch(block));
        wait_until(
            [&] { return work.free_registers >= more; }, site,
            [] { return "registers_increase(), for registers that no warpgroup gives back"; });
        work.free_registers -= more;
        own = per_thread;
    }
    come_together(whole_warp, call);
}
