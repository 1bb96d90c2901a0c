/* Conditions, work that waits until nothing else can go on, and memory that lives as long as a
 * block. */
#ifndef SIMT_WAIT_H
#define SIMT_WAIT_H

namespace simt
{

/* Carries out one piece of the block's outstanding asynchronous work; false when there is none. */
bool run_idle_work();

/* All threads have returned: what simt_at_end asked for. */
void run_final_work();

/* The block has ended: forgets its idle work and frees its storage. */
void clear_storage();

} /* namespace simt */

#endif
