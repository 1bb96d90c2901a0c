/* Shuffles, votes, matches and reductions are compared with the programming guide, lane by lane. */
#include "features.h"

#define FULL 0xffffffffu

__global__ void shuffle_all(int *out)
{
    int lane = threadIdx.x % 32, value = threadIdx.x * 3 + 1;
    int *mine = out + 6 * threadIdx.x;
    mine[0] = __shfl_sync(FULL, value, 5);
    mine[1] = __shfl_sync(FULL, value, (lane + 7) % 32);
    mine[2] = __shfl_up_sync(FULL, value, 3);
    mine[3] = __shfl_down_sync(FULL, value, 4);
    mine[4] = __shfl_xor_sync(FULL, value, 9);
    mine[5] = __shfl_sync(FULL, value, 37); /* the lane is taken modulo the width */
}

FEATURE(shuffles)
{
    int *out = shared_array<int>(6 * 96);
    shuffle_all<<<1, 96>>>(out);
    return wrong_results(6 * 96, [&](int i) {
        const int t = i / 6, lane = t % 32, base = t - lane;
        const int from[6] = {5,
                             (lane + 7) % 32,
                             lane >= 3 ? lane - 3 : lane,
                             lane + 4 < 32 ? lane + 4 : lane,
                             lane ^ 9,
                             5};
        return out[i] != (base + from[i % 6]) * 3 + 1;
    });
}

__global__ void shuffle_narrow(int *out, int width)
{
    int value = threadIdx.x + 100, *mine = out + 4 * threadIdx.x;
    mine[0] = __shfl_sync(FULL, value, 1, width);
    mine[1] = __shfl_up_sync(FULL, value, 1, width);
    mine[2] = __shfl_down_sync(FULL, value, 1, width);
    mine[3] = __shfl_xor_sync(FULL, value, width / 2, width);
}

FEATURE(shuffle_widths)
{
    int *out = shared_array<int>(4 * 32), wrong = 0;
    for (int width = 2; width <= 32 && wrong == 0; width *= 2) {
        shuffle_narrow<<<1, 32>>>(out, width);
        wrong = wrong_results(4 * 32, [&](int i) {
            const int t = i / 4, begin = t / width * width;
            const int from[4] = {begin + 1, t > begin ? t - 1 : t,
                                 t + 1 < begin + width ? t + 1 : t, t ^ (width / 2)};
            return out[i] != from[i % 4] + 100;
        });
    }
    return wrong;
}

template <typename T>
__global__ void shuffle_type(int *failures)
{
    T mine = static_cast<T>(threadIdx.x) * static_cast<T>(1000001) - static_cast<T>(7);
    T other = __shfl_xor_sync(FULL, mine, 1);
    if (other != static_cast<T>(threadIdx.x ^ 1) * static_cast<T>(1000001) - static_cast<T>(7))
        atomicAdd(failures, 1);
}

FEATURE(shuffle_types)
{
    int *failures = shared_array<int>(1);
    shuffle_type<int><<<1, 32>>>(failures);
    shuffle_type<unsigned><<<1, 32>>>(failures);
    shuffle_type<long><<<1, 32>>>(failures);
    shuffle_type<unsigned long long><<<1, 32>>>(failures);
    shuffle_type<float><<<1, 32>>>(failures);
    shuffle_type<double><<<1, 32>>>(failures);
    return wrong_results([&] { return *failures; });
}

__global__ void vote(unsigned *out)
{
    unsigned *mine = out + 6 * threadIdx.x;
    mine[0] = __ballot_sync(FULL, threadIdx.x % 3 == 0);
    mine[1] = __any_sync(FULL, threadIdx.x == 31) != 0;
    mine[2] = __any_sync(FULL, threadIdx.x == 32) != 0;
    mine[3] = __all_sync(FULL, threadIdx.x < 32) != 0;
    mine[4] = __all_sync(FULL, threadIdx.x < 31) != 0;
    mine[5] = __ballot_sync(FULL, 1);
}

FEATURE(votes)
{
    unsigned *out = shared_array<unsigned>(6 * 32);
    vote<<<1, 32>>>(out);
    const unsigned expected[6] = {0x49249249u, 1, 0, 1, 0, FULL};
    return wrong_results(6 * 32, [&](int i) { return out[i] != expected[i % 6]; });
}

__global__ void match(unsigned *out)
{
    int agree_all, agree_not;
    unsigned *mine = out + 4 * threadIdx.x;
    mine[0] = __match_any_sync(FULL, static_cast<int>(threadIdx.x % 4));
    mine[1] = __match_all_sync(FULL, 3.5f, &agree_all);
    mine[2] = __match_all_sync(FULL, static_cast<int>(threadIdx.x / 31), &agree_not);
    mine[3] = (agree_all != 0) * 2 + (agree_not != 0);
}

FEATURE(matches)
{
    unsigned *out = shared_array<unsigned>(4 * 32);
    match<<<1, 32>>>(out);
    return wrong_results(32, [&](int t) {
        return (out[4 * t] != 0x11111111u << t % 4) + (out[4 * t + 1] != FULL) +
               (out[4 * t + 2] != 0) + (out[4 * t + 3] != 2);
    });
}

/* Each half of a warp meets by itself, in different branches, at different times. */
__global__ void halves(int *out)
{
    int lane = threadIdx.x, sum = lane;
    unsigned mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    if (lane < 16) {
        for (int delta = 8; delta > 0; delta /= 2)
            sum += __shfl_xor_sync(mask, sum, delta);
        __syncwarp(mask);
    } else {
        __syncwarp(mask);
        sum = __shfl_sync(mask, sum, 20);
        sum += static_cast<int>(__ballot_sync(mask, lane % 2) >> 16);
    }
    __syncwarp();
    out[lane] = sum;
}

FEATURE(partial_masks)
{
    int *out = shared_array<int>(32);
    halves<<<1, 32>>>(out);
    return wrong_results(32, [&](int i) { return out[i] != (i < 16 ? 120 : 20 + 0xaaaa); });
}

/* With 40 threads the second warp has 8 lanes, and a full mask names more. */
__global__ void short_warp(int *out)
{
    int value = threadIdx.x;
    out[threadIdx.x] =
        __shfl_xor_sync(FULL, value, 1) + static_cast<int>(__popc(__ballot_sync(FULL, 1))) * 1000;
}

FEATURE(short_warp)
{
    int *out = shared_array<int>(40);
    short_warp<<<1, 40>>>(out);
    return wrong_results(40, [&](int i) { return out[i] != (i ^ 1) + (i < 32 ? 32000 : 8000); });
}

/* The lanes of a branch reserve their places together: one atomic for all of them. */
__global__ void compact(const int *in, int *out, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && in[i] % 3 == 0) {
        unsigned active = __activemask();
        int leader = __ffs(static_cast<int>(active)) - 1, base = 0;
        if (static_cast<int>(threadIdx.x % 32) == leader)
            base = atomicAdd(count, __popc(active));
        base = __shfl_sync(active, base, leader);
        out[base + __popc(active & ((1u << threadIdx.x % 32) - 1))] = in[i];
    }
}

FEATURE(activemask)
{
    enum { N = 1000 };
    int *in = shared_array<int>(N), *out = shared_array<int>(N), *count = shared_array<int>(1),
        expected = 0;
    long sum = 0, expected_sum = 0;
    for (int i = 0; i < N; i++) {
        in[i] = i * 31 % 997;
        expected += in[i] % 3 == 0;
        expected_sum += in[i] % 3 == 0 ? in[i] : 0;
    }
    compact<<<8, 128>>>(in, out, count, N);
    int wrong = wait_for_kernel();
    if (wrong < 0)
        return wrong;
    for (int i = 0; i < *count; i++)
        sum += out[i];
    return (*count != expected) + (sum != expected_sum);
}
