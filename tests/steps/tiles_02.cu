/* The test chooses the words of a warp's request to shared memory, to prove what the lesson of step
 * 02 says of layouts that its kernels do not use. */
#include <cuda_runtime.h>

static const int WORDS = 32 * 128;

__global__ void read_words(const int *word, int width, float *sum)
{
    __shared__ __align__(16) float shared[WORDS];
    for (int i = threadIdx.x; i < WORDS; i += 32)
        shared[i] = (float)i;
    __syncthreads();
    const float *const from = &shared[word[threadIdx.x]];
    if (width == 4) {
        const float4 four = *(const float4 *)from;
        sum[threadIdx.x] = four.x + four.y + four.z + four.w;
    } else if (width == 1) {
        sum[threadIdx.x] = *from;
    }
}

/* Lane i reads `width` words of shared memory (1 or 4; 0 for none) from word[i] on. */
extern "C" cudaError_t tiles_02_read_words(const int *word, int width, float *sum)
{
    read_words<<<1, 32>>>(word, width, sum);
    return cudaGetLastError();
}
