/* Computes D += A * B in the order that matrix_product.h promises. */
#include "instructions/matrix_product.h"

using namespace simt;

/* This is compiled for AVX2 as well. Results have the same bits: no multiply-add is fused. */
#if defined(__x86_64__) && !defined(__clang__)
#define FOR_EACH_MACHINE __attribute__((target_clones("avx2", "default")))
#else
#define FOR_EACH_MACHINE
#endif

/* These are eight values side by side; the compiler maps them to what the machine has. */
typedef float Eight __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint32_t EightWords __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint16_t EightElements __attribute__((vector_size(16), aligned(2), may_alias));

/* This is one move, where g++ may make two of a memcpy(). */
static inline Eight &eight(float *at) { return *reinterpret_cast<Eight *>(at); }
static inline const Eight &eight(const float *at) { return *reinterpret_cast<const Eight *>(at); }

/* Computes `rows` rows of `wide` * 8 columns: as many independent sums as keep an adder busy, and
 * as registers hold. */
template <unsigned rows, unsigned wide> __attribute__((always_inline)) static inline void
multiply_add_part(float *D, const float *A, const float *B, unsigned cols)
{
    Eight sum[rows * wide];
#pragma GCC unroll 8
    for (unsigned i = 0; i < rows * wide; i++)
        sum[i] = eight(D + i / wide * cols + i % wide * 8);
    for (unsigned k = 0; k < product_depth; k++) {
        Eight b[wide];
#pragma GCC unroll 2
        for (unsigned i = 0; i < wide; i++)
            b[i] = eight(B + k * cols + i * 8);
#pragma GCC unroll 8
        for (unsigned i = 0; i < rows * wide; i++)
            sum[i] += A[i / wide * product_depth + k] * b[i % wide];
    }
#pragma GCC unroll 8
    for (unsigned i = 0; i < rows * wide; i++)
        eight(D + i / wide * cols + i % wide * 8) = sum[i];
}

FOR_EACH_MACHINE void simt::multiply_add(float *D, const float *A, const float *B, unsigned cols)
{
    for (unsigned row = 0; row < 16; row += 4) {
        float *of_D = D + row * cols;
        const float *of_A = A + row * product_depth;
        unsigned col = 0;
        for (; col + 16 <= cols; col += 16)
            multiply_add_part<4, 2>(of_D + col, of_A, B + col, cols);
        for (; col < cols; col += 8)
            multiply_add_part<4, 1>(of_D + col, of_A, B + col, cols);
    }
}

FOR_EACH_MACHINE void simt::element_values(float *value, const uint16_t *bits, unsigned count,
                                           bool bfloat16)
{
    for (unsigned i = 0; i < count; i += 8) {
        EightElements narrow;
        memcpy(&narrow, bits + i, sizeof narrow);
        const EightWords wide = __builtin_convertvector(narrow, EightWords);
        EightWords float_bits = wide << 16;
        if (!bfloat16) {
            /* 2^112 makes up for the exponents' different biases, for subnormal halves, too. */
            float_bits = (wide & 0x7fff) << 13;
            float_bits = (EightWords)((Eight)float_bits * 0x1p112f);
            float_bits |= ((wide & 0x7c00) == 0x7c00) & 0x7f800000; /* infinity, NaN */
            float_bits |= (wide & 0x8000) << 16;
        }
        eight(value + i) = (Eight)float_bits;
    }
}
