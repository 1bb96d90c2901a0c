/* This is what atomics and reductions compute. */
#pragma once

#include <simt/math.h>
#include <simt/warp.h>

namespace simt
{

/* Returns the new value of a simt_operation that gives one, for a value of 2, 4 or 8 bytes. */
template <class Word> inline Word combined(Word old, int operation, Word value)
{
    typedef std::make_signed_t<Word> Signed;
    switch (operation) {
    case simt_add:
        return old + value;
    case simt_and:
        return old & value;
    case simt_or:
        return old | value;
    case simt_xor:
        return old ^ value;
    case simt_min_signed:
        return Signed(value) < Signed(old) ? value : old;
    case simt_max_signed:
        return Signed(value) > Signed(old) ? value : old;
    case simt_min:
        return value < old ? value : old;
    case simt_max:
        return value > old ? value : old;
    case simt_increment:
        return old >= value ? Word(0) : Word(old + 1);
    case simt_decrement:
        return old == 0 || old > value ? value : Word(old - 1);
    case simt_add_float: {
        typedef std::conditional_t<sizeof(Word) == 8, double, float> Float;
        if constexpr (sizeof(Word) == sizeof(Float))
            return same_bits<Word>(same_bits<Float>(old) + same_bits<Float>(value));
        return old;
    }
    default: /* simt_exchange */
        return value;
    }
}

} /* namespace simt */
