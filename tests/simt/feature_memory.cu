/* These kernels use memory that is not shared: constants, variables, copies, streams. */
#include "features.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

__constant__ float coefficients[4];
__constant__ struct {
    int a, b;
} settings = {3, 4};

__global__ void polynomial(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = ((coefficients[3] * x[i] + coefficients[2]) * x[i] + coefficients[1]) * x[i] +
               coefficients[0] + settings.a * 10 + settings.b;
}

FEATURE(constants)
{
    enum { N = 100 };
    const float host[4] = {1, 2, 3, 4}, last = 5;
    float *x = shared_array<float>(N, [](int i) { return i; }), *y = shared_array<float>(N),
          back[4];
    if (cudaMemcpyToSymbol(coefficients, host, sizeof host) ||
        cudaMemcpyToSymbol(coefficients, &last, sizeof last, 3 * sizeof last) ||
        cudaMemcpyFromSymbol(back, coefficients, sizeof back))
        return call_failed();
    polynomial<<<1, 128>>>(x, y, N);
    int wrong =
        wrong_results(N, [&](int i) { return y[i] != ((5.0f * i + 3) * i + 2) * i + 1 + 34; });
    if (wrong >= 0)
        wrong += (back[0] != 1) + (back[3] != 5) +
                 (cudaMemcpyToSymbol(coefficients, host, sizeof host, sizeof last) !=
                  cudaErrorInvalidValue);
    cudaGetLastError();
    return wrong;
}

__device__ int counter = 5;
__device__ float table[8];
__managed__ int both_sides = 1;

__global__ void touch_variables()
{
    atomicAdd(&counter, 1);
    table[threadIdx.x] += threadIdx.x;
    if (threadIdx.x == 0)
        both_sides *= 2;
}

FEATURE(device_variables)
{
    static int runs;
    float *address = NULL, values[8];
    int count = 0;
    size_t bytes = 0;
    if (cudaGetSymbolAddress((void **)&address, table) || cudaMemset(address, 0, sizeof table) ||
        cudaGetSymbolSize(&bytes, table))
        return call_failed();
    touch_variables<<<1, 8>>>();
    touch_variables<<<1, 8>>>();
    if (finished() || cudaMemcpyFromSymbol(&count, counter, sizeof count) ||
        cudaMemcpy(values, address, sizeof values, cudaMemcpyDeviceToHost))
        return call_failed();
    int wrong = 0;
    for (int i = 0; i < 8; i++)
        wrong += values[i] != 2.0f * i;
    runs++; /* the variables keep their values from run to run */
    return wrong + (count != 5 + 16 * runs) + (both_sides != 1 << 2 * runs) +
           (bytes != sizeof table);
}

FEATURE(copies)
{
    enum { N = 1000 };
    unsigned char *a = NULL, *b = NULL, host[N], back[N];
    cudaStream_t stream;
    for (int i = 0; i < N; i++)
        host[i] = (unsigned char)(i * 7);
    if (cudaMalloc(&a, N) || cudaMalloc(&b, N) || cudaStreamCreate(&stream) ||
        cudaMemcpy(a, host, N, cudaMemcpyHostToDevice) ||
        cudaMemcpyAsync(b, a, N / 2, cudaMemcpyDeviceToDevice, stream) ||
        cudaMemcpyPeerAsync(b + N / 2, 0, a + N / 2, 0, N / 2) ||
        cudaMemsetAsync(b + 10, 0xab, 20, stream) ||
        cudaMemcpyAsync(back, b, N, cudaMemcpyDefault, stream) || cudaStreamSynchronize(stream))
        return call_failed();
    int wrong = 0;
    for (int i = 0; i < N; i++)
        wrong += back[i] != (i >= 10 && i < 30 ? 0xab : host[i]);
    cudaStreamDestroy(stream);
    cudaFree(a);
    cudaFree(b);
    return wrong;
}

FEATURE(pitched_copies)
{
    enum { W = 37, H = 11 };
    float host[H][W], back[H][W], *device = NULL;
    size_t pitch = 0;
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            host[y][x] = (float)(100 * y + x);
    const size_t row = sizeof *host;
    if (cudaMallocPitch(&device, &pitch, row, H) ||
        cudaMemcpy2D(device, pitch, host, row, row, H, cudaMemcpyHostToDevice) ||
        cudaMemset2DAsync(device, pitch, 0, 2 * sizeof(float), H) ||
        cudaMemcpy2D(back, row, device, pitch, row, H, cudaMemcpyDeviceToHost))
        return call_failed();
    int wrong = pitch < row;
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            wrong += back[y][x] != (x < 2 ? 0.0f : host[y][x]);
    cudaFree(device);
    return wrong;
}

/* One plane of a volume is set to zero, but no byte before or behind its rows. */
FEATURE(pitched_volume)
{
    enum { W = 37, H = 5, D = 3 };
    char host[D * H][W];
    cudaPitchedPtr volume;
    if (cudaMalloc3D(&volume, make_cudaExtent(W, H, D)) ||
        cudaMemset3DAsync(volume, 1, make_cudaExtent(W, H, D)) ||
        cudaMemset3D(make_cudaPitchedPtr((char *)volume.ptr + H * volume.pitch, volume.pitch, W, H),
                     0, make_cudaExtent(W, H, 1)) ||
        cudaMemcpy2D(host, W, volume.ptr, volume.pitch, W, D * H, cudaMemcpyDeviceToHost))
        return call_failed();
    int wrong = volume.xsize != W || volume.ysize != H || volume.pitch < W;
    for (int y = 0; y < D * H; y++)
        for (int x = 0; x < W; x++)
            wrong += host[y][x] != (y / H != 1);
    cudaFree(volume.ptr);
    return wrong;
}

FEATURE(memory_pool)
{
    enum { BYTES = 1 << 20 };
    cudaMemPool_t pool;
    void *taken = NULL;
    int reuse = 0;
    uint64_t kept = UINT64_MAX, asked = 0, none = 0, before = 0, while_taken = 0, after = 0,
             highest = 0;
    if (cudaDeviceGetDefaultMemPool(&pool, 0) ||
        cudaMemPoolGetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &reuse) ||
        cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept) ||
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &asked) ||
        cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &none) ||
        cudaMallocAsync(&taken, 2 * BYTES, 0) || cudaFreeAsync(taken, 0) ||
        cudaStreamSynchronize(0) ||
        cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &none) ||
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &before) ||
        cudaMallocAsync(&taken, BYTES, 0) ||
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &while_taken) ||
        cudaFreeAsync(taken, 0) || cudaStreamSynchronize(0) ||
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &after) ||
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &highest))
        return call_failed();
    return (reuse != 1) + (asked != kept) + (while_taken != before + BYTES) + (after != before) +
           (highest != while_taken);
}

__global__ void add(float *data, float value)
{
    data[blockIdx.x * blockDim.x + threadIdx.x] += value;
}

static void CUDART_CB note(void *argument)
{
    ++*(int *)argument;
}

FEATURE(events_and_streams)
{
    float *data = shared_array<float>(256), milliseconds = -1;
    int calls = 0, least, greatest, priority = 1;
    cudaStream_t first, second;
    cudaEvent_t start, stop, unused;
    if (cudaDeviceGetStreamPriorityRange(&least, &greatest) ||
        cudaStreamCreateWithPriority(&first, cudaStreamDefault, greatest) ||
        cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking) || cudaEventCreate(&start) ||
        cudaEventCreate(&stop) || cudaEventCreateWithFlags(&unused, cudaEventDisableTiming) ||
        cudaStreamGetPriority(first, &priority))
        return call_failed();
    cudaEventRecord(start, first);
    add<<<2, 128, 0, first>>>(data, 1.0f);
    cudaEventRecord(stop, first);
    cudaStreamWaitEvent(second, stop, 0);
    add<<<2, 128, 0, second>>>(data, 2.0f);
    cudaLaunchHostFunc(second, note, &calls);
    if (cudaStreamSynchronize(second) || cudaEventSynchronize(stop) ||
        cudaEventElapsedTime(&milliseconds, start, stop))
        return call_failed();
    int wrong = (milliseconds < 0.0f) + (calls != 1) + (greatest >= least) +
                (priority != greatest) + (cudaStreamQuery(second) != cudaSuccess);
    for (int i = 0; i < 256; i++)
        wrong += data[i] != 3.0f;
    wrong += cudaEventElapsedTime(&milliseconds, start, unused) != cudaErrorInvalidResourceHandle;
    cudaGetLastError();
    cudaEventDestroy(start);
    cudaEventDestroy(stop);
    cudaEventDestroy(unused);
    cudaStreamDestroy(first);
    cudaStreamDestroy(second);
    return wrong;
}

static cudaMemoryType type_of(const void *pointer)
{
    cudaPointerAttributes attributes = {};
    return cudaPointerGetAttributes(&attributes, pointer) ? (cudaMemoryType)-1 : attributes.type;
}

FEATURE(types_of_memory)
{
    static char own[4096], registered[4096];
    void *device = NULL, *managed = shared_array<char>(4), *pinned = NULL;
    if (cudaMalloc(&device, 4) || cudaMallocHost(&pinned, 4) ||
        cudaHostRegister(registered, sizeof registered, cudaHostRegisterDefault))
        return call_failed();
    const int wrong =
        (type_of(own) != cudaMemoryTypeUnregistered) + (type_of(device) != cudaMemoryTypeDevice) +
        (type_of(managed) != cudaMemoryTypeManaged) + (type_of(pinned) != cudaMemoryTypeHost) +
        (type_of(registered + 100) != cudaMemoryTypeHost);
    cudaHostUnregister(registered);
    cudaFreeHost(pinned);
    cudaFree(device);
    return wrong;
}

FEATURE(host_memory)
{
    float *pinned = NULL, *mapped = NULL, *device_view = NULL;
    if (cudaMallocHost(&pinned, 256 * sizeof(float)) ||
        cudaHostAlloc(&mapped, 256 * sizeof(float), cudaHostAllocMapped) ||
        cudaHostGetDevicePointer(&device_view, mapped, 0))
        return call_failed();
    for (int i = 0; i < 256; i++)
        pinned[i] = mapped[i] = (float)i;
    add<<<2, 128>>>(device_view, 5.0f);
    const int wrong =
        wrong_results(256, [&](int i) { return (mapped[i] != i + 5.0f) + (pinned[i] != i); });
    cudaFreeHost(pinned);
    cudaFreeHost(mapped);
    return wrong;
}

__global__ void touch_far(unsigned char *data, size_t far)
{
    data[far + threadIdx.x] = static_cast<unsigned char>(threadIdx.x + 1);
}

/* The offset does not fit in 32 bits. */
FEATURE(large_offsets)
{
    const size_t bytes = ((size_t)1 << 32) + 64;
    unsigned char *data = NULL, back[32];
    size_t available = 0, total = 0;
    cudaMemGetInfo(&available, &total);
    if (available < 2 * bytes)
        return 0;
    if (cudaMalloc(&data, bytes) != cudaSuccess)
        return call_failed();
    touch_far<<<1, 32>>>(data, (size_t)1 << 32);
    int wrong = wait_for_kernel();
    if (wrong < 0)
        return wrong;
    cudaMemcpy(back, data + ((size_t)1 << 32), sizeof back, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 32; i++)
        wrong += back[i] != i + 1;
    cudaFree(data);
    return wrong;
}

struct Link {
    Link *next;
    int value;
};

__device__ Link *chain;

__global__ void make_chain(int count)
{
    for (int i = 0; i < count; i++)
        chain = new Link{i == 0 ? nullptr : chain, i};
}

__global__ void take_chain(int *sum)
{
    int *local = (int *)malloc(sizeof *local);
    float *floats = new float[16];
    *local = 0;
    floats[15] = 3;
    for (Link *next; chain; chain = next) {
        next = chain->next;
        *local += chain->value;
        delete chain;
    }
    *sum = *local + (int)floats[15];
    delete[] floats;
    free(local);
}

/* Memory of the device's heap lasts from one launch to the next. */
FEATURE(device_heap)
{
    int *sum = shared_array<int>(1);
    make_chain<<<1, 1>>>(100);
    take_chain<<<1, 1>>>(sum);
    return wrong_results([&] { return *sum != 4953; });
}
