/* Warp shuffles, votes, matches and reductions are each one simt_meet: see simt/warp.h. */
#pragma once

#include <simt/keywords.h>
#include <simt/warp.h>

extern "C" {
/* Values travel as 8 bytes; `form` is kind + 4 * width: everything fits in six registers. */
enum simt_shuffle_kind { simt_shuffle_index, simt_shuffle_up, simt_shuffle_down, simt_shuffle_xor };
uint64_t simt_shuffle(unsigned mask, uint64_t value, unsigned operand, unsigned form,
                      simt::Site site);

enum simt_vote_kind { simt_vote_all, simt_vote_any, simt_vote_uni, simt_vote_ballot };
unsigned simt_vote(unsigned mask, int predicate, int how, simt::Site site);

unsigned simt_match(unsigned mask, uint64_t value, int *all_agree, simt::Site site);

unsigned simt_reduce(unsigned mask, unsigned value, int how, simt::Site site);

void simt_syncwarp(unsigned mask, simt::Site site);
unsigned simt_activemask(simt::Site site);
}

namespace simt
{

/* Returns a value's bits, and back. `value` is any value, for a type without a default. */
template <class T> inline uint64_t to_word(T value)
{
    static_assert(sizeof(T) <= 8, "a shuffle moves values of at most 8 bytes");
    uint64_t word = 0;
    __builtin_memcpy(static_cast<void *>(&word), static_cast<const void *>(&value), sizeof value);
    return word;
}

template <class T> inline T from_word(uint64_t word, T value)
{
    __builtin_memcpy(static_cast<void *>(&value), static_cast<const void *>(&word), sizeof value);
    return value;
}

} /* namespace simt */

#define SIMT_SHUFFLE(name, how, Operand)                                                           \
    template <class T> SIMT_INLINE(                                                                \
        T, name, (unsigned mask, T value, Operand operand, int width = 32, SIMT_CALL_SITE),        \
        simt::from_word(simt_shuffle(mask, simt::to_word(value), unsigned(operand),                \
                                     how | unsigned(width) << 2, site),                            \
                        value))
#define SIMT_VOTE(R, name, how)                                                                    \
    SIMT_INLINE(R, name, (unsigned mask, int predicate, SIMT_CALL_SITE),                           \
                simt_vote(mask, predicate, how, site))
#define SIMT_REDUCE(T, name, how)                                                                  \
    SIMT_INLINE(T, name, (unsigned mask, T value, SIMT_CALL_SITE),                                 \
                T(simt_reduce(mask, unsigned(value), how, site)))
/* clang-format off */
SIMT_SHUFFLE(__shfl_sync, simt_shuffle_index, int)
SIMT_SHUFFLE(__shfl_up_sync, simt_shuffle_up, unsigned)
SIMT_SHUFFLE(__shfl_down_sync, simt_shuffle_down, unsigned)
SIMT_SHUFFLE(__shfl_xor_sync, simt_shuffle_xor, int)
SIMT_VOTE(int, __all_sync, simt_vote_all)
SIMT_VOTE(int, __any_sync, simt_vote_any)
SIMT_VOTE(int, __uni_sync, simt_vote_uni)
SIMT_VOTE(unsigned, __ballot_sync, simt_vote_ballot)
SIMT_REDUCE(unsigned, __reduce_add_sync, simt_add) SIMT_REDUCE(int, __reduce_add_sync, simt_add)
SIMT_REDUCE(unsigned, __reduce_min_sync, simt_min) SIMT_REDUCE(int, __reduce_min_sync, simt_min_signed)
SIMT_REDUCE(unsigned, __reduce_max_sync, simt_max) SIMT_REDUCE(int, __reduce_max_sync, simt_max_signed)
SIMT_REDUCE(unsigned, __reduce_and_sync, simt_and)
SIMT_REDUCE(unsigned, __reduce_or_sync, simt_or)
SIMT_REDUCE(unsigned, __reduce_xor_sync, simt_xor)
template <class T> SIMT_INLINE(unsigned, __match_any_sync, (unsigned mask, T value, SIMT_CALL_SITE), simt_match(mask, simt::to_word(value), nullptr, site))
template <class T> unsigned __match_all_sync(unsigned mask, T value, int *all_agree, SIMT_CALL_SITE) { int all; const unsigned same = simt_match(mask, simt::to_word(value), &all, site); *all_agree = all; return same; }
SIMT_INLINE(void, __syncwarp, (unsigned mask = 0xffffffffu, SIMT_CALL_SITE), simt_syncwarp(mask, site))
SIMT_INLINE(unsigned, __activemask, (SIMT_CALL_SITE), simt_activemask(site))
/* clang-format on */
#undef SIMT_SHUFFLE
#undef SIMT_VOTE
#undef SIMT_REDUCE
