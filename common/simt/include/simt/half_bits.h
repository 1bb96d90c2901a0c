/* Converts the two 16-bit floating-point formats to and from float and double: ties to even. */
#pragma once

#include <simt/math.h>

namespace simt
{

/* binary16 has 1 sign, 5 exponent and 10 fraction bits. */
struct Binary16 {
    static float to_float(uint16_t bits)
    {
        /* Exponent and fraction take float's places; a factor repairs the bias, subnormals' too. */
        float magnitude = same_bits<float>(uint32_t(bits & 0x7fff) << 13) * 0x1p112f;
        uint32_t result = same_bits<uint32_t>(magnitude);
        if ((bits & 0x7c00) == 0x7c00)
            result |= 0x7f800000u; /* infinity, NaN */
        return same_bits<float>(result | uint32_t(bits & 0x8000) << 16);
    }

    static uint16_t from_float(float value)
    {
        uint32_t x = same_bits<uint32_t>(value);
        uint32_t sign = x >> 16 & 0x8000, magnitude = x & 0x7fffffff;
        if (magnitude > 0x7f800000u)
            return 0x7fff;
        if (magnitude >= 0x477ff000u) /* 65520 and more round to infinity */
            return uint16_t(sign | 0x7c00);
        if (magnitude >= 0x38800000u) { /* 2^-14 and more: normal */
            magnitude += 0xfff + (magnitude >> 13 & 1);
            return uint16_t(sign | (magnitude - 0x38000000u) >> 13);
        }
        /* Subnormal: next to 0.5 a float has the same spacing, 2^-24, so the addition rounds. */
        float shifted = same_bits<float>(magnitude) + 0.5f;
        return uint16_t(sign | (same_bits<uint32_t>(shifted) - 0x3f000000u));
    }
};

/* bfloat16 is the upper half of a float. */
struct Brain16 {
    static float to_float(uint16_t bits) { return same_bits<float>(uint32_t(bits) << 16); }

    static uint16_t from_float(float value)
    {
        uint32_t x = same_bits<uint32_t>(value);
        if ((x & 0x7fffffff) > 0x7f800000u)
            return 0x7fff;
        return uint16_t((x + 0x7fff + (x >> 16 & 1)) >> 16);
    }
};

/* Converts double to float so that a second rounding, to 16 bits, gives what one rounding would.
 * Where the float is inexact its last bit is made odd, which keeps it off every tie. */
inline float rounded_to_odd(double value)
{
    float nearest = float(value);
    if (double(nearest) == value || nearest != nearest)
        return nearest;
    bool outside = std::fabs(double(nearest)) > std::fabs(value);
    return same_bits<float>((same_bits<uint32_t>(nearest) - outside) | 1u);
}

/* Returns the neighbour of the nearest value: -1 down, +1 up, 0 towards zero. */
template <class Format> inline uint16_t directed(float value, int direction)
{
    uint16_t bits = Format::from_float(value);
    float nearest = Format::to_float(bits);
    if (direction == 0)
        direction = value > 0 ? -1 : 1;
    if (nearest != nearest || nearest == value || (nearest < value) == (direction < 0))
        return bits;
    /* One step away from zero counts the bits up, one towards zero counts them down. */
    bool negative = bits & 0x8000;
    if ((bits & 0x7fff) == 0)
        return direction < 0 ? 0x8001 : 0x0001;
    return uint16_t(negative == (direction < 0) ? bits + 1 : bits - 1);
}

} /* namespace simt */
