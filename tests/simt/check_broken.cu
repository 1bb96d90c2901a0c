/*
 * Kernels with one bug each. test_simt_check.c says which error each is, and that its report names
 * the lines that bear the marks in the comments.
 */
#include "check_kernels.h"
#include "ptx.cuh"
#include "clusters.cuh"

#include <cuda/barrier>
#include <string.h>

static cudaError_t finished(void)
{
    cudaError_t error = cudaGetLastError();
    return error != cudaSuccess ? error : cudaDeviceSynchronize();
}

/* --------------------------------------------------------------------------------------- out of
 * bounds */

__global__ void load_past_end(int *data)
{
    int last = data[CHECK_INTS - 1 + threadIdx.x]; /* MARK load_past_end */
    if (last == 12345)
        data[0] = 1;
}

static cudaError_t run_load_past_end(int *data)
{
    load_past_end<<<1, 2>>>(data);
    return finished();
}

__global__ void store_before_start(int *data)
{
    data[-1 - (int)threadIdx.x] = 1; /* MARK store_before_start */
}

static cudaError_t run_store_before_start(int *data)
{
    store_before_start<<<1, 1>>>(data);
    return finished();
}

__global__ void wild_address(int *data)
{
    data[1u << 30] = 1;
}

static cudaError_t run_wild_address(int *data)
{
    wild_address<<<1, 1>>>(data);
    return finished();
}

__global__ void store_one(int *data)
{
    data[threadIdx.x] = 1; /* MARK store_one */
}

static cudaError_t run_use_after_free(int *data)
{
    (void)data;
    int *gone;
    cudaMalloc(&gone, 256);
    cudaFree(gone);
    store_one<<<1, 1>>>(gone);
    return finished();
}

static cudaError_t run_null_pointer(int *data)
{
    (void)data;
    store_one<<<1, 1>>>(nullptr);
    return finished();
}

static cudaError_t run_host_pointer(int *data)
{
    (void)data;
    int *host = (int *)malloc(256);
    store_one<<<1, 1>>>(host);
    cudaError_t error = finished();
    free(host);
    return error;
}

/* Not a kernel: the host itself reads what it can only copy. */
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

static cudaError_t run_dynamic_past_end(int *data)
{
    store_dynamic<<<1, 1, 64 * sizeof(int)>>>(data, 64);
    return finished();
}

static cudaError_t run_dynamic_none(int *data)
{
    store_dynamic<<<1, 1>>>(data, 0);
    return finished();
}

__global__ void store_static(int *data, int x)
{
    __shared__ int s[4][32];
    s[1][x] = 1; /* MARK store_static */
    data[0] = s[1][x];
}

static cudaError_t run_static_index(int *data)
{
    store_static<<<1, 1>>>(data, 32);
    return finished();
}

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

static cudaError_t run_past_static(int *data)
{
    past_static<<<1, 37>>>(data);
    return finished();
}

__global__ void copy_too_much(int *data)
{
    int local[8];
    memcpy(local, data + CHECK_INTS - 4, sizeof local); /* MARK copy_too_much */
    data[0] = local[threadIdx.x];
}

static cudaError_t run_copy_too_much(int *data)
{
    copy_too_much<<<1, 1>>>(data);
    return finished();
}

__global__ void load_misaligned(const float *in, float *out)
{
    float4 four = *(const float4 *)(in + threadIdx.x + 1); /* MARK load_misaligned */
    out[threadIdx.x] = four.x;
}

static cudaError_t run_misaligned(int *data)
{
    load_misaligned<<<1, 1>>>((const float *)data, (float *)data + 64);
    return finished();
}

/* Vectors in a part of dynamic shared memory that begins behind an odd number of floats. */
__global__ void store_behind_odd(float *out)
{
    extern __shared__ float both[];
    float4 *const vectors = (float4 *)&both[3];
    vectors[threadIdx.x] = make_float4(1, 2, 3, 4); /* MARK store_behind_odd */
    out[threadIdx.x] = vectors[threadIdx.x].x;
}

static cudaError_t run_misaligned_dynamic(int *data)
{
    store_behind_odd<<<1, 4, 128>>>((float *)data);
    return finished();
}

/* -------------------------------------------------------------------------------------------------
 * races */

__global__ void no_barrier(int *data)
{
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;            /* MARK no_barrier_write */
    data[threadIdx.x] = s[63 - threadIdx.x]; /* MARK no_barrier_read */
}

static cudaError_t run_no_barrier(int *data)
{
    no_barrier<<<1, 64>>>(data);
    return finished();
}

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

static cudaError_t run_no_second_barrier(int *data)
{
    no_second_barrier<<<1, 64>>>(data);
    return finished();
}

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

static cudaError_t run_no_syncwarp(int *data)
{
    no_syncwarp<<<1, 32>>>(data);
    return finished();
}

/* As written before Volta: volatile instead of __syncwarp. */
__global__ void volatile_warp(int *data)
{
    __shared__ int s[64];
    volatile int *v = s;
    v[threadIdx.x] = threadIdx.x;
    v[threadIdx.x + 32] = threadIdx.x;
    v[threadIdx.x] = v[threadIdx.x] + v[threadIdx.x + 16]; /* MARK volatile_warp */
    data[threadIdx.x] = v[0];
}

static cudaError_t run_volatile_warp(int *data)
{
    volatile_warp<<<1, 32>>>(data);
    return finished();
}

__global__ void shuffle_instead_of_barrier(int *data)
{
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x;
    __shfl_sync(0xffffffff, 0, 0); /* brings the lanes together, but orders no memory */
    data[threadIdx.x] = s[31 - threadIdx.x];
}

static cudaError_t run_shuffle_instead_of_barrier(int *data)
{
    shuffle_instead_of_barrier<<<1, 32>>>(data);
    return finished();
}

__global__ void half_a_warp(int *data)
{
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x;
    __syncwarp(threadIdx.x < 16 ? 0x0000ffff : 0xffff0000); /* each half for itself */
    data[threadIdx.x] = s[31 - threadIdx.x];                /* but this crosses the halves */
}

static cudaError_t run_half_a_warp(int *data)
{
    half_a_warp<<<1, 32>>>(data);
    return finished();
}

__global__ void same_place(int *data)
{
    __shared__ int winner;
    winner = threadIdx.x; /* MARK same_place */
    __syncthreads();      /* somebody has won */
    data[threadIdx.x] = winner;
}

static cudaError_t run_same_place(int *data)
{
    same_place<<<1, 64>>>(data);
    return finished();
}

struct seven {
    int first, others[6];
};

static __device__ __noinline__ struct seven seven_of(int first)
{
    const struct seven result = {first, {0, 0, 0, 0, 0, 0}};
    return result;
}

/* Copied whole; only the first of its members differs from thread to thread. */
__global__ void same_struct(int *data)
{
    __shared__ struct seven winner;
    winner = seven_of(threadIdx.x); /* MARK same_struct */
    __syncthreads();                /* somebody has won */
    data[threadIdx.x] = winner.first;
}

static cudaError_t run_same_struct(int *data)
{
    same_struct<<<1, 64>>>(data);
    return finished();
}

__global__ void neighbouring_bytes(int *data)
{
    __shared__ unsigned char s[64];
    s[threadIdx.x] = 1;
    data[threadIdx.x] = s[threadIdx.x ^ 1];
}

static cudaError_t run_neighbouring_bytes(int *data)
{
    neighbouring_bytes<<<1, 64>>>(data);
    return finished();
}

__global__ void global_in_block(int *data)
{
    data[threadIdx.x] = threadIdx.x;                 /* MARK global_in_block_write */
    data[64 + threadIdx.x] = data[63 - threadIdx.x]; /* MARK global_in_block_read */
}

static cudaError_t run_global_in_block(int *data)
{
    global_in_block<<<1, 64>>>(data);
    return finished();
}

__global__ void sum_without_atomic(int *data)
{
    if (threadIdx.x == 0)
        data[0] += blockIdx.x + 1; /* MARK sum_without_atomic */
}

static cudaError_t run_sum_without_atomic(int *data)
{
    sum_without_atomic<<<4, 32>>>(data);
    return finished();
}

__global__ void shift_left(int *data)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int right = data[x + 1]; /* MARK shift_left_read */
    __syncthreads();         /* orders this block only */
    data[x] = right;         /* MARK shift_left_write */
}

static cudaError_t run_shift_left(int *data)
{
    shift_left<<<4, 32>>>(data);
    return finished();
}

__global__ void atomic_and_plain(int *data)
{
    if (blockIdx.x == 0)
        atomicAdd(&data[0], 1); /* MARK atomic_side */
    else
        data[1] = data[0]; /* MARK plain_side */
}

static cudaError_t run_atomic_and_plain(int *data)
{
    atomic_and_plain<<<2, 1>>>(data);
    return finished();
}

/* A plain store beside a loop of compare-and-swap is no guess. */
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

static cudaError_t run_swap_and_plain(int *data)
{
    swap_and_plain<<<2, 1>>>(data);
    return finished();
}

/* The sum is made by atomic operations, and so is the count, but no fence is between them. */
__global__ void last_block_of_atomics(int *data)
{
    atomicAdd(&data[1 + blockIdx.x % 2], 1);          /* MARK sum_side */
    if (atomicAdd(&data[0], 1) == (int)gridDim.x - 1) /* MARK count_side */
        data[100] = data[1] + data[2];                /* MARK total_side */
}

static cudaError_t run_last_block_of_atomics(int *data)
{
    last_block_of_atomics<<<4, 1>>>(data);
    return finished();
}

__global__ void use_freed_heap(int *data)
{
    int *mine = new int[4];
    mine[3] = 1;
    delete[] mine;
    data[0] = mine[3]; /* MARK use_freed_heap */
}

static cudaError_t run_use_freed_heap(int *data)
{
    use_freed_heap<<<1, 1>>>(data);
    return finished();
}

__global__ void free_twice(int *data)
{
    int *mine = (int *)malloc(4);
    free(mine);
    free(mine);
    data[0] = 1;
}

static cudaError_t run_free_twice(int *data)
{
    free_twice<<<1, 1>>>(data);
    return finished();
}

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

static cudaError_t run_no_first_barrier(int *data)
{
    no_first_barrier<<<1, 64>>>(data);
    return finished();
}

/* Half the threads store. The shuffles must not make the checker believe in a barrier. */
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

static cudaError_t run_no_last_barrier(int *data)
{
    no_last_barrier<<<1, 64>>>(data);
    return finished();
}

/* bar.sync counts arrivals and lets these pass, CUDA C++ does not promise it. */
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

static cudaError_t run_warps_at_two_barriers(int *data)
{
    warps_at_two_barriers<<<1, 64>>>(data);
    return finished();
}

/* Lane 1 is gone when the first lane arrives; the others are only not there yet. */
__global__ void one_lane_returns(int *data)
{
    if (threadIdx.x == 1)
        return;
    data[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0); /* MARK one_lane_returns */
}

static cudaError_t run_one_lane_returns(int *data)
{
    one_lane_returns<<<1, 32>>>(data);
    return finished();
}

/* Who only arrives does not know what the others did. */
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

static cudaError_t run_arrives_without_waiting(int *data)
{
    arrives_without_waiting<<<1, 64>>>(data);
    return finished();
}

/* An address is said as the caller knows it, whatever guards lie around it. */
__global__ void element_of_argument(const float *A, double *B, int n)
{
    if (threadIdx.x == 0)
        B[n] = A[0] + 1;
    else
        B[n] = A[1]; /* MARK element_of_argument */
}

static cudaError_t run_element_of_argument(int *data)
{
    element_of_argument<<<1, 2>>>((float *)data, (double *)(data + 1024), 441);
    return finished();
}

/* The last block to finish adds up what all wrote, but no block made its writes visible before
 * counting itself.
 */
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

static cudaError_t run_last_block_without_fence(int *data)
{
    last_block_without_fence<<<8, 32>>>(data);
    return finished();
}

/* The turn is passed on with a fence, but taken without one: the sum may be read before the turn
 * was seen. */
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

static cudaError_t run_turn_without_fence(int *data)
{
    turn_without_fence<<<4, 32>>>(data);
    return finished();
}

/* --------------------------------------------------------------------------------------- who does
 * not come */

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

static cudaError_t run_early_return(int *data)
{
    early_return<<<1, 64>>>(data, 40);
    return finished();
}

__global__ void barrier_for_some(int *data)
{
    if (threadIdx.x < 16)
        __syncthreads(); /* MARK barrier_for_some */
    data[threadIdx.x] = 1;
}

static cudaError_t run_barrier_for_some(int *data)
{
    barrier_for_some<<<1, 64>>>(data);
    return finished();
}

__global__ void shuffle_for_some(int *data)
{
    int sum = threadIdx.x;
    if (threadIdx.x < 24)
        sum += __shfl_down_sync(0xffffffff, sum, 1); /* MARK shuffle_for_some */
    data[threadIdx.x] = sum;
}

static cudaError_t run_shuffle_for_some(int *data)
{
    shuffle_for_some<<<1, 32>>>(data);
    return finished();
}

/* -------------------------------------------------------------------------------------------------
 * uninitialised */

__global__ void uninitialised_static(int *data)
{
    __shared__ int s[32];
    if (threadIdx.x > 0)
        s[threadIdx.x] = 1;
    __syncthreads();                    /* s is complete, but for s[0] */
    data[threadIdx.x] = s[threadIdx.x]; /* MARK uninitialised_static */
}

static cudaError_t run_uninitialised_static(int *data)
{
    uninitialised_static<<<1, 32>>>(data);
    return finished();
}

__global__ void uninitialised_dynamic(int *data)
{
    extern __shared__ int s[];
    data[threadIdx.x] = s[threadIdx.x]; /* MARK uninitialised_dynamic */
}

static cudaError_t run_uninitialised_dynamic(int *data)
{
    uninitialised_dynamic<<<1, 32, 128>>>(data);
    return finished();
}

__global__ void uninitialised_counter(int *data)
{
    __shared__ int count;
    atomicAdd(&count, 1); /* MARK uninitialised_counter */
    __syncthreads();      /* count is complete */
    data[threadIdx.x] = count;
}

static cudaError_t run_uninitialised_counter(int *data)
{
    uninitialised_counter<<<1, 32>>>(data);
    return finished();
}

/* The next block finds what the last one left behind: it is not its own. */
__global__ void left_behind(int *data)
{
    __shared__ int s[32];
    if (blockIdx.x == 0)
        s[threadIdx.x] = 1;
    data[blockIdx.x * 32 + threadIdx.x] = s[threadIdx.x];
}

static cudaError_t run_left_behind(int *data)
{
    left_behind<<<2, 32>>>(data);
    return finished();
}

/* What blocks of a cluster write in global memory, too, is ordered by nothing but an arrival that
 * is not relaxed. */
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

static cudaError_t run_cluster_relaxed(int *data)
{
    cudaError_t error = launch_in_clusters(2, 2, 32, 0, NULL, cluster_relaxed, data);
    return error != cudaSuccess ? error : finished();
}

static cudaError_t run_cluster_block_barrier(int *data)
{
    cudaError_t error = launch_in_clusters(2, 2, 32, 0, NULL, cluster_block_barrier, data);
    return error != cudaSuccess ? error : finished();
}

const struct check_case broken_programs[] = {
    {"load_past_end", run_load_past_end},
    {"store_before_start", run_store_before_start},
    {"wild_address", run_wild_address},
    {"use_after_free", run_use_after_free},
    {"null_pointer", run_null_pointer},
    {"host_pointer", run_host_pointer},
    {"dynamic_past_end", run_dynamic_past_end},
    {"dynamic_none", run_dynamic_none},
    {"static_index", run_static_index},
    {"past_static", run_past_static},
    {"copy_too_much", run_copy_too_much},
    {"misaligned", run_misaligned},
    {"misaligned_dynamic", run_misaligned_dynamic},
    {"no_barrier", run_no_barrier},
    {"no_second_barrier", run_no_second_barrier},
    {"no_syncwarp", run_no_syncwarp},
    {"volatile_warp", run_volatile_warp},
    {"shuffle_instead_of_barrier", run_shuffle_instead_of_barrier},
    {"half_a_warp", run_half_a_warp},
    {"same_place", run_same_place},
    {"same_struct", run_same_struct},
    {"neighbouring_bytes", run_neighbouring_bytes},
    {"global_in_block", run_global_in_block},
    {"sum_without_atomic", run_sum_without_atomic},
    {"shift_left", run_shift_left},
    {"atomic_and_plain", run_atomic_and_plain},
    {"swap_and_plain", run_swap_and_plain},
    {"last_block_of_atomics", run_last_block_of_atomics},
    {"use_freed_heap", run_use_freed_heap},
    {"free_twice", run_free_twice},
    {"no_first_barrier", run_no_first_barrier},
    {"no_last_barrier", run_no_last_barrier},
    {"warps_at_two_barriers", run_warps_at_two_barriers},
    {"one_lane_returns", run_one_lane_returns},
    {"element_of_argument", run_element_of_argument},
    {"arrives_without_waiting", run_arrives_without_waiting},
    {"last_block_without_fence", run_last_block_without_fence},
    {"turn_without_fence", run_turn_without_fence},
    {"early_return", run_early_return},
    {"barrier_for_some", run_barrier_for_some},
    {"shuffle_for_some", run_shuffle_for_some},
    {"uninitialised_static", run_uninitialised_static},
    {"uninitialised_dynamic", run_uninitialised_dynamic},
    {"uninitialised_counter", run_uninitialised_counter},
    {"left_behind", run_left_behind},
    {"cluster_relaxed", run_cluster_relaxed},
    {"cluster_block_barrier", run_cluster_block_barrier},
    {nullptr, nullptr},
};
