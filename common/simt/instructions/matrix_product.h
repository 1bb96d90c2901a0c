/* The tensor cores' arithmetic here: every product of two halves, or of two bfloat16 short of
 * overflow, is exact in float, and the sum takes the products in the order of k, with one rounding
 * each: d = (((d + a0 * b0) + a1 * b1) + ...). The hardware adds several at once, aligned to the
 * largest, and drops what falls below; how many, and how far, differs between architectures. So the
 * last bits differ from a GPU's, by no more than a rounding or two per product. */
#pragma once

#include <cstdint>
#include <cstring>

namespace simt
{

constexpr unsigned product_depth = 16;

/* Computes D += A * B. D is 16 x cols, A 16 x 16, and B 16 x cols; cols is a multiple of 8. */
void multiply_add(float *D, const float *A, const float *B, unsigned cols);

/* Converts `count` elements of a factor, a multiple of 8, from their bits: halves, or bfloat16,
 * which is the upper half of a float. */
void element_values(float *value, const uint16_t *bits, unsigned count, bool bfloat16);

/* ---- fragments: which element of the matrix a lane's i-th is ---- */

struct Element {
    unsigned row, col;
};

/* This is the left factor of m16n8k16 and of a warp's share of a wgmma, two halves to a register,
 * and the sum of either, with as many columns as there are elements for. */
inline Element of_left(unsigned lane, unsigned i)
{
    return Element{lane / 4 + 8 * (i / 2 % 2), 2 * (lane % 4) + i % 2 + 8 * (i / 4)};
}

/* This is the 16 x 8 right factor. */
inline Element of_right(unsigned lane, unsigned i)
{
    return Element{2 * (lane % 4) + i % 2 + 8 * (i / 2), lane / 4};
}

} /* namespace simt */
