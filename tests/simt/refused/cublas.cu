// says: <cublas_v2.h> is not supported by the CPU backend
#include <cublas_v2.h>

void multiply(cublasHandle_t handle, const float *A, float *C, int n)
{
    const float one = 1, zero = 0;
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, A, n, A, n, &zero, C, n);
}
