/* Reductions over tiles and coalesced groups. */
#pragma once

#include <cooperative_groups.h>

namespace cooperative_groups
{

#define SIMT_OPERATOR(name, expression)                                                            \
    template <class T = void> struct name {                                                        \
        T operator()(T a, T b) const { return expression; }                                        \
    };

/* clang-format off */
SIMT_OPERATOR(plus, a + b)
SIMT_OPERATOR(less, b < a ? b : a)
SIMT_OPERATOR(greater, a < b ? b : a)
SIMT_OPERATOR(bit_and, a & b)
SIMT_OPERATOR(bit_or, a | b)
SIMT_OPERATOR(bit_xor, a ^ b)
/* clang-format on */
#undef SIMT_OPERATOR

/* Every member gets the result. */
template <class Group, class T, class Operator>
T reduce(const Group &group, T value, Operator combine)
{
    T result = group.shfl(value, 0);
    for (unsigned rank = 1; rank < group.size(); rank++)
        result = combine(result, group.shfl(value, rank));
    return result;
}

} /* namespace cooperative_groups */
