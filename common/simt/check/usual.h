/*
 * What most accesses of a kernel need, inline: a plain read, by an instruction that was in the same
 * memory before, of words that others have read like this since they were last written. It is
 * counted, and there is nothing else to be noted. All others go through on_access.
 */
#ifndef SIMT_CHECK_USUAL_H
#define SIMT_CHECK_USUAL_H

#include "check/check.h"

namespace simt
{
namespace check
{

/* Whether another read of these words has nothing to add to their cells. */
template <unsigned bytes>
inline bool are_quiet(const uint8_t *word, Space space, const ThreadState *thread)
{
    uint8_t one = thread->block->quiet, other = thread->warp->quiet;
    if (space == global_space)
        one = other = __atomic_load_n(&thread->block->launch->quiet, __ATOMIC_RELAXED);
    bool all = true;
    for (unsigned i = 0; i < bytes / 4; i++) {
        const uint8_t when = __atomic_load_n(&word[i], __ATOMIC_RELAXED);
        all &= when == one || when == other;
    }
    return all;
}

/* False, and nothing is done, when the access needs a closer look. */
template <unsigned bytes>
inline bool usual_read(const void *pointer, const void *where)
{
    if (bytes < 4 || !worker || !worker->thread)
        return false;
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    ThreadState *thread = worker->thread->checked;
    const WarpState *warp = thread->warp;
    Instruction *instruction = warp->recent[recent_slot(where)];
    if (!instruction || instruction->where != where || instruction->round != warp->round)
        return false;
    const Reach &reach = *instruction->place.reach;
    if (address < reach.begin || address + bytes > reach.end || address % bytes ||
        thread->look_at || !thread->block->overwrites.empty())
        return false;
    if (!are_quiet<bytes>(reinterpret_cast<const uint8_t *>(reach.quiet + address / 4),
                          instruction->place.space, thread))
        return false;
    thread->touched = true;
    thread->polled = nullptr;
    add_execution(*instruction, thread->lane, address);
    return true;
}

} /* namespace check */
} /* namespace simt */

#endif
