// says: 8-bit floating-point numbers are not supported by the CPU backend
#include <cuda_fp8.h>

__global__ void convert(const __nv_fp8_e4m3 *in, float *out)
{
    out[threadIdx.x] = float(in[threadIdx.x]);
}

int main()
{
    convert<<<1, 32>>>(nullptr, nullptr);
}
