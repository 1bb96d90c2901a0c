/* ---- the check: softmax of each row against the project's reference ---- */

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

    double *value = doubles(cols), *scale = doubles(cols);
    for (size_t row = 0; row < (size_t)rows; row++) {
        reference::reference_row(input + row * cols, cols, value, scale);
        if (wrong("output", TENSOR_F32, output, row * cols, cols, value, scale,
                  reference::bound_of(cols)))
            return false;
    }
    printf("PASS: NAME, %d rows of %d\n", rows, cols);
    return true;
}
