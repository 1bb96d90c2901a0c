/* ---- the check: C = A · B against the project's reference ---- */

#include "check.cuh"

static bool check(void)
{
    float *A = numbers((size_t)m * k, 1), *B = numbers((size_t)k * n, 2);
    const size_t C_bytes = (size_t)m * n * sizeof(float);
    const float *A_device = (const float *)on_device(A, (size_t)m * k * sizeof *A);
    const float *B_device = (const float *)on_device(B, (size_t)k * n * sizeof *B);
    float *C_device = (float *)on_device(NULL, C_bytes);

    must(KERNEL(A_device, B_device, C_device, m, n, k, 0), "the launch");
    must(cudaDeviceSynchronize(), "the kernel");
    const float *C = (const float *)on_host(C_device, C_bytes);

    double *value = doubles(n), *scale = doubles(n);
    for (size_t row = 0; row < (size_t)m; row++) {
        reference::product(A, B, n, row, reference::strides_of(n, k), 0, k, value, scale);
        if (wrong("C", TENSOR_F32, C, row * n, n, value, scale, reference::bound_of(k)))
            return false;
    }
    printf("PASS: NAME, %d x %d x %d\n", m, n, k);
    return true;
}
