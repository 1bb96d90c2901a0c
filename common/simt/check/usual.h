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

template <unsigned bytes, Kind kind>
__attribute__((always_inline)) inline void on_plain(const void *pointer, const void *where)
{
    const uintptr_t address = number_of(pointer);
    const Worker *own = worker;
    if (!own || !own->thread)
        return on_access(pointer, bytes, kind, where);
    ThreadState *thread = own->thread->checked;
    Instruction *instruction = own->checked->recent[recent_slot(where)];
    if (instruction->where != where || instruction->warp != thread->usual)
        return on_access(pointer, bytes, kind, where);
    /* Narrower ones lie as their types do, or another check has seen it. */
    const bool aligned = bytes < 16 || address % bytes == 0;
    const Reach &reach = *instruction->reach;
    if (address < reach.begin || address + bytes > reach.end || !aligned)
        return on_access(pointer, bytes, kind, where);
    bool quiet = kind == plain_read && bytes >= 4;
    for (unsigned i = 0; quiet && i < bytes / 4; i++) {
        const uint8_t when =
            __atomic_load_n(reinterpret_cast<const uint8_t *>(instruction->words + address / 4) + i,
                            __ATOMIC_RELAXED);
        quiet = when == instruction->quiet[0] || when == instruction->quiet[1];
    }
    if (quiet)
        add_execution(*instruction, thread->lane, address);
    else
        on_known_access(thread, *instruction, address, bytes, kind);
}

} /* namespace simt::check */
