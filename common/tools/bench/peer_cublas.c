/* cuBLAS in single precision is a row of a table of matmul kernels. */
#include "peers.h"

#include "harness/refusal.h"

#include <cublas_v2.h>
#include <stdio.h>

/* The handle is made at the first call and kept, because that takes long. */
static cublasHandle_t handle;

/* A row-major matrix is the transpose of a column-major one: the call computes Cᵀ = Bᵀ·Aᵀ. */
static cudaError_t cublas_matmul(const float *A, const float *B, float *C, int M, int N, int K,
                                 cudaStream_t stream)
{
    const float one = 1.0f, zero = 0.0f;
    if (!handle && cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS)
        return refuse(cudaErrorNotSupported, "cuBLAS could not be started");
    /* The mode is set although it is the default: products are in single precision, without
     * TF32. */
    if (cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH) != CUBLAS_STATUS_SUCCESS ||
        cublasSetStream(handle, stream) != CUBLAS_STATUS_SUCCESS ||
        cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, M, K, &one, B, N, A, K, &zero, C, N) !=
            CUBLAS_STATUS_SUCCESS)
        return cudaErrorUnknown;
    return cudaGetLastError();
}

const struct matmul_kernel cublas_kernels[] = {
    {.about.name = "cublas",
     .about.idea = "cublasSgemm, single precision without TF32",
     .launch = cublas_matmul},
    {.about.name = NULL},
};

const char *cublas_version(void)
{
    static char version[32];
    int number[3] = {0};
    cublasGetProperty(MAJOR_VERSION, &number[0]);
    cublasGetProperty(MINOR_VERSION, &number[1]);
    cublasGetProperty(PATCH_LEVEL, &number[2]);
    snprintf(version, sizeof version, "cuBLAS %d.%d.%d", number[0], number[1], number[2]);
    return version;
}
