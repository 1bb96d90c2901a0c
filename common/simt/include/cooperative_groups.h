/* These are cooperative groups: blocks, grids, tiles of a warp, and the lanes that happen to be
 * together. There are no groups larger than a warp and smaller than a block, and no clusters. */
#pragma once

#include <cuda_runtime.h>

namespace cooperative_groups
{

class SIMT_UNSUPPORTED("clusters in cooperative groups (ptx.cuh has functions for them)")
    cluster_group;
SIMT_UNSUPPORTED("clusters in cooperative groups (ptx.cuh has functions for them)")
void this_cluster(...);

/* ---- some lanes of a warp, by mask: what tiles and coalesced groups have in common ---- */

namespace details
{

class lanes
{
  public:
    explicit lanes(unsigned mask) : mask_(mask) {}

    unsigned thread_rank() const { return unsigned(__popc(mask_ & ((1u << simt_lane()) - 1))); }
    unsigned size() const { return unsigned(__popc(mask_)); }
    unsigned num_threads() const { return size(); }
    void sync(SIMT_CALL_SITE) const { simt_syncwarp(mask_, site); }
    int any(int predicate, SIMT_CALL_SITE) const { return __any_sync(mask_, predicate, site); }
    int all(int predicate, SIMT_CALL_SITE) const { return __all_sync(mask_, predicate, site); }

    /* clang-format off */
    /* Bit i stands for the thread of rank i. */
    unsigned ballot(int predicate, SIMT_CALL_SITE) const { return packed(__ballot_sync(mask_, predicate, site)); }
    template <class T> unsigned match_any(T value, SIMT_CALL_SITE) const { return packed(__match_any_sync(mask_, value, site)); }
    template <class T> unsigned match_all(T value, int &all_agree, SIMT_CALL_SITE) const { return packed(__match_all_sync(mask_, value, &all_agree, site)); }
    /* clang-format on */

    /* Returns the value of the member whose rank is `from`. */
#define SIMT_SHUFFLE(name, operand, from)                                                          \
    template <class T> T name(T value, unsigned operand, SIMT_CALL_SITE) const                     \
    {                                                                                              \
        [[maybe_unused]] const unsigned rank = thread_rank();                                      \
        return from_lane(value, lane_of(from), site);                                              \
    }
    SIMT_SHUFFLE(shfl, other, other % size())
    SIMT_SHUFFLE(shfl_up, delta, delta <= rank ? rank - delta : rank)
    SIMT_SHUFFLE(shfl_down, delta, delta < size() - rank ? rank + delta : rank)
    SIMT_SHUFFLE(shfl_xor, ranks, (rank ^ ranks) < size() ? rank ^ ranks : rank)
#undef SIMT_SHUFFLE

    unsigned mask() const { return mask_; }

  private:
    /* Returns what `lane` gives, of any size: a shuffle moves 8 bytes. */
    template <class T> T from_lane(T value, int lane, simt::Site site) const
    {
        uint64_t words[(sizeof(T) + 7) / 8] = {};
        __builtin_memcpy(words, &value, sizeof value);
        for (uint64_t &word : words)
            word = __shfl_sync(mask_, word, lane, 32, site);
        __builtin_memcpy(&value, words, sizeof value);
        return value;
    }

    int lane_of(unsigned rank) const
    {
        unsigned rest = mask_;
        while (rank-- > 0)
            rest &= rest - 1;
        return __ffs(int(rest)) - 1;
    }

    unsigned packed(unsigned by_lane) const
    {
        unsigned by_rank = 0, rank = 0;
        for (unsigned rest = mask_; rest; rest &= rest - 1, rank++)
            by_rank |= (by_lane >> (__ffs(int(rest)) - 1) & 1) << rank;
        return by_rank;
    }

    unsigned mask_;
};

/* Returns the mask of the calling thread's aligned piece of `size` lanes. */
inline unsigned tile_mask(unsigned size)
{
    return (size == 32 ? ~0u : (1u << size) - 1) << (simt_lane() & ~(size - 1));
}

} /* namespace details */

struct thread_block {
    void sync(SIMT_CALL_SITE) const { simt_syncthreads(site); }
    static unsigned thread_rank() { return simt_thread_number(); }
    static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    static unsigned num_threads() { return size(); }
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
};

inline thread_block this_thread_block() { return thread_block(); }

/* Tiles of more than a warp would need this. */
template <unsigned... Sizes> struct block_tile_memory {
    char unused;
};

template <unsigned... Of> thread_block this_thread_block(block_tile_memory<Of...> &) { return {}; }

struct grid_group {
    bool is_valid() const { return simt_is_cooperative(); }
    void sync(SIMT_CALL_SITE) const { simt_grid_sync(site); }

    /* clang-format off */
    static unsigned long long block_rank() { return blockIdx.x + 1ull * gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); }
    static unsigned long long num_blocks() { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long thread_rank() { return block_rank() * thread_block::size() + thread_block::thread_rank(); }
    static unsigned long long size() { return num_blocks() * thread_block::size(); }
    static unsigned long long num_threads() { return size(); }
    /* clang-format on */
    static dim3 block_index() { return blockIdx; }
    static dim3 dim_blocks() { return gridDim; }
    static dim3 group_dim() { return gridDim; }
};

inline grid_group this_grid() { return grid_group(); }

/* ---- tiles: aligned pieces of 1, 2, 4, 8, 16 or 32 lanes ---- */

template <unsigned Size, class Parent = void> class thread_block_tile : public details::lanes
{
    static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0,
                  "the CPU backend (simt) has tiles of 1, 2, 4, 8, 16 and 32 threads");

  public:
    explicit thread_block_tile(unsigned parent_size)
        : lanes(details::tile_mask(Size)), tiles((parent_size + Size - 1) / Size)
    {
    }

    /* thread_block_tile<8> stands for a tile of any parent. */
    template <class Other> thread_block_tile(const thread_block_tile<Size, Other> &tile)
        : lanes(tile), tiles(tile.meta_group_size())
    {
    }

    static unsigned thread_rank() { return simt_lane() % Size; }
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }

    /* These return which of the parent's tiles this is, and how many there are. */
    unsigned meta_group_rank() const { return simt_thread_number() / Size % tiles; }
    unsigned meta_group_size() const { return tiles; }

  private:
    unsigned tiles;
};

template <unsigned Size> auto tiled_partition(const thread_block &block)
{
    return thread_block_tile<Size, thread_block>(block.size());
}

template <unsigned Size, unsigned ParentSize, class Parent>
auto tiled_partition(const thread_block_tile<ParentSize, Parent> &)
{
    static_assert(Size <= ParentSize, "a tile cannot be larger than what it is a tile of");
    return thread_block_tile<Size, thread_block_tile<ParentSize, Parent>>(ParentSize);
}

/* ---- the lanes that came here together ---- */

struct coalesced_group : details::lanes {
    using lanes::lanes;
};

inline coalesced_group coalesced_threads(SIMT_CALL_SITE)
{
    return coalesced_group(simt_activemask(site));
}

/* The members with the same label form a group. */
template <class T>
coalesced_group labeled_partition(const details::lanes &group, T label, SIMT_CALL_SITE)
{
    return coalesced_group(__match_any_sync(group.mask(), label, site));
}

inline coalesced_group binary_partition(const details::lanes &group, bool predicate, SIMT_CALL_SITE)
{
    unsigned yes = __ballot_sync(group.mask(), predicate, site);
    return coalesced_group(predicate ? yes : group.mask() & ~yes);
}

/* ---- any of these, when the kind is not known before the program runs ---- */

class thread_group
{
  public:
    thread_group(const thread_block &) : whole_block(true), group(0) {}
    thread_group(const details::lanes &lanes) : whole_block(false), group(lanes) {}

    /* clang-format off */
    void sync(SIMT_CALL_SITE) const { whole_block ? simt_syncthreads(site) : group.sync(site); }
    unsigned size() const { return whole_block ? thread_block::size() : group.size(); }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const { return whole_block ? thread_block::thread_rank() : group.thread_rank(); }
    /* clang-format on */

  private:
    bool whole_block;
    details::lanes group;
};

inline thread_group tiled_partition(const thread_group &, unsigned size)
{
    return thread_group(details::lanes(details::tile_mask(size)));
}

/* clang-format off */
template <class Group> void sync(const Group &group, SIMT_CALL_SITE) { group.sync(site); }

/* ---- copies by a whole group: done at once; wait() is the barrier that programs need ---- */

template <class Group, class T> void memcpy_async(const Group &group, T *to, const T *from, size_t bytes) { simt::copy_together(group, to, from, bytes); }
template <class Group> void wait(const Group &group, SIMT_CALL_SITE) { group.sync(site); }
/* clang-format on */

} /* namespace cooperative_groups */
