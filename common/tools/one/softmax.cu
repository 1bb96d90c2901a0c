/* ---- the check: softmax of each row against double precision ---- */

#include "check.cuh"

static bool check(void)
{
    const size_t bytes = (size_t)rows * cols * sizeof(float);
    float *input = numbers((size_t)rows * cols, 1);
    const float *input_device = (const float *)on_device(input, bytes);
    float *output_device = (float *)on_device(NULL, bytes);

    must(KERNEL(input_device, output_device, rows, cols, 0), "the launch");
    must(cudaDeviceSynchronize(), "the kernel");
    const float *output = (const float *)on_host(output_device, bytes);

    for (int row = 0; row < rows; row++) {
        double sum = 0.0;
        for (int col = 0; col < cols; col++)
            sum += exp((double)input[(size_t)row * cols + col]);
        for (int col = 0; col < cols; col++) {
            /* The sum has cols roundings; the exponentials and the division have a few more. */
            const size_t index = (size_t)row * cols + col;
            const double expected = exp((double)input[index]) / sum;
            if (wrong("output", index, output[index], expected, (cols + 32) * 0x1p-24 * expected))
                return false;
        }
    }
    printf("PASS: NAME, %d rows of %d\n", rows, cols);
    return true;
}
