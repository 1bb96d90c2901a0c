/*
 * Each of these kernels has one bug. test_simt_check.c says which error it is, and that the report
 * names the lines with the marks in comments.
 */
#include "check_kernels.h"
#include <ptx.cuh>
#include "device/backend.h"
#include "device/clusters.cuh"

#include <cuda/barrier>
#include <string.h>

struct check_case broken_programs[MOST_PROGRAMS];

/* Defines a program of these statements. */
#define BROKEN(name, ...)                                                                          \
    CHECK_PROGRAM(broken_programs, name)                                                           \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
        return finished();                                                                         \
    }

/* ---- out of bounds ---- */

__global__ void load_past_end(int *data)
{
    int last = data[CHECK_INTS - 1 + threadIdx.x]; /* MARK load_past_end */
    if (last == 12345)
        data[0] = 1;
}

BROKEN(load_past_end, load_past_end<<<1, 2>>>(data))

/* No parameter's name says which array this is, but the program has said it. */
struct arrays {
    const int *scores, *values;
};

__global__ void load_past_described(struct arrays in, int *data)
{
    data[0] = in.values[64] + in.scores[0]; /* MARK load_past_described */
}

CHECK_PROGRAM(broken_programs, past_described)
{
    struct description about = {"V", "int", sizeof(int), {8, 8}};
    int *values;
    cudaMalloc(&values, 64 * sizeof *values);
    backend_describe(values, 64 * sizeof *values, &about);
    load_past_described<<<1, 1>>>(arrays{data, values}, data);
    return finished();
}

__global__ void store_into_described(struct arrays in, int *data)
{
    const_cast<int *>(in.values)[3] = threadIdx.x; /* MARK store_into_described */
    data[0] = 1;
}

CHECK_PROGRAM(broken_programs, race_on_described)
{
    struct description about = {"V", "int", sizeof(int), {8, 8}};
    int *values;
    cudaMalloc(&values, 64 * sizeof *values);
    backend_describe(values, 64 * sizeof *values, &about);
    store_into_described<<<1, 2>>>(arrays{data, values}, data);
    return finished();
}

__global__ void store_before_start(int *data)
{
    data[-1 - (int)threadIdx.x] = 1; /* MARK store_before_start */
}

BROKEN(store_before_start, store_before_start<<<1, 1>>>(data))

__global__ void wild_address(int *data)
{
    data[1u << 30] = 1;
}

BROKEN(wild_address, wild_address<<<1, 1>>>(data))

__global__ void store_one(int *data)
{
    data[threadIdx.x] = 1; /* MARK store_one */
}

CHECK_PROGRAM(broken_programs, use_after_free)
{
    int *gone;
    cudaMalloc(&gone, 256);
    cudaFree(gone);
    store_one<<<1, 1>>>(gone);
    return finished();
}

BROKEN(null_pointer, store_one<<<1, 1>>>(nullptr))

CHECK_PROGRAM(broken_programs, host_pointer)
{
    int *host = (int *)malloc(256);
    store_one<<<1, 1>>>(host);
    cudaError_t error = finished();
    free(host);
    return error;
}

/* This is no kernel: the host itself reads what it can only copy. */
int host_reads_device(const int *data)
{
    return data[0]; /* MARK host_reads_device */
}

__global__ void store_dynamic(int *data, int x)
{
    extern __shared__ int s[];
    s[x] = 1; /* MARK store_dynamic */
    data[0] = s[x];
}

BROKEN(dynamic_past_end, store_dynamic<<<1, 1, 64 * sizeof(int)>>>(data, 64))

BROKEN(dynamic_none, store_dynamic<<<1, 1>>>(data, 0))

__global__ void store_static(int *data, int x)
{
    __shared__ int s[4][32];
    s[1][x] = 1; /* MARK store_static */
    data[0] = s[1][x];
}

BROKEN(static_index, store_static<<<1, 1>>>(data, 32))

__device__ int last_of(const int *s, int n)
{
    return s[n]; /* MARK past_static */
}

__global__ void past_static(int *data)
{
    __shared__ int s[37];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads(); /* s is complete */
    if (threadIdx.x == 0)
        data[0] = last_of(s, 37);
}

BROKEN(past_static, past_static<<<1, 37>>>(data))

__global__ void copy_too_much(int *data)
{
    int local[8];
    memcpy(local, data + CHECK_INTS - 4, sizeof local); /* MARK copy_too_much */
    data[0] = local[threadIdx.x];
}

BROKEN(copy_too_much, copy_too_much<<<1, 1>>>(data))

__global__ void load_misaligned(const float *in, float *out)
{
    float4 four = *(const float4 *)(in + threadIdx.x + 1); /* MARK load_misaligned */
    out[threadIdx.x] = four.x;
}

BROKEN(misaligned, load_misaligned<<<1, 1>>>((const float *)data, (float *)data + 64))

/* Vectors lie in a part of dynamic shared memory that begins behind an odd number of floats. */
__global__ void store_behind_odd(float *out)
{
    extern __shared__ float both[];
    float4 *const vectors = (float4 *)&both[3];
    vectors[threadIdx.x] = make_float4(1, 2, 3, 4); /* MARK store_behind_odd */
    out[threadIdx.x] = vectors[threadIdx.x].x;
}

BROKEN(misaligned_dynamic, store_behind_odd<<<1, 4, 128>>>((float *)data))

/* ---- races ---- */

__global__ void no_barrier(int *data)
{
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;            /* MARK no_barrier_write */
    data[threadIdx.x] = s[63 - threadIdx.x]; /* MARK no_barrier_read */
}

BROKEN(no_barrier, no_barrier<<<1, 64>>>(data))

/* The barrier comes after the read that it should precede. Behind it nothing needs it. */
__global__ void late_barrier(int *data)
{
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;          /* MARK late_barrier_write */
    const int other = s[63 - threadIdx.x]; /* MARK late_barrier_read */
    __syncthreads();                       /* MARK late_barrier */
    data[threadIdx.x] = other;
}

BROKEN(late_barrier, late_barrier<<<1, 64>>>(data))

/* Both barriers of the loop stand between its rounds. */
__global__ void early_barrier(int *data)
{
    __shared__ int s[64];
    int sum = 0;
    for (int k = 0; k < 2; k++) {
        __syncthreads();            /* MARK early_barrier */
        s[threadIdx.x] = k;         /* MARK early_barrier_write */
        sum += s[63 - threadIdx.x]; /* MARK early_barrier_read */
        // the last of { this round
        __syncthreads(); /* every thread has read s */
    }
    data[threadIdx.x] = sum;
}

BROKEN(early_barrier, early_barrier<<<1, 64>>>(data))

/* Both barriers of the loop stand between the write and the read. */
__global__ void barriers_side_by_side(int *data)
{
    __shared__ int s[64];
    int sum = 0;
    for (int k = 0; k < 2; k++) {
        s[threadIdx.x] = k; /* MARK side_by_side_write */
        __syncthreads();    /* MARK side_by_side */
        __syncthreads();    /* s is complete */
        for (int i = 0; i < 2; i++)
            sum += s[63 - threadIdx.x]; /* MARK side_by_side_read */
    }
    data[threadIdx.x] = sum;
}

BROKEN(barriers_side_by_side, barriers_side_by_side<<<1, 64>>>(data))

/* The loop has a barrier, but that has work of its own. */
__global__ void needed_barrier(int *data)
{
    __shared__ int s[64];
    int sum = 0;
    for (int k = 0; k < 2; k++) {
        s[threadIdx.x] = k;         /* MARK needed_barrier_write */
        sum += s[63 - threadIdx.x]; /* MARK needed_barrier_read */
        __syncthreads();            /* every thread has read s */
    }
    data[threadIdx.x] = sum;
}

BROKEN(needed_barrier, needed_barrier<<<1, 64>>>(data))

/* The thread's own copy is under way when it reads. */
__global__ void late_copy_wait(int *data)
{
    __shared__ int s[64];
    for (int k = 0; k < 2; k++) {
        cp_async_4_zero_fill(shared_address(&s[threadIdx.x]), data + threadIdx.x, 4);
        cp_async_commit();
        __syncthreads();                         /* every thread has begun its copy */
        data[64 + threadIdx.x] = s[threadIdx.x]; /* MARK late_copy_wait_read */
        cp_async_wait<0>();                      /* MARK late_copy_wait */
        __syncthreads();                         /* every thread has read s */
    }
}

BROKEN(late_copy_wait, late_copy_wait<<<1, 64>>>(data))

/* A thread knows that its own copy is there, but not that the others' are. */
__global__ void barrier_before_wait(int *data)
{
    __shared__ int s[64];
    cp_async_4_zero_fill(shared_address(&s[threadIdx.x]), data + threadIdx.x, 4);
    cp_async_commit();
    __syncthreads(); /* MARK barrier_before_wait */
    cp_async_wait<0>();
    data[64 + threadIdx.x] = s[63 - threadIdx.x]; /* MARK barrier_before_wait_read */
}

BROKEN(barrier_before_wait, barrier_before_wait<<<1, 64>>>(data))

/* It waits for the copy before the last. */
__global__ void wait_for_another(int *data)
{
    __shared__ int s[64];
    cp_async_4_zero_fill(shared_address(&s[threadIdx.x]), data + threadIdx.x, 4);
    cp_async_commit();
    cp_async_wait<1>(); /* MARK wait_for_another */
    __syncthreads();    /* every thread has waited */
    data[64 + threadIdx.x] = s[63 - threadIdx.x];
}

BROKEN(wait_for_another, wait_for_another<<<1, 64>>>(data))

/* The tile is overwritten while slower threads still read it. */
__global__ void no_second_barrier(int *data)
{
    __shared__ int s[64];
    int sum = 0;
    for (int k = 0; k < 2; k++) {
        s[threadIdx.x] = k;         /* MARK no_second_barrier_write */
        __syncthreads();            /* s is complete */
        sum += s[63 - threadIdx.x]; /* MARK no_second_barrier_read */
    }
    data[threadIdx.x] = sum;
}

BROKEN(no_second_barrier, no_second_barrier<<<1, 64>>>(data))

__global__ void no_syncwarp(int *data)
{
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x;
    __syncwarp(); /* s is complete */
    for (int step = 16; step > 0; step /= 2) {
        if ((int)threadIdx.x < step)
            s[threadIdx.x] += s[threadIdx.x + step]; /* MARK no_syncwarp */
    }
    data[threadIdx.x] = s[0];
}

BROKEN(no_syncwarp, no_syncwarp<<<1, 32>>>(data))

/* This is how it was written before Volta: volatile instead of __syncwarp. */
__global__ void volatile_warp(int *data)
{
    __shared__ int s[64];
    volatile int *v = s;
    v[threadIdx.x] = threadIdx.x;
    v[threadIdx.x + 32] = threadIdx.x;
    v[threadIdx.x] = v[threadIdx.x] + v[threadIdx.x + 16]; /* MARK volatile_warp */
    data[threadIdx.x] = v[0];
}

BROKEN(volatile_warp, volatile_warp<<<1, 32>>>(data))

__global__ void shuffle_instead_of_barrier(int *data)
{
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x;
    __shfl_sync(0xffffffff, 0, 0); /* brings the lanes together, but orders no memory */
    data[threadIdx.x] = s[31 - threadIdx.x];
}

BROKEN(shuffle_instead_of_barrier, shuffle_instead_of_barrier<<<1, 32>>>(data))

__global__ void half_a_warp(int *data)
{
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x;
    __syncwarp(threadIdx.x < 16 ? 0x0000ffff : 0xffff0000); /* each half synchronises by itself */
    data[threadIdx.x] = s[31 - threadIdx.x];                /* but this crosses the halves */
}

BROKEN(half_a_warp, half_a_warp<<<1, 32>>>(data))

__global__ void same_place(int *data)
{
    __shared__ int winner;
    winner = threadIdx.x; /* MARK same_place */
    __syncthreads();      /* a thread has won */
    data[threadIdx.x] = winner;
}

BROKEN(same_place, same_place<<<1, 64>>>(data))

struct seven {
    int first, others[6];
};

static __device__ __noinline__ struct seven seven_of(int first)
{
    const struct seven result = {first, {0, 0, 0, 0, 0, 0}};
    return result;
}

/* The struct is copied whole; only its first member differs from thread to thread. */
__global__ void same_struct(int *data)
{
    __shared__ struct seven winner;
    winner = seven_of(threadIdx.x); /* MARK same_struct */
    __syncthreads();                /* a thread has won */
    data[threadIdx.x] = winner.first;
}

BROKEN(same_struct, same_struct<<<1, 64>>>(data))

__global__ void neighbouring_bytes(int *data)
{
    __shared__ unsigned char s[64];
    s[threadIdx.x] = 1;
    data[threadIdx.x] = s[threadIdx.x ^ 1];
}

BROKEN(neighbouring_bytes, neighbouring_bytes<<<1, 64>>>(data))

__global__ void global_in_block(int *data)
{
    data[threadIdx.x] = threadIdx.x;                 /* MARK global_in_block_write */
    data[64 + threadIdx.x] = data[63 - threadIdx.x]; /* MARK global_in_block_read */
}

BROKEN(global_in_block, global_in_block<<<1, 64>>>(data))

__global__ void sum_without_atomic(int *data)
{
    if (threadIdx.x == 0)
        data[0] += blockIdx.x + 1; /* MARK sum_without_atomic */
}

BROKEN(sum_without_atomic, sum_without_atomic<<<4, 32>>>(data))

__global__ void shift_left(int *data)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int right = data[x + 1]; /* MARK shift_left_read */
    __syncthreads();         /* orders this block only */
    data[x] = right;         /* MARK shift_left_write */
}

BROKEN(shift_left, shift_left<<<4, 32>>>(data))

__global__ void atomic_and_plain(int *data)
{
    if (blockIdx.x == 0)
        atomicAdd(&data[0], 1); /* MARK atomic_side */
    else
        data[1] = data[0]; /* MARK plain_side */
}

BROKEN(atomic_and_plain, atomic_and_plain<<<2, 1>>>(data))

/* A plain store beside a loop of compare-and-swap is no guess that the swap confirms. */
__global__ void swap_and_plain(int *data)
{
    if (blockIdx.x == 0) {
        int old = data[0];
        while (atomicCAS(&data[0], old, old + 1) != old) /* MARK swap_side */
            old = data[0];
    } else {
        data[0] = 5; /* MARK store_side */
    }
}

BROKEN(swap_and_plain, swap_and_plain<<<2, 1>>>(data))

/* The sum is made by atomic operations, and so is the count, but no fence separates them. */
__global__ void last_block_of_atomics(int *data)
{
    atomicAdd(&data[1 + blockIdx.x % 2], 1);          /* MARK sum_side */
    if (atomicAdd(&data[0], 1) == (int)gridDim.x - 1) /* MARK count_side */
        data[100] = data[1] + data[2];                /* MARK total_side */
}

BROKEN(last_block_of_atomics, last_block_of_atomics<<<4, 1>>>(data))

__global__ void use_freed_heap(int *data)
{
    int *mine = new int[4];
    mine[3] = 1;
    delete[] mine;
    data[0] = mine[3]; /* MARK use_freed_heap */
}

BROKEN(use_freed_heap, use_freed_heap<<<1, 1>>>(data))

__global__ void free_twice(int *data)
{
    int *mine = (int *)malloc(4);
    free(mine);
    free(mine);
    data[0] = 1;
}

BROKEN(free_twice, free_twice<<<1, 1>>>(data))

/* A shuffle brings the warp together after the store, but is no barrier of the block. */
__global__ void no_first_barrier(int *data)
{
    __shared__ int s[64];
    int sum = 0;
    for (int k = 0; k < 2; k++) {
        s[threadIdx.x] = k; /* MARK no_first_barrier_write */
        sum += __shfl_xor_sync(0xffffffffu, k, 1);
        sum += s[63 - threadIdx.x]; /* MARK no_first_barrier_read */
        __syncthreads();            /* all have read */
    }
    data[threadIdx.x] = sum;
}

BROKEN(no_first_barrier, no_first_barrier<<<1, 64>>>(data))

/* Half of the threads store. The shuffles must not make the checker see a barrier. */
__global__ void no_last_barrier(int *data)
{
    __shared__ int s[64];
    int sum = 0;
    for (int k = 0; k < 3; k++) {
        if (threadIdx.x >= 32)
            s[threadIdx.x - 32] = k; /* MARK no_last_barrier_write */
        __syncthreads();             /* s is complete */
        sum += __shfl_xor_sync(0xffffffffu, k, 1);
        sum += s[threadIdx.x % 32]; /* MARK no_last_barrier_read */
    }
    data[threadIdx.x] = sum;
}

BROKEN(no_last_barrier, no_last_barrier<<<1, 64>>>(data))

/* bar.sync counts arrivals and lets these pass, but CUDA C++ does not promise it. */
__global__ void warps_at_two_barriers(int *data)
{
    if (threadIdx.x < 32) {
        data[threadIdx.x] = 1;
        __syncthreads(); /* MARK barrier_of_first_warp */
    } else {
        __syncthreads(); /* MARK barrier_of_second_warp */
        data[threadIdx.x] = data[threadIdx.x - 32];
    }
}

BROKEN(warps_at_two_barriers, warps_at_two_barriers<<<1, 64>>>(data))

/* Lane 1 has returned when the first lane arrives; the other lanes are only late. */
__global__ void one_lane_returns(int *data)
{
    if (threadIdx.x == 1)
        return;
    data[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0); /* MARK one_lane_returns */
}

BROKEN(one_lane_returns, one_lane_returns<<<1, 32>>>(data))

/* A thread that only arrives does not know what the others did. */
__global__ void arrives_without_waiting(int *data)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int s[64];
    if (threadIdx.x == 0)
        init(&barrier, 64);
    __syncthreads();              /* the barrier is initialised */
    s[threadIdx.x] = threadIdx.x; /* MARK arrives_write */
    if (threadIdx.x == 0)
        barrier.arrive();
    else
        barrier.arrive_and_wait();
    data[threadIdx.x] = s[63 - threadIdx.x]; /* MARK arrives_read */
}

BROKEN(arrives_without_waiting, arrives_without_waiting<<<1, 64>>>(data))

/* The report gives an address as the caller knows it, whatever guards lie around the array. */
__global__ void element_of_argument(const float *A, double *B, int n)
{
    if (threadIdx.x == 0)
        B[n] = A[0] + 1;
    else
        B[n] = A[1]; /* MARK element_of_argument */
}

BROKEN(element_of_argument,
       element_of_argument<<<1, 2>>>((float *)data, (double *)(data + 1024), 441))

/* The last block to finish adds up what all blocks wrote, but no block made its writes visible
 * before counting itself. */
__global__ void last_block_without_fence(int *data)
{
    __shared__ int last;
    if (threadIdx.x == 0) {
        data[1 + blockIdx.x] = blockIdx.x; /* MARK partial_write */
        last = atomicAdd(&data[0], 1) == (int)gridDim.x - 1;
    }
    __syncthreads(); /* all know whether this is the last block */
    if (last && threadIdx.x == 0) {
        int sum = 0;
        for (unsigned i = 0; i < gridDim.x; i++)
            sum += data[1 + i]; /* MARK partial_read */
        data[100] = sum;
    }
}

BROKEN(last_block_without_fence, last_block_without_fence<<<8, 32>>>(data))

/* The turn is passed on with a fence, but taken without one: the sum may be read before the turn is
 * seen. */
__global__ void turn_without_fence(int *data)
{
    int *turn = &data[0], *sum = &data[2];
    if (threadIdx.x != 0)
        return;
    while (atomicAdd(turn, 0) != (int)blockIdx.x)
        ;
    *sum = 3 * *sum + blockIdx.x; /* MARK turn_without_fence */
    __threadfence();              /* the sum is visible before the next turn */
    atomicExch(turn, blockIdx.x + 1);
}

BROKEN(turn_without_fence, turn_without_fence<<<4, 32>>>(data))

/* The lock was never set free: the kernel waits for what the memory happens to hold. */
__global__ void lock_in_new_memory(int *lock)
{
    while (atomicCAS(lock, 0, 1) != 0) /* MARK lock_in_new_memory */
        ;
    atomicExch(lock, 0);
}

BROKEN(lock_in_new_memory, int *lock; cudaMalloc(&lock, 2 * sizeof *lock);
       lock_in_new_memory<<<2, 64>>>(lock))

/* ---- who does not come ---- */

__global__ void early_return(int *data, int n)
{
    __shared__ int s[64];
    int x = threadIdx.x;
    if (x >= n)
        return;
    s[x] = x;
    __syncthreads(); /* MARK early_return */
    data[x] = s[n - 1 - x];
}

BROKEN(early_return, early_return<<<1, 64>>>(data, 40))

__global__ void barrier_for_some(int *data)
{
    if (threadIdx.x < 16)
        __syncthreads(); /* MARK barrier_for_some */
    data[threadIdx.x] = 1;
}

BROKEN(barrier_for_some, barrier_for_some<<<1, 64>>>(data))

__global__ void shuffle_for_some(int *data)
{
    int sum = threadIdx.x;
    if (threadIdx.x < 24)
        sum += __shfl_down_sync(0xffffffff, sum, 1); /* MARK shuffle_for_some */
    data[threadIdx.x] = sum;
}

BROKEN(shuffle_for_some, shuffle_for_some<<<1, 32>>>(data))

/* ---- uninitialised ---- */

__global__ void uninitialised_static(int *data)
{
    __shared__ int s[32];
    if (threadIdx.x > 0)
        s[threadIdx.x] = 1;
    __syncthreads();                    /* s is complete, except s[0] */
    data[threadIdx.x] = s[threadIdx.x]; /* MARK uninitialised_static */
}

BROKEN(uninitialised_static, uninitialised_static<<<1, 32>>>(data))

__global__ void uninitialised_dynamic(int *data)
{
    extern __shared__ int s[];
    data[threadIdx.x] = s[threadIdx.x]; /* MARK uninitialised_dynamic */
}

BROKEN(uninitialised_dynamic, uninitialised_dynamic<<<1, 32, 128>>>(data))

__global__ void uninitialised_counter(int *data)
{
    __shared__ int count;
    atomicAdd(&count, 1); /* MARK uninitialised_counter */
    __syncthreads();      /* count is complete */
    data[threadIdx.x] = count;
}

BROKEN(uninitialised_counter, uninitialised_counter<<<1, 32>>>(data))

/* The sum is in new memory that was never set to zero. */
__global__ void sum_in_new_memory(int *sums)
{
    sums[threadIdx.x] += 1; /* MARK sum_in_new_memory */
}

CHECK_PROGRAM(broken_programs, new_memory)
{
    int *sums;
    cudaMalloc(&sums, 256);
    cudaMemset(sums, 0, 128);
    sum_in_new_memory<<<1, 64>>>(sums);
    cudaError_t error = finished();
    cudaFree(sums);
    return error;
}

__global__ void count_in_new_memory(unsigned short *counts)
{
    atomicAdd((int *)counts + 1, counts[0]); /* MARK count_in_new_memory */
}

CHECK_PROGRAM(broken_programs, new_counter)
{
    unsigned short *counts;
    cudaMalloc(&counts, 8);
    cudaMemset(counts, 0xff, 4);
    count_in_new_memory<<<1, 1>>>(counts);
    cudaError_t error = finished();
    cudaFree(counts);
    return error;
}

/* The next block finds what the last one left behind, but that is not its own data. */
__global__ void left_behind(int *data)
{
    __shared__ int s[32];
    if (blockIdx.x == 0)
        s[threadIdx.x] = 1;
    data[blockIdx.x * 32 + threadIdx.x] = s[threadIdx.x];
}

BROKEN(left_behind, left_behind<<<2, 32>>>(data))

/* What blocks of a cluster write, in global memory too, is ordered only by an arrival that is not
 * relaxed. */
__global__ void cluster_relaxed(int *data)
{
    const int other = cluster_rank() ^ 1;
    data[32 * cluster_rank() + threadIdx.x] = threadIdx.x; /* MARK cluster_relaxed_write */
    cluster_arrive_relaxed();
    cluster_wait();
    const int read = data[32 * other + threadIdx.x]; /* MARK cluster_relaxed_read */
    data[64 + 32 * other + threadIdx.x] = read;
}

/* A block's own barrier orders nothing in its neighbour. */
__global__ void cluster_block_barrier(int *data)
{
    __shared__ float2 box[32];
    const int other = cluster_rank() ^ 1;
    cluster_arrive_relaxed();
    cluster_wait();
    cluster_store(cluster_address(shared_address(&box[threadIdx.x]), other), /* MARK cluster_push */
                  make_float2(1.0f, 2.0f));
    __syncthreads();
    data[32 * other + threadIdx.x] = (int)box[31 - threadIdx.x].y; /* MARK cluster_pull */
    cluster_arrive();
    cluster_wait();
}

BROKEN(cluster_relaxed, launch_in_clusters(2, 2, 32, 0, NULL, cluster_relaxed, data))

BROKEN(cluster_block_barrier, launch_in_clusters(2, 2, 32, 0, NULL, cluster_block_barrier, data))
