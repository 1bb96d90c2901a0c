/* These kernels use shared memory and the barriers of a block. */
#include "features.h"

enum { THREADS = 128 };

__global__ void reverse_static(int *data)
{
    __shared__ int tile[THREADS];
    int i = threadIdx.x;
    tile[i] = data[blockIdx.x * THREADS + i];
    __syncthreads();
    data[blockIdx.x * THREADS + i] = tile[THREADS - 1 - i];
}

FEATURE(static_shared)
{
    int *data = shared_array<int>(4 * THREADS, [](int i) { return i; });
    reverse_static<<<4, THREADS>>>(data);
    return wrong_results(4 * THREADS, [&](int i) {
        return data[i] != i / THREADS * THREADS + THREADS - 1 - i % THREADS;
    });
}

__global__ void reverse_dynamic(float *data, int n)
{
    extern __shared__ float tile[];
    float *second = tile + n; /* one allocation, cut in two */
    tile[threadIdx.x] = data[threadIdx.x];
    second[n - 1 - threadIdx.x] = 2 * data[threadIdx.x];
    __syncthreads();
    data[threadIdx.x] = tile[n - 1 - threadIdx.x] + second[threadIdx.x];
}

FEATURE(dynamic_shared)
{
    int wrong = 0;
    for (int n = 32; n <= 1024 && wrong == 0; n *= 2) {
        float *data = shared_array<float>(n, [](int i) { return i; });
        reverse_dynamic<<<1, n, 2 * n * sizeof(float)>>>(data, n);
        wrong = wrong_results(n, [&](int i) { return data[i] != 3.0f * (float)(n - 1 - i); });
    }
    return wrong;
}

__global__ void dynamic_unaligned(unsigned *places)
{
    __shared__ int before;
    extern __shared__ float plain[];
    before = 1;
    plain[0] = (float)before;
    places[0] = (unsigned)__cvta_generic_to_shared(plain);
}

__global__ void dynamic_aligned(unsigned *places)
{
    __shared__ int before;
    extern __shared__ __align__(1024) float aligned[];
    before = 1;
    aligned[63] = (float)before;
    places[1] = (unsigned)__cvta_generic_to_shared(aligned);
}

/* Dynamic shared memory begins behind static shared memory at a multiple of 16, unless it asks for
 * more. */
FEATURE(alignment_of_shared)
{
    unsigned *places = shared_array<unsigned>(2);
    dynamic_unaligned<<<1, 1, 256>>>(places);
    dynamic_aligned<<<1, 1, 256>>>(places);
    return wrong_results(
        [&] { return (places[0] % 16 != 0) + (places[0] % 128 == 0) + (places[1] % 1024 != 0); });
}

extern __shared__ __align__(16) unsigned char file_scope[];

__device__ int *file_scope_ints()
{
    return reinterpret_cast<int *>(file_scope);
}

__global__ void rotate(int *data)
{
    int *ints = file_scope_ints();
    ints[threadIdx.x] = data[threadIdx.x];
    __syncthreads();
    data[threadIdx.x] = reinterpret_cast<int *>(file_scope)[(threadIdx.x + 1) % blockDim.x];
}

FEATURE(file_scope_shared)
{
    int *data = shared_array<int>(64, [](int i) { return i; });
    rotate<<<1, 64, 64 * sizeof(int)>>>(data);
    return wrong_results(64, [&](int i) { return data[i] != (i + 1) % 64; });
}

struct pair {
    float value;
    int where;
};

__global__ void argmax(const float *data, int n, int *out)
{
    __shared__ alignas(16) pair best[THREADS];
    static __shared__ float4 wide[2];
    pair mine = {-1.0f, -1};
    for (int i = threadIdx.x; i < n; i += THREADS)
        if (data[i] > mine.value)
            mine = pair{data[i], i};
    best[threadIdx.x] = mine;
    if (threadIdx.x < 2)
        wide[threadIdx.x] = make_float4(1, 2, 3, 4);
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half && best[threadIdx.x + half].value > best[threadIdx.x].value)
            best[threadIdx.x] = best[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *out = best[0].where + static_cast<int>(wide[1].w);
}

FEATURE(shared_struct)
{
    enum { N = 1000 };
    float *data = shared_array<float>(N, [](int i) { return i * 37 % 101 + (i == 777 ? 500 : 0); });
    int *out = shared_array<int>(1);
    argmax<<<1, THREADS>>>(data, N, out);
    return wrong_results([&] { return *out != 777 + 4; });
}

__global__ void count_and_or(int *out)
{
    int i = threadIdx.x;
    int count = __syncthreads_count(i % 3 == 0);
    int none = __syncthreads_or(i < 0);
    int some = __syncthreads_or(i == 5);
    int all = __syncthreads_and(i >= 0);
    int most = __syncthreads_and(i != 7);
    out[i] = count * 10000 + (none != 0) * 1000 + (some != 0) * 100 + (all != 0) * 10 + (most != 0);
}

FEATURE(barrier_reductions)
{
    int *out = shared_array<int>(100);
    count_and_or<<<1, 100>>>(out);
    return wrong_results(100, [&](int i) { return out[i] != 340110; });
}

/* Whole warps that have nothing to do return before anybody waits. */
__global__ void leave_early(int *out)
{
    if (threadIdx.x >= 64)
        return;
    __shared__ int tile[64];
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
}

FEATURE(returned_threads)
{
    int *out = shared_array<int>(64);
    leave_early<<<1, 256>>>(out);
    return wrong_results(64, [&](int i) { return out[i] != 63 - i; });
}

/* Every thread moves its mark by one place a step. With a barrier too few some mark is lost. */
__global__ void walk(int *out, int steps)
{
    __shared__ int ring[2][THREADS];
    ring[0][threadIdx.x] = threadIdx.x;
    for (int step = 0; step < steps; step++) {
        __syncthreads();
        ring[(step + 1) % 2][(threadIdx.x + 1) % THREADS] = ring[step % 2][threadIdx.x];
    }
    __syncthreads();
    out[blockIdx.x * THREADS + threadIdx.x] = ring[steps % 2][threadIdx.x];
}

FEATURE(many_barriers)
{
    enum { BLOCKS = 20, STEPS = 301 };
    int *out = shared_array<int>(BLOCKS * THREADS);
    walk<<<BLOCKS, THREADS>>>(out, STEPS);
    return wrong_results(BLOCKS * THREADS, [&](int i) {
        return out[i] != ((i % THREADS - STEPS) % THREADS + THREADS) % THREADS;
    });
}

/* bar.sync counts arrivals, whichever lines they come from. */
__global__ void pass_on(int *data)
{
    if (threadIdx.x < 32) {
        data[threadIdx.x] = threadIdx.x;
        __syncthreads();
    } else {
        __syncthreads();
        data[threadIdx.x] = 2 * data[threadIdx.x - 32];
    }
}

FEATURE(warps_at_two_barriers)
{
    int *data = shared_array<int>(64);
    pass_on<<<1, 64>>>(data);
    return wrong_results(32, [&](int i) { return data[i] != i || data[32 + i] != 2 * i; });
}

__global__ void copy_unwritten(unsigned *out)
{
    __shared__ unsigned fixed[32];
    extern __shared__ unsigned dynamic[];
    out[0] = fixed[5];
    out[1] = dynamic[5];
    __syncthreads();
    fixed[5] = dynamic[5] = 0; /* the next block must not find this */
}

cudaError_t read_unwritten_shared(unsigned *static_word, unsigned *dynamic_word)
{
    unsigned *out = shared_array<unsigned>(2);
    copy_unwritten<<<50, 1, 128>>>(out);
    const cudaError_t error = finished();
    *static_word = out[0];
    *dynamic_word = out[1];
    return error;
}
