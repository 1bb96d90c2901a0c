/* Prefix sums, and the like, over tiles and coalesced groups. */
#pragma once

#include <cooperative_groups/reduce.h>

namespace cooperative_groups
{

template <class Group, class T, class Operator = plus<T>>
T inclusive_scan(const Group &group, T value, Operator combine = {})
{
    const unsigned rank = group.thread_rank();
    for (unsigned delta = 1; delta < group.size(); delta *= 2) {
        T before = group.shfl_up(value, delta);
        if (rank >= delta)
            value = combine(before, value);
    }
    return value;
}

/* The first member gets T(). */
template <class Group, class T, class Operator = plus<T>>
T exclusive_scan(const Group &group, T value, Operator combine = {})
{
    T before = group.shfl_up(inclusive_scan(group, value, combine), 1);
    return group.thread_rank() == 0 ? T() : before;
}

} /* namespace cooperative_groups */
