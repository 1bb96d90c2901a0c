// Older programs expect this of cuda_runtime.h: <time.h>, cudaThreadExit, and host memory that
// kernels read after cudaHostRegister. A kernel has the name of a host function, and a function has
// that of a shuffle which CUDA no longer has.
#include <stdio.h>
#include <stdlib.h>

#if CUDART_VERSION >= 13000
#define cudaThreadExit cudaDeviceReset
#endif

__device__ double2 __shfl_down(double2 v, unsigned delta, unsigned width = 32)
{
    return make_double2(__shfl_down_sync(~0u, v.x, delta, width),
                        __shfl_down_sync(~0u, v.y, delta, width));
}

__global__ void roots(const double *in, double *out, int n)
{
    const int i = threadIdx.x;
    const double2 next = __shfl_down(make_double2(i, -i), 1);
    if (i < n && next.x + next.y == 0.0) {
        out[2 * i] = __dsqrt_rd(in[i]);
        out[2 * i + 1] = __dsqrt_ru(in[i]);
    }
}

int roots(const double *in, double *out)
{
    double *device;
    const int n = 20;
    cudaMalloc(&device, 2 * n * sizeof *device);
    roots<<<1, 32>>>(in, device, n);
    return cudaMemcpy(out, device, 2 * n * sizeof *out, cudaMemcpyDeviceToHost) != cudaSuccess;
}

int main()
{
    const clock_t begin = clock();
    int limited = -1, wrong = 0;
    double *in = (double *)malloc(20 * sizeof *in), out[40], *mapped;
    for (int i = 0; i < 20; i++)
        in[i] = i;
    wrong += cudaDeviceGetAttribute(&limited, cudaDevAttrKernelExecTimeout, 0) != cudaSuccess;
    wrong += cudaHostRegister(in, 20 * sizeof *in, cudaHostRegisterDefault) != cudaSuccess;
    wrong += cudaHostGetDevicePointer((void **)&mapped, in, 0) != cudaSuccess;
    wrong += roots(mapped, out);
    for (int i = 0; i < 20; i++) {
        const bool square = i == 0 || i == 1 || i == 4 || i == 9 || i == 16;
        wrong += square ? out[2 * i] != out[2 * i + 1] : out[2 * i] >= out[2 * i + 1];
        wrong += out[2 * i] > sqrt((double)i) || out[2 * i + 1] < sqrt((double)i);
    }
    wrong += cudaHostUnregister(in) != cudaSuccess;
    free(in);
    printf("%d wrong, %.3f s\n", wrong, (double)(clock() - begin) / CLOCKS_PER_SEC);
    return wrong != 0 || limited < 0 || cudaThreadExit() != cudaSuccess;
}
