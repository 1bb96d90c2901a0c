// Work split over streams with pinned memory, ordered by events, timed by events.
#include <stdio.h>
#include <stdlib.h>

inline cudaError_t checkCuda(cudaError_t result)
{
    if (result != cudaSuccess) {
        fprintf(stderr, "CUDA Runtime Error: %s\n", cudaGetErrorString(result));
        exit(1);
    }
    return result;
}

__global__ void kernel(float *a, int offset)
{
    int i = offset + threadIdx.x + blockIdx.x * blockDim.x;
    float x = (float)i;
    float s = sinf(x);
    float c = cosf(x);
    a[i] = a[i] + sqrtf(s * s + c * c);
}

int main(int argc, char **argv)
{
    const int blockSize = 256, nStreams = 4, n = 4 * 1024 * nStreams;
    const int streamSize = n / nStreams, streamBytes = streamSize * sizeof(float),
              bytes = n * sizeof(float);
    int devId = 0;
    if (argc > 1)
        devId = atoi(argv[1]);
    cudaDeviceProp prop;
    checkCuda(cudaGetDeviceProperties(&prop, devId));
    printf("Device : %s\n", prop.name);
    checkCuda(cudaSetDevice(devId));

    float *a, *d_a, ms;
    checkCuda(cudaMallocHost((void **)&a, bytes));
    checkCuda(cudaMalloc((void **)&d_a, bytes));
    cudaEvent_t startEvent, stopEvent, done[nStreams];
    cudaStream_t stream[nStreams];
    checkCuda(cudaEventCreate(&startEvent));
    checkCuda(cudaEventCreate(&stopEvent));
    for (int i = 0; i < nStreams; ++i) {
        checkCuda(cudaStreamCreate(&stream[i]));
        checkCuda(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming));
    }
    for (int i = 0; i < n; i++)
        a[i] = 0;
    checkCuda(cudaEventRecord(startEvent, 0));
    for (int i = 0; i < nStreams; ++i) {
        int offset = i * streamSize;
        if (i > 0)
            checkCuda(cudaStreamWaitEvent(stream[i], done[i - 1], 0));
        checkCuda(cudaMemcpyAsync(&d_a[offset], &a[offset], streamBytes, cudaMemcpyHostToDevice,
                                  stream[i]));
        kernel<<<streamSize / blockSize, blockSize, 0, stream[i]>>>(d_a, offset);
        checkCuda(cudaMemcpyAsync(&a[offset], &d_a[offset], streamBytes, cudaMemcpyDeviceToHost,
                                  stream[i]));
        checkCuda(cudaEventRecord(done[i], stream[i]));
    }
    checkCuda(cudaEventRecord(stopEvent, 0));
    checkCuda(cudaEventSynchronize(stopEvent));
    checkCuda(cudaEventElapsedTime(&ms, startEvent, stopEvent));
    checkCuda(cudaDeviceSynchronize());
    float maxE = 0;
    for (int i = 0; i < n; i++) {
        float error = fabsf(a[i] - 1.0f);
        if (error > maxE)
            maxE = error;
    }
    printf("  max error: %e, time is not negative: %d\n", maxE, ms >= 0);
    for (int i = 0; i < nStreams; ++i) {
        checkCuda(cudaStreamDestroy(stream[i]));
        checkCuda(cudaEventDestroy(done[i]));
    }
    checkCuda(cudaEventDestroy(startEvent));
    checkCuda(cudaEventDestroy(stopEvent));
    cudaFree(d_a);
    cudaFreeHost(a);
    return maxE < 1e-6f && ms >= 0 ? 0 : 1;
}
