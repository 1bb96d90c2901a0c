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

/* ---- counting: the rest is in count.cpp ---- */

/* The warp's first execution since it last came together. */
Instruction &first_in_round(WarpState *warp, const Place &place);
void make_room(Instruction &instruction);

/* The lane's next execution of the instruction at `place`. */
inline Instruction &count_in_warp(ThreadState *thread, const Place &place, uintptr_t address)
{
    WarpState *warp = thread->warp;
    Instruction &instruction = place.local < warp->instructions.size() &&
                                       warp->instructions[place.local].round == warp->round
                                   ? warp->instructions[place.local]
                                   : first_in_round(warp, place);
    uint32_t &times = instruction.times[thread->lane];
    if (times == instruction.room)
        make_room(instruction);
    instruction.address[thread->lane * size_t{instruction.room} + times++] = address;
    return instruction;
}

/* ---- one access ---- */

/* Whether a read of the words at `quiet`, in Shadow::quiet, has nothing to add to their cells. */
template <unsigned bytes>
inline bool all_quiet(const uint32_t *quiet, Space space, const ThreadState *thread)
{
    uint32_t one = thread->block->quiet, other = thread->warp->quiet;
    if (space == global_space)
        one = other = thread->block->launch->quiet.load(std::memory_order_relaxed);
    bool all = true;
    for (unsigned word = 0; word < bytes / 4; word++) {
        const uint32_t when = __atomic_load_n(&quiet[word], __ATOMIC_RELAXED);
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
    BlockState *block = thread->block;
    const Place &place = recent_place(block, where);
    if ((place.key | 1) != (place_key(where, global_space, false, bytes) | 1) || !place.reach)
        return false;
    const Reach &reach = *place.reach;
    if (address < reach.begin || address + bytes > reach.end || address & (bytes - 1) ||
        thread->look_at || !block->overwrites.empty())
        return false;
    const uint32_t *quiet = &reach.shadow->quiet[(address - reach.shadow->base) / 4];
    if (!all_quiet<bytes>(quiet, reach.space, thread))
        return false;
    count_in_warp(thread, place, address);
    thread->touched = true;
    thread->polled = nullptr;
    return true;
}

} /* namespace check */
} /* namespace simt */

#endif
