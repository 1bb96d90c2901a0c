// says: error: kernel fill(float*): 65536 bytes of static shared memory; a kernel has at most 49152
__global__ void fill(float *data)
{
    __shared__ float s[64][256];
    s[0][threadIdx.x] = 1;
    __syncthreads();
    data[threadIdx.x] = s[0][threadIdx.x ^ 1];
}
