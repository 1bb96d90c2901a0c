/*
 * What most accesses of a kernel need, inline: a plain read, by an instruction that was in the same
 * memory before, of words that others have read like this since they were last written. It is
 * counted, and there is nothing else to be noted. Other plain accesses of such an instruction have
 * their shadow looked at, too; all others go through on_access.
 */
#pragma once

#include "check/check.h"

namespace simt::check
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

/* The instruction of a plain access, if there is nothing else to be looked at than the shadow; or
 * null. */
template <unsigned bytes>
inline Instruction *known_instruction(uintptr_t address, const void *where)
{
    if (!worker || !worker->thread)
        return nullptr;
    const ThreadState *thread = worker->thread->checked;
    const WarpState *warp = thread->warp;
    Instruction *instruction = warp->recent[recent_slot(where)];
    if (!instruction || instruction->where != where || instruction->round != warp->round)
        return nullptr;
    const Reach &reach = *instruction->place.reach;
    if (address < reach.begin || address + bytes > reach.end || address % bytes ||
        thread->look_at || !thread->block->overwrites.empty())
        return nullptr;
    return instruction;
}

template <unsigned bytes>
inline void on_plain_read(const void *pointer, const void *where)
{
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    Instruction *instruction = known_instruction<bytes>(address, where);
    if (!instruction)
        return on_access(pointer, bytes, plain_read, where);
    ThreadState *thread = worker->thread->checked;
    const Place &place = instruction->place;
    if (bytes >= 4 &&
        are_quiet<bytes>(reinterpret_cast<const uint8_t *>(place.reach->quiet + address / 4),
                         place.space, thread)) {
        thread->touched = true;
        thread->polled = nullptr;
        return add_execution(*instruction, thread->lane, address);
    }
    if (!on_known_access(thread, *instruction, address, bytes, plain_read))
        on_access(pointer, bytes, plain_read, where);
}

template <unsigned bytes>
inline void on_plain_write(const void *pointer, const void *where)
{
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    Instruction *instruction = known_instruction<bytes>(address, where);
    if (!instruction ||
        !on_known_access(worker->thread->checked, *instruction, address, bytes, plain_write))
        on_access(pointer, bytes, plain_write, where);
}

} /* namespace simt::check */
