// Atomics of every kind; a float maximum made of integer atomics; a spin lock; a last-block sum.
#include <cfloat>
#include <climits>
#include <cstdio>

__device__ static float atomicMaxFloat(float *address, float val)
{
    int *address_as_i = (int *)address;
    int old = atomicAdd(address_as_i, 0), assumed;
    do {
        assumed = old;
        old = ::atomicCAS(address_as_i, assumed,
                          __float_as_int(::fmaxf(val, __int_as_float(assumed))));
    } while (assumed != old);
    return __int_as_float(old);
}

__global__ void testKernel(int *g, float *f)
{
    const unsigned int tid = blockDim.x * blockIdx.x + threadIdx.x;
    atomicAdd(&g[0], 10);
    atomicSub(&g[1], 10);
    atomicExch(&g[2], tid);
    atomicMax(&g[3], tid);
    atomicMin(&g[4], tid);
    atomicInc((unsigned int *)&g[5], 17);
    atomicDec((unsigned int *)&g[6], 137);
    atomicCAS(&g[7], tid - 1, tid);
    atomicAnd(&g[8], 2 * tid + 7);
    atomicOr(&g[9], 1 << tid % 31);
    atomicXor(&g[10], tid);
    atomicMaxFloat(f, -1000.0f + tid);
    atomicAdd(f + 1, 0.5f);
}

__device__ int mutex = 0;
__device__ volatile int guarded = 0;
__device__ unsigned int blocksDone = 0;

__global__ void lockKernel(int *result)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(&mutex, 0, 1) != 0)
            ;
        __threadfence();
        guarded = guarded + 1;
        __threadfence();
        atomicExch(&mutex, 0);
        __threadfence();
        if (atomicAdd(&blocksDone, 1) == gridDim.x - 1) {
            __threadfence();
            *result = guarded;
        }
    }
}

int main()
{
    const int len = 64 * 256;
    int h[11] = {0, 0, 0, 0, INT_MAX, 0, 0, 0, 0xff, 0, 0}, *d, *d_r, r;
    float f[2] = {-FLT_MAX, 0}, *d_f;
    cudaMalloc(&d, sizeof(h));
    cudaMalloc(&d_f, sizeof(f));
    cudaMalloc(&d_r, sizeof(r));
    cudaMemcpy(d, h, sizeof(h), cudaMemcpyHostToDevice);
    cudaMemcpy(d_f, f, sizeof(f), cudaMemcpyHostToDevice);
    testKernel<<<64, 256>>>(d, d_f);
    lockKernel<<<40, 64>>>(d_r);
    cudaMemcpy(h, d, sizeof(h), cudaMemcpyDeviceToHost);
    cudaMemcpy(f, d_f, sizeof(f), cudaMemcpyDeviceToHost);
    if (cudaMemcpy(&r, d_r, sizeof(r), cudaMemcpyDeviceToHost) != cudaSuccess)
        return 2;
    bool ok = h[0] == 10 * len && h[1] == -10 * len && h[2] >= 0 && h[2] < len && h[3] == len - 1 &&
              h[4] == 0 && h[5] == len % 18 && h[6] == (138 - len % 138) % 138 && h[7] >= 0 &&
              h[7] < len && h[8] == 1 && h[9] == INT_MAX && h[10] == 0 &&
              f[0] == -1000.0f + (len - 1) && f[1] == 0.5f * len && r == 40;
    if (!ok) {
        for (int i = 0; i < 11; i++)
            printf("%d ", h[i]);
        printf("%g %g %d\n", f[0], f[1], r);
    }
    puts(ok ? "PASSED" : "FAILED");
    return !ok;
}
