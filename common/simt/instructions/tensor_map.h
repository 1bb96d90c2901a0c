/* The 128 bytes of a CUtensorMap hold this here, which also says how a box lies in memory. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda.h>

namespace simt
{

constexpr unsigned max_tensor_rank = 5;
constexpr uint32_t tensor_map_mark = 0x70616d74;

struct TensorMap {
    uint32_t mark;
    unsigned char type, rank, element_bytes;
    unsigned char swizzle_span; /* in bytes: 16-byte chunks are exchanged within it; 0: none */
    bool fill_with_nan;         /* what lies outside becomes NaN, not zero */
    char *address;
    uint16_t box[max_tensor_rank];
    uint32_t last[max_tensor_rank];       /* sizes - 1: a size may be 2^32 */
    uint64_t stride[max_tensor_rank - 1]; /* bytes, from dimension 1 on */
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap), "a map is 128 bytes");

inline size_t box_row_bytes(const TensorMap &map) { return size_t(map.box[0]) * map.element_bytes; }

inline size_t box_rows(const TensorMap &map)
{
    size_t rows = 1;
    for (unsigned i = 1; i < map.rank; i++)
        rows *= map.box[i];
    return rows;
}

/* A swizzle repeats after eight spans, and what is swizzled begins at a multiple of that. */
inline size_t swizzle_period(size_t span) { return 8 * span; }

/* Returns where the swizzle puts the byte at `offset` from a multiple of its period: the 16-byte
 * chunk's number (bits 4 on) is combined with bits 7 on, as many as there are chunks in a span. */
inline size_t swizzled(size_t offset, size_t span)
{
    return span == 0 ? offset : offset ^ ((offset >> 7 & (span / 16 - 1)) << 4);
}

} /* namespace simt */
