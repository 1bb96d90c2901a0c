/* The OS threads that run blocks. */
#pragma once

#include "run/state.h"

namespace simt
{

/*
 * Runs the blocks of the launch before launch.stop_at. Begins with `workers` OS threads (a
 * cooperative launch: one for each block). When no block ends for a while, though some have not
 * begun, it adds more, up to `resident`: running blocks may be waiting for the ones that have not
 * begun.
 */
cudaError_t run_on_workers(Launch &launch, unsigned workers, unsigned long long resident);

/* grid.sync() at `site`, once per block and barrier: the block's OS thread waits for the others'.
 */
void wait_for_grid(Block &block, Site site);

} /* namespace simt */
