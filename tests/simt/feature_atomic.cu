/* These are atomic functions, and what programs build from them: locks, flags, tickets, the last
 * block. */
#include "features.h"
#include <cuda/atomic>

__global__ void integer_atomics(int *s, unsigned *u, unsigned long long *w)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&s[0], i);
    atomicSub(&s[1], 2);
    atomicMin(&s[2], -i);
    atomicMax(&s[3], i);
    atomicAnd(&s[4], ~(1 << i % 8));
    atomicOr(&s[5], 1 << i % 20);
    atomicXor(&s[6], i);
    atomicAdd(&u[0], 3u);
    atomicMin(&u[1], 1000u - i);
    atomicMax(&u[2], 4000000000u + i);
    atomicInc(&u[3], 6u);
    atomicDec(&u[4], 4u);
    atomicAdd(&w[0], 1ull << 33);
    atomicMax(&w[1], static_cast<unsigned long long>(i) << 40);
    atomicExch(&u[5], 99u);
}

FEATURE(integer_atomics)
{
    enum { N = 8 * 64 };
    int *s = shared_array<int>(7);
    unsigned *u = shared_array<unsigned>(6);
    unsigned long long *w = shared_array<unsigned long long>(2);
    s[4] = 0x1ff;
    u[1] = 5000;
    integer_atomics<<<8, 64>>>(s, u, w);
    return wrong_results([&] {
        return (s[0] != N * (N - 1) / 2) + (s[1] != -2 * N) + (s[2] != 1 - N) + (s[3] != N - 1) +
               (s[4] != 0x100) + (s[5] != 0xfffff) + (s[6] != 0) + (u[0] != 3 * N) +
               (u[1] != 1000 - (N - 1)) + (u[2] != 4000000000u + N - 1) + (u[3] != N % 7) +
               (u[4] != (5 - N % 5) % 5) + (w[0] != (1ull << 33) * N) +
               (w[1] != (unsigned long long)(N - 1) << 40) + (u[5] != 99);
    });
}

__global__ void float_atomics(float *f, double *d)
{
    atomicAdd(f, 0.25f);
    atomicAdd(d, 0.125);
    atomicExch(f + 1, 8.0f);
}

FEATURE(float_atomics)
{
    float *f = shared_array<float>(2);
    double *d = shared_array<double>(1);
    float_atomics<<<16, 96>>>(f, d);
    return wrong_results([&] { return (f[0] != 384.0f) + (f[1] != 8.0f) + (d[0] != 192.0); });
}

/* Finds the greatest float by compare-and-swap on its bits. */
__global__ void greatest(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned *cell = reinterpret_cast<unsigned *>(out);
    /* This is a guess: the first exchange tells the truth. */
    unsigned seen = __float_as_uint(0.0f), expected;
    do {
        expected = seen;
        seen = atomicCAS(cell, expected, __float_as_uint(fmaxf(__uint_as_float(expected), in[i])));
    } while (seen != expected);
}

FEATURE(compare_and_swap)
{
    enum { N = 500 };
    float *in = shared_array<float>(N, [](int i) { return (float)(i * 61 % N) - 600.0f; });
    float *out = shared_array<float>(1);
    *out = -1e30f;
    greatest<<<4, 128>>>(in, out, N);
    return wrong_results([&] { return *out != N - 1 - 600.0f; });
}

__global__ void histogram(const unsigned char *in, int n, unsigned *out)
{
    __shared__ unsigned bins[16];
    if (threadIdx.x < 16)
        bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        atomicAdd(&bins[in[i] % 16], 1u);
    __syncthreads();
    if (threadIdx.x < 16)
        out[threadIdx.x] = bins[threadIdx.x];
}

FEATURE(shared_atomics)
{
    enum { N = 4096 };
    unsigned char *in = shared_array<unsigned char>(N);
    unsigned *out = shared_array<unsigned>(16), expected[16] = {0};
    for (int i = 0; i < N; i++)
        expected[(in[i] = (unsigned char)(i * i % 251)) % 16]++;
    histogram<<<1, 256>>>(in, N, out);
    return wrong_results(16, [&](int i) { return out[i] != expected[i]; });
}

typedef cuda::atomic<int, cuda::thread_scope_device> Counter;

__global__ void atomic_refs(int *data, Counter *threads)
{
    cuda::atomic_ref<int, cuda::thread_scope_device> sum(data[0]);
    cuda::atomic_ref<int, cuda::thread_scope_device> most(data[1]);
    sum.fetch_add(2, cuda::std::memory_order_relaxed);
    ++*threads;
    int mine = threadIdx.x, seen = most.load(cuda::std::memory_order_acquire);
    while (seen < mine &&
           !most.compare_exchange_weak(seen, mine, cuda::std::memory_order_acq_rel)) {
    }
}

FEATURE(atomic_ref)
{
    int *data = shared_array<int>(2);
    Counter *threads = shared_array<Counter>(1);
    cuda::atomic on_host{4};
    on_host = on_host + 1;
    atomic_refs<<<4, 50>>>(data, threads);
    return wrong_results([&] {
        return (data[0] != 400) + (data[1] != 49) + (*threads != 200) + (on_host.load() != 5);
    });
}

/* One thread of each warp holds the lock at a time, across a barrier of the warp. */
__global__ void locked(int *lock, int *data)
{
    if (threadIdx.x % 32 == 0)
        while (atomicCAS(lock, 0, 1) != 0) {
        }
    __threadfence();
    __syncwarp();
    data[threadIdx.x % 32] = data[threadIdx.x % 32] + 1; /* needs no atomic: the lock protects it */
    __threadfence();
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        atomicExch(lock, 0);
}

FEATURE(lock_within_block)
{
    int *data = shared_array<int>(33);
    locked<<<3, 256>>>(data + 32, data);
    return wrong_results(32, [&](int i) { return data[i] != 24; });
}

/* Blocks take turns in the order of tickets they draw. */
__global__ void take_turns(int *state, int *order)
{
    __shared__ int ticket;
    cuda::atomic_ref<int, cuda::thread_scope_device> serving(state[1]);
    if (threadIdx.x == 0) {
        ticket = atomicAdd(&state[0], 1);
        while (serving.load(cuda::std::memory_order_acquire) != ticket) {
        }
    }
    __syncthreads();
    if (threadIdx.x == blockDim.x - 1)
        order[ticket] = state[2] * 2;
    __syncthreads();
    if (threadIdx.x == 0) {
        state[2]++;
        serving.store(ticket + 1, cuda::std::memory_order_release);
    }
}

FEATURE(ordered_blocks)
{
    enum { BLOCKS = 64 };
    int *state = shared_array<int>(3), *order = shared_array<int>(BLOCKS);
    take_turns<<<BLOCKS, 64>>>(state, order);
    return wrong_results(BLOCKS, [&](int i) { return order[i] != 2 * i; });
}

/* Block 0 waits for a block that comes after it: both are resident on any device. */
__global__ void wait_for_flag(volatile int *flag, volatile int *data)
{
    if (threadIdx.x != 0)
        return;
    if (blockIdx.x == gridDim.x - 1) {
        *data = 42;
        __threadfence();
        *flag = 1;
    } else {
        while (*flag == 0) {
        }
        __threadfence();
        if (*data == 42)
            atomicAdd((int *)data + 1, 1);
    }
}

FEATURE(volatile_flag)
{
    int *data = shared_array<int>(3);
    wait_for_flag<<<7, 32>>>(data, data + 1);
    return wrong_results([&] { return data[2] != 6; });
}

/* The block that finishes last adds up what all blocks left. */
__global__ void sum_in_last_block(const int *in, int n, int *partial, unsigned *finished, int *out)
{
    __shared__ bool last;
    __shared__ int sum;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&sum, in[i]);
    __syncthreads();
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        int total = 0;
        for (unsigned b = 0; b < gridDim.x; b++)
            total += partial[b];
        *out = total;
    }
}

FEATURE(last_block)
{
    enum { N = 10000, BLOCKS = 13 };
    int *in = shared_array<int>(N), *partial = shared_array<int>(BLOCKS),
        *out = shared_array<int>(1), expected = 0;
    unsigned *finished = shared_array<unsigned>(1);
    for (int i = 0; i < N; i++)
        expected += in[i] = i % 17;
    int wrong = 0;
    for (int run = 0; run < 3 && wrong == 0; run++) {
        *out = 0;
        sum_in_last_block<<<BLOCKS, 64>>>(in, N, partial, finished, out);
        wrong = wrong_results([&] { return *out != expected; });
    }
    return wrong;
}

/* The first lane of every warp polls until all other lanes of the grid have arrived. */
__global__ void first_lanes_poll(int *others, int *out)
{
    if (threadIdx.x % 32 != 0)
        atomicAdd(others, 1);
    else
        while (atomicAdd(others, 0) < static_cast<int>(gridDim.x * blockDim.x / 32 * 31)) {
        }
    atomicAdd(out, 1);
}

/* All threads poll until all have arrived. */
__global__ void all_poll(int *arrived)
{
    atomicAdd(arrived, 1);
    while (atomicAdd(arrived, 0) < static_cast<int>(gridDim.x * blockDim.x)) {
    }
}

FEATURE(polling)
{
    enum { BLOCKS = 4, THREADS = 64 };
    int *others = shared_array<int>(1), *out = shared_array<int>(1),
        *arrived = shared_array<int>(1);
    first_lanes_poll<<<BLOCKS, THREADS>>>(others, out);
    all_poll<<<BLOCKS, THREADS>>>(arrived);
    return wrong_results(
        [&] { return (*out != BLOCKS * THREADS) + (*arrived != BLOCKS * THREADS); });
}
