/* ---- the check: C = A · B against sums in double precision ---- */

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

    for (int row = 0; row < m; row++) {
        for (int col = 0; col < n; col++) {
            double sum = 0.0, magnitude = 0.0;
            for (int i = 0; i < k; i++) {
                const double product = (double)A[row * k + i] * B[i * n + col];
                sum += product;
                magnitude += fabs(product);
            }
            /* The sum of these magnitudes has k roundings, each of at most 2^-24 of it. */
            const size_t index = (size_t)row * n + col;
            if (wrong("C", index, C[index], sum, (k + 1) * 0x1p-24 * magnitude))
                return false;
        }
    }
    printf("PASS: NAME, %d x %d x %d\n", m, n, k);
    return true;
}
