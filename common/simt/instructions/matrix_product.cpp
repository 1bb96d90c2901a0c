/* D += A * B in the order that matrix_product.h promises. */
#include "instructions/matrix_product.h"

namespace simt
{

/* Eight sums side by side; the compiler makes of it what the machine has. */
typedef float Eight __attribute__((vector_size(32), aligned(4)));

/* 16 rows of `wide` * 8 columns: enough independent sums to keep an adder busy. */
template <unsigned wide>
static void multiply_add_part(float *D, const float *A, const float *B, unsigned cols)
{
    for (unsigned row = 0; row < 16; row++) {
        Eight sum[wide];
        memcpy(sum, D + row * cols, sizeof sum);
        for (unsigned k = 0; k < product_depth; k++) {
            const float a = A[row * product_depth + k];
            for (unsigned i = 0; i < wide; i++) {
                Eight b;
                memcpy(&b, B + k * cols + 8 * i, sizeof b);
                sum[i] += a * b;
            }
        }
        memcpy(D + row * cols, sum, sizeof sum);
    }
}

void multiply_add(float *D, const float *A, const float *B, unsigned cols)
{
    unsigned col = 0;
    for (; col + 16 <= cols; col += 16)
        multiply_add_part<2>(D + col, A, B + col, cols);
    for (; col < cols; col += 8)
        multiply_add_part<1>(D + col, A, B + col, cols);
}

} /* namespace simt */
