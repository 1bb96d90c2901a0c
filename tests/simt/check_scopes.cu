/*
 * The idioms by which threads hand data to each other without a barrier, each as it must be, and
 * with a fence, a scope or an order that is too weak. Each program says what its report must
 * contain, or null where there may be none.
 */
#include "check_kernels.h"

#include <cuda/atomic>

struct check_case scope_programs[MOST_PROGRAMS];

#define SCOPES(name, words, ...)                                                                   \
    CHECK_PROGRAM(scope_programs, name)                                                            \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
        return finished();                                                                         \
    }                                                                                              \
    [[maybe_unused]] static const bool says_##name =                                               \
        (last_program(scope_programs)->says = words, true);

/* A fence's scope, and that of an atomic operation. */
enum reach { none, block, device, everywhere };

template <reach scope>
__device__ void fence(void)
{
    if (scope == block)
        __threadfence_block();
    if (scope == device)
        __threadfence();
    if (scope == everywhere)
        __threadfence_system();
}

template <reach scope>
__device__ int add(int *counter, int value)
{
    if (scope == block)
        return atomicAdd_block(counter, value);
    return scope == device ? atomicAdd(counter, value) : atomicAdd_system(counter, value);
}

/* ---- a flag ---- */

/* The first thread writes, raises the flag, and the thread `reader` reads when it sees that. */
template <reach before, reach flag, reach after>
__global__ void message(int *data, unsigned reader)
{
    const unsigned self = blockIdx.x * blockDim.x + threadIdx.x;
    if (self == 0) {
        data[100] = 7;
        fence<before>();
        add<flag>(&data[0], 1);
    }
    if (self == reader) {
        while (add<flag>(&data[0], 0) == 0)
            ;
        fence<after>();
        data[1] = data[100];
    }
}

#define MESSAGE(name, words, before, flag, after, reader)                                          \
    SCOPES(message_##name, words, message<before, flag, after><<<2, 64>>>(data, reader))

MESSAGE(to_a_block, NULL, device, device, device, 64)
MESSAGE(everywhere, NULL, everywhere, everywhere, everywhere, 64)
MESSAGE(to_a_warp, NULL, block, block, block, 32)
MESSAGE(to_a_warp_by_more, NULL, device, device, everywhere, 32)
MESSAGE(not_fenced, "a __threadfence() of block (0,0,0) is missing between", none, device, device,
        64)
MESSAGE(fenced_for_its_block, "is for its own block only: a __threadfence() is missing", block,
        device, device, 64)
MESSAGE(read_without_fence, "but a __threadfence() or a barrier is missing between", device, device,
        none, 64)
MESSAGE(read_with_fence_of_block, "but a __threadfence() or a barrier is missing between", device,
        device, block, 64)
MESSAGE(flag_of_block, "is atomic for its own block only", device, block, device, 64)
MESSAGE(to_a_warp_not_fenced, "a __threadfence_block() of thread (0,0,0) is missing between", none,
        block, block, 32)
MESSAGE(to_a_warp_read_without_fence, "but a __threadfence_block() or a barrier is missing between",
        device, device, none, 32)

/* The same in shared memory, from one warp to another. */
template <reach before, reach after>
__global__ void shared_message(int *data)
{
    __shared__ int value, flag;
    if (threadIdx.x == 0)
        flag = 0;
    __syncthreads(); /* the flag is down */
    if (threadIdx.x == 0) {
        value = 7;
        fence<before>();
        add<block>(&flag, 1);
    }
    if (threadIdx.x == 32) {
        while (add<block>(&flag, 0) == 0)
            ;
        fence<after>();
        data[1] = value;
    }
}

SCOPES(shared_message, NULL, shared_message<block, block><<<1, 64>>>(data))
SCOPES(shared_message_not_fenced, "a __threadfence_block() of thread (0,0,0) is missing between",
       shared_message<none, block><<<1, 64>>>(data))
SCOPES(shared_message_read_without_fence, "but a __threadfence_block() or a barrier is missing",
       shared_message<block, none><<<1, 64>>>(data))

/* ---- the same with orders ---- */

template <cuda::thread_scope scope>
__global__ void ordered_message(int *data, unsigned reader, cuda::memory_order before,
                                cuda::memory_order after)
{
    const unsigned self = blockIdx.x * blockDim.x + threadIdx.x;
    cuda::atomic_ref<int, scope> flag(data[0]);
    if (self == 0) {
        data[100] = 7;
        flag.store(1, before);
    }
    if (self == reader) {
        while (flag.load(after) == 0)
            ;
        data[1] = data[100];
    }
}

#define ORDERED(name, words, scope, before, after, reader)                                         \
    SCOPES(ordered_##name, words,                                                                  \
           ordered_message<cuda::thread_scope_##scope>                                             \
           <<<2, 64>>>(data, reader, cuda::memory_order_##before, cuda::memory_order_##after))

ORDERED(to_a_block, NULL, device, release, acquire, 64)
ORDERED(to_the_system, NULL, system, release, acquire, 64)
ORDERED(strictly, NULL, device, seq_cst, seq_cst, 64)
ORDERED(to_a_warp, NULL, block, release, acquire, 32)
ORDERED(relaxed_store, "a __threadfence() of block (0,0,0) is missing", device, relaxed, acquire,
        64)
ORDERED(relaxed_load, "but a __threadfence() or a barrier is missing", device, release, relaxed, 64)
ORDERED(in_block, "is atomic for its own block only", block, release, acquire, 64)
ORDERED(relaxed_in_a_block, "but a __threadfence_block() or a barrier is missing", block, release,
        relaxed, 32)

/* ---- a lock ---- */

template <reach taken, reach given>
__global__ void locked(int *data)
{
    if (threadIdx.x % 32 != 0)
        return;
    while (atomicCAS(&data[0], 0, 1) != 0)
        ;
    fence<taken>();
    data[1]++;
    fence<given>();
    atomicExch(&data[0], 0);
}

SCOPES(lock, NULL, locked<device, device><<<6, 64>>>(data))
SCOPES(lock_of_warps, NULL, locked<block, block><<<1, 256>>>(data))
SCOPES(lock_taken_without_fence, "__threadfence() or a barrier is missing",
       locked<none, device><<<6, 32>>>(data))
SCOPES(lock_given_without_fence, "a __threadfence() of block",
       locked<device, none><<<6, 32>>>(data))
SCOPES(lock_given_for_a_block, "is for its own block only", locked<device, block><<<6, 32>>>(data))
SCOPES(lock_of_warps_without_fence, "a __threadfence_block() of thread",
       locked<none, none><<<1, 256>>>(data))

__global__ void many_locks(int *data, int rounds)
{
    unsigned random = blockIdx.x;
    for (int i = 0; threadIdx.x == 0 && i < rounds; i++) {
        random = random * 1664525 + 1013904223;
        int *lock = &data[random >> 27], *guarded = lock + 32;
        while (atomicCAS(lock, 0, 1) != 0)
            ;
        __threadfence(); /* what the lock guards is read with the lock held */
        ++*guarded;
        __threadfence(); /* and written before it is released */
        atomicExch(lock, 0);
    }
}

cudaError_t run_many_locks(int *data, int rounds)
{
    many_locks<<<4, 32>>>(data, rounds);
    return finished();
}

template <cuda::memory_order taken, cuda::memory_order given>
__global__ void ordered_lock(int *data)
{
    cuda::atomic_ref<int, cuda::thread_scope_device> lock(data[0]);
    if (threadIdx.x != 0)
        return;
    while (lock.exchange(1, taken) != 0)
        ;
    data[1]++;
    lock.store(0, given);
}

SCOPES(lock_in_order, NULL,
       ordered_lock<cuda::memory_order_acquire, cuda::memory_order_release><<<6, 32>>>(data))
SCOPES(lock_relaxed, "a __threadfence() of block",
       ordered_lock<cuda::memory_order_acquire, cuda::memory_order_relaxed><<<6, 32>>>(data))

/* ---- the last block ---- */

template <reach before, reach counted>
__global__ void last_block(int *data)
{
    __shared__ bool last;
    volatile int *partial = &data[10]; /* as in the Programming Guide */
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = blockIdx.x;
        fence<before>();
        last = add<counted>(&data[0], 1) == (int)gridDim.x - 1;
    }
    __syncthreads(); /* all know whether this is the last block */
    if (last && threadIdx.x < gridDim.x)
        atomicAdd(&data[1], partial[threadIdx.x]);
}

SCOPES(last_block, NULL, last_block<device, device><<<8, 64>>>(data))
SCOPES(last_block_by_system, NULL, last_block<everywhere, everywhere><<<8, 64>>>(data))
SCOPES(last_block_fenced_for_its_own, "is for its own block only",
       last_block<block, device><<<8, 64>>>(data))
SCOPES(last_block_counts_for_its_own, "is atomic for its own block only",
       last_block<device, block><<<8, 64>>>(data))

/* ---- counters ---- */

template <reach scope>
__global__ void count(int *data, int a_block)
{
    add<scope>(&data[a_block * blockIdx.x], 1);
}

SCOPES(count_of_all, NULL, count<device><<<4, 64>>>(data, 0))
SCOPES(count_of_each_block, NULL, count<block><<<4, 64>>>(data, 1))
SCOPES(count_of_all_by_block, "is atomic for its own block only", count<block><<<4, 64>>>(data, 0))

/* ---- volatile ---- */

__global__ void volatile_flag(int *data)
{
    volatile int *flag = data;
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        data[100] = 5;
        __threadfence(); /* the data is visible before the flag */
        *flag = 1;
    }
    if (threadIdx.x == 0 && blockIdx.x > 0) {
        while (*flag == 0)
            ;
        __threadfence(); /* the data is read after the flag */
        data[blockIdx.x] = data[100];
    }
}

SCOPES(volatile_flag, "volatile orders nothing between blocks", volatile_flag<<<4, 32>>>(data))

/* Two warps of a block write one place. */
__global__ void volatile_warps(int *data)
{
    volatile int *place = data;
    if (threadIdx.x % 32 == 0)
        *place = (int)threadIdx.x + 1;
}

SCOPES(volatile_warps, "race on global memory", volatile_warps<<<1, 64>>>(data))
