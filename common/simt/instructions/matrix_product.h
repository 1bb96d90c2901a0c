/*
 * The tensor cores' arithmetic, as defined here: every product of two halves, or two bfloat16
 * short of overflow, is exact in float, and the sum takes them in the order of k, one rounding
 * each:  d = (((d + a0 * b0) + a1 * b1) + ...).
 *
 * The hardware adds several products at once, aligned to the largest, and drops what falls below;
 * which, and how many, differs between architectures. So the last bits differ from a GPU's, by no
 * more than a rounding or two per product.
 */
#ifndef SIMT_MATRIX_PRODUCT_H
#define SIMT_MATRIX_PRODUCT_H

#include <cstdint>
#include <cstring>

namespace simt
{

/* The value of a half, from its bits; exact. */
inline float half_value(uint16_t bits)
{
    uint32_t magnitude = (bits & 0x7fffu) << 13, wide;
    float value;
    memcpy(&value, &magnitude, sizeof value);
    /* the difference of the two exponents' biases; makes subnormal halves right as well */
    value *= 0x1p112f;
    memcpy(&wide, &value, sizeof wide);
    if ((bits & 0x7c00) == 0x7c00)
        wide |= 0x7f800000;
    wide |= (bits & 0x8000u) << 16;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* The value of a factor's element: a half, or a bfloat16, which is the upper half of a float. */
inline float element_value(uint16_t bits, bool bfloat16)
{
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return bfloat16 ? value : half_value(bits);
}

constexpr unsigned product_depth = 16;

/* D += A * B; D is 16 x cols, A 16 x 16, B 16 x cols; cols is a multiple of 8. */
void multiply_add(float *D, const float *A, const float *B, unsigned cols);

} /* namespace simt */

#endif
