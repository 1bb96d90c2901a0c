/*
 * These correct programs look wrong to a careless checker. Each also checks its own result, and
 * returns cudaErrorUnknown when it is wrong.
 */
#include "check_kernels.h"
#include <ptx.cuh>
#include "device/clusters.cuh"

#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <string.h>

namespace cg = cooperative_groups;

struct check_case correct_programs[MOST_PROGRAMS];
/* Waits for the kernel. Then data[i] must be value(i) for each i below `count`. */
template <class Value>
static cudaError_t compare(const int *data, int count, Value value)
{
    static int found[CHECK_INTS];
    cudaError_t error = finished();
    if (error == cudaSuccess)
        error = cudaMemcpy(found, data, count * sizeof *found, cudaMemcpyDeviceToHost);
    for (int i = 0; error == cudaSuccess && i < count; i++)
        if (found[i] != value(i))
            error = cudaErrorUnknown;
    return error;
}

/* Defines a program of these statements, which make data[i] `value` for each i below `count`. */
#define CORRECT(name, count, value, ...)                                                           \
    CHECK_PROGRAM(correct_programs, name)                                                          \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
        return compare(data, count, []([[maybe_unused]] int i) { return value; });                 \
    }

/* ---- within a warp ---- */

__global__ void warp_sum(int *data)
{
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x;
    __syncwarp(); /* s is complete */
    for (int step = 16; step > 0; step /= 2) {
        if ((int)threadIdx.x < step)
            s[threadIdx.x] += s[threadIdx.x + step];
        __syncwarp(); /* this round's sums are there */
    }
    if (threadIdx.x == 0)
        data[0] = s[0];
}

CORRECT(warp_sum, 1, 496, warp_sum<<<1, 32>>>(data))

/* Every warp of a block works on its own part, with its own barrier. */
__global__ void warps_apart(int *data)
{
    __shared__ int s[4][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int round = 0; round <= warp; round++) {
        s[warp][lane] = lane + round;
        __syncwarp(); /* this warp's row is complete */
        int right = s[warp][(lane + 1) % 32];
        __syncwarp(); /* no lane reads the row any more */
        if (lane == 31)
            data[warp] = right;
    }
}

CORRECT(warps_apart, 4, i, warps_apart<<<1, 128>>>(data))

__global__ void half_warps(int *data)
{
    __shared__ int s[32];
    unsigned mask = threadIdx.x < 16 ? 0x0000ffff : 0xffff0000;
    s[threadIdx.x] = threadIdx.x;
    __syncwarp(mask); /* this half of s is complete */
    data[threadIdx.x] = s[threadIdx.x ^ 15];
}

CORRECT(half_warps, 32, i ^ 15, half_warps<<<1, 32>>>(data))

__global__ void tiles_of_eight(int *data)
{
    __shared__ int s[64];
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(cg::this_thread_block());
    s[threadIdx.x] = threadIdx.x;
    tile.sync(); /* this tile's eight are written */
    int other = s[threadIdx.x ^ 7];
    tile.sync(); /* and have been read */
    s[threadIdx.x] = other + tile.shfl(other, 0);
    data[threadIdx.x] = s[threadIdx.x];
}

CORRECT(tiles_of_eight, 64, (i ^ 7) + (i / 8 * 8 + 7), tiles_of_eight<<<1, 64>>>(data))

__global__ void shuffles_only(int *data)
{
    int sum = threadIdx.x;
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, step);
    if (threadIdx.x == 0)
        data[0] = sum;
}

CORRECT(shuffles_only, 1, 496, shuffles_only<<<1, 32>>>(data))

/* ---- within a block ---- */

/* Two buffers need one barrier a step: a thread that is ahead writes the buffer that no thread
 * reads. */
__global__ void double_buffer(int *data)
{
    __shared__ int s[2][64];
    int sum = 0;
    for (int k = 0; k < 5; k++) {
        s[k % 2][threadIdx.x] = threadIdx.x + k;
        __syncthreads(); /* buffer k % 2 is complete, and no thread uses the other one */
        sum += s[k % 2][63 - threadIdx.x];
    }
    data[threadIdx.x] = sum;
}

CORRECT(double_buffer, 64, 5 * (63 - i) + 10, double_buffer<<<1, 64>>>(data))

__global__ void padded_transpose(int *data)
{
    __shared__ int s[32][33];
    for (int y = threadIdx.y; y < 32; y += blockDim.y)
        s[y][threadIdx.x] = 32 * y + threadIdx.x;
    __syncthreads(); /* s is complete */
    for (int y = threadIdx.y; y < 32; y += blockDim.y)
        data[32 * y + threadIdx.x] = s[threadIdx.x][y];
}

CORRECT(padded_transpose, 1024, 32 * (i % 32) + i / 32, padded_transpose<<<1, dim3(32, 8)>>>(data))

__global__ void own_writes(int *data)
{
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    s[threadIdx.x] += 1;
    data[threadIdx.x] = s[threadIdx.x];
    data[threadIdx.x] += s[threadIdx.x];
}

CORRECT(own_writes, 64, 2 * (i + 1), own_writes<<<1, 64>>>(data))

/* All threads that find something write the same value, so the order does not matter. */
__global__ void same_value(int *data)
{
    __shared__ int found;
    if (threadIdx.x == 0)
        found = 0;
    __syncthreads(); /* found is cleared */
    if (threadIdx.x % 3 == 0)
        found = 1;
    __syncthreads(); /* all threads have looked */
    if (found)
        data[0] = 7;
}

CORRECT(same_value, 1, 7, same_value<<<4, 64>>>(data))

__global__ void bytes_and_halves(int *data)
{
    __shared__ unsigned char bytes[64];
    __shared__ unsigned short halves[64];
    bytes[threadIdx.x] = (unsigned char)threadIdx.x;
    halves[63 - threadIdx.x] = (unsigned short)threadIdx.x;
    bytes[threadIdx.x] += 1; /* the neighbour's byte is in the same word */
    __syncthreads();         /* both are complete */
    unsigned word = ((unsigned *)bytes)[threadIdx.x / 4];
    data[threadIdx.x] = (int)(word >> threadIdx.x % 4 * 8 & 255) + halves[threadIdx.x];
}

CORRECT(bytes_and_halves, 64, i + 1 + 63 - i, bytes_and_halves<<<1, 64>>>(data))

/* Arrays of different types share one piece of dynamic shared memory, used to the last byte. */
__global__ void carved(int *data)
{
    extern __shared__ double doubles[];
    float *floats = (float *)(doubles + 16);
    unsigned char *bytes = (unsigned char *)(floats + 16);
    int x = threadIdx.x;
    doubles[x] = x;
    floats[x] = (float)x;
    bytes[x] = (unsigned char)x;
    __syncthreads(); /* all three are complete */
    data[x] = (int)doubles[15 - x] + (int)floats[15 - x] + bytes[15 - x];
}

CORRECT(carved, 16, 3 * (15 - i), carved<<<1, 16, 16 * (8 + 4 + 1)>>>(data))

/* Two instances of one template have two arrays, and a second launch finds nothing of the first. */
template <int SIZE>
__global__ void instance(int *data)
{
    __shared__ int s[SIZE];
    for (int i = threadIdx.x; i < SIZE; i += blockDim.x)
        s[i] = i;
    __syncthreads(); /* s is complete */
    data[blockIdx.x * 32 + threadIdx.x] += s[SIZE - 1 - threadIdx.x];
}

CHECK_PROGRAM(correct_programs, instances)
{
    instance<64><<<2, 32>>>(data);
    instance<128><<<2, 32>>>(data);
    instance<128><<<2, 32>>>(data);
    return compare(data, 64, [](int i) { return (63 - i % 32) + 2 * (127 - i % 32); });
}

struct particle {
    float x, y, z;
    double mass;
};

__device__ __noinline__ void push(struct particle *particle, float by)
{
    particle->x += by;
    particle->mass *= 2;
}

__global__ void structs(int *data)
{
    __shared__ struct particle all[32];
    struct particle mine = {1, 2, 3, 4};
    push(&mine, (float)threadIdx.x);
    all[threadIdx.x] = mine;
    __syncthreads(); /* all are written */
    struct particle copy;
    memcpy(&copy, &all[31 - threadIdx.x], sizeof copy);
    data[threadIdx.x] = (int)copy.x + (int)copy.mass;
}

CORRECT(structs, 32, 1 + (31 - i) + 8, structs<<<1, 32>>>(data))

/* Structs with holes are filled member by member and copied whole. */
struct tagged {
    char tag;
    float value;
};

__global__ void padding(int *data)
{
    __shared__ struct tagged small[32];
    __shared__ struct particle large[32];
    small[threadIdx.x].tag = 1;
    small[threadIdx.x].value = (float)threadIdx.x;
    large[threadIdx.x].x = large[threadIdx.x].y = large[threadIdx.x].z = 1;
    large[threadIdx.x].mass = threadIdx.x;
    __syncthreads(); /* both are complete */
    struct tagged copy_of_small;
    memcpy(&copy_of_small, &small[31 - threadIdx.x], sizeof copy_of_small);
    struct particle copy_of_large = large[31 - threadIdx.x];
    push(&copy_of_large, 1);
    data[threadIdx.x] = (int)copy_of_small.value + copy_of_small.tag + (int)copy_of_large.mass;
}

CORRECT(padding, 32, 31 - i + 1 + 2 * (31 - i), padding<<<1, 32>>>(data))

/* ---- atomics ---- */

__global__ void histogram(int *data)
{
    __shared__ int bins[16];
    if (threadIdx.x < 16)
        bins[threadIdx.x] = 0;
    __syncthreads(); /* bins are empty */
    atomicAdd(&bins[threadIdx.x * 7 % 16], 1);
    __syncthreads(); /* this block's bins are complete */
    if (threadIdx.x < 16)
        atomicAdd(&data[threadIdx.x], bins[threadIdx.x]);
}

CORRECT(histogram, 16, 8 * 4, histogram<<<8, 64>>>(data))

/* The programming guide has this example: partial result, fence, counter; the last block to count
 * adds up. */
__global__ void last_block(int *data)
{
    __shared__ int last;
    if (threadIdx.x == 0) {
        data[1 + blockIdx.x] = blockIdx.x;
        __threadfence(); /* the partial result is visible before the count says so */
        last = atomicAdd(&data[0], 1) == (int)gridDim.x - 1;
    }
    __syncthreads(); /* all know whether this is the last block */
    if (last && threadIdx.x == 0) {
        int sum = 0;
        for (unsigned i = 0; i < gridDim.x; i++)
            sum += data[1 + i];
        data[0] = sum;
    }
}

CORRECT(last_block, 1, 63 * 32, last_block<<<64, 32>>>(data))

/* Here all threads write, each with its fence, and one counts for the block after a barrier. */
__global__ void last_block_all_threads(int *data)
{
    __shared__ int last;
    data[1 + blockIdx.x * blockDim.x + threadIdx.x] = 1;
    __threadfence(); /* visible before this thread arrives at the barrier */
    __syncthreads(); /* the whole block has written */
    if (threadIdx.x == 0)
        last = atomicAdd(&data[0], 1) == (int)gridDim.x - 1;
    __syncthreads(); /* all know whether this is the last block */
    if (!last)
        return;
    __shared__ int sum;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads(); /* sum is zero */
    for (unsigned i = threadIdx.x; i < gridDim.x * blockDim.x; i += blockDim.x)
        atomicAdd(&sum, data[1 + i]);
    __syncthreads(); /* sum is complete */
    if (threadIdx.x == 0)
        data[0] = sum;
}

CORRECT(last_block_all_threads, 1, 16 * 64, last_block_all_threads<<<16, 64>>>(data))

/* Here one fence by the counting thread, after the barrier, covers all threads' writes. */
__global__ void last_block_one_fence(int *data)
{
    __shared__ int last;
    data[1 + blockIdx.x * blockDim.x + threadIdx.x] = 1;
    __syncthreads(); /* the whole block has written */
    if (threadIdx.x == 0) {
        /* What the barrier made visible to this thread is visible to others before the count says
         * so. */
        __threadfence();
        last = atomicAdd(&data[0], 1) == (int)gridDim.x - 1;
    }
    __syncthreads(); /* all know whether this is the last block */
    if (last && threadIdx.x == 0) {
        int sum = 0;
        for (unsigned i = 0; i < gridDim.x * blockDim.x; i++)
            sum += data[1 + i];
        data[0] = sum;
    }
}

CORRECT(last_block_one_fence, 1, 16 * 64, last_block_one_fence<<<16, 64>>>(data))

/* Blocks add to one place in the order of their tickets. This is deterministic and needs no atomic
 * additions. */
__global__ void ordered_tickets(int *data)
{
    int *turn = &data[0], *ticket_counter = &data[1], *sum = &data[2];
    if (threadIdx.x != 0)
        return;
    int ticket = atomicAdd(ticket_counter, 1);
    while (atomicAdd(turn, 0) != ticket)
        ;
    __threadfence(); /* nothing below is read before the turn has come */
    *sum = 3 * *sum + ticket;
    __threadfence(); /* the sum is visible before the next turn */
    atomicExch(turn, ticket + 1);
}

CHECK_PROGRAM(correct_programs, ordered_tickets)
{
    int sum = 0;
    for (int ticket = 0; ticket < 10; ticket++)
        sum = 3 * sum + ticket;
    ordered_tickets<<<10, 32>>>(data);
    return compare(data, 3, [sum](int i) { return i < 2 ? 10 : sum; });
}

__global__ void spin_lock(int *data)
{
    int *lock = &data[0], *sum = &data[1];
    if (threadIdx.x != 0)
        return;
    while (atomicCAS(lock, 0, 1) != 0)
        ;
    __threadfence(); /* the sum is read with the lock held */
    *sum += 1;
    __threadfence(); /* and written before it is released */
    atomicExch(lock, 0);
}

CORRECT(spin_lock, 2, 12 * i, spin_lock<<<12, 32>>>(data))

/* One warp hands a value to another through shared memory, without a barrier. */
__global__ void flag_between_warps(int *data)
{
    __shared__ int value, flag;
    if (threadIdx.x == 0)
        flag = 0;
    __syncthreads(); /* flag is down */
    if (threadIdx.x == 0) {
        value = 9;
        __threadfence_block(); /* the value is visible before the flag */
        atomicExch(&flag, 1);
    }
    if (threadIdx.x == 32) {
        while (atomicAdd(&flag, 0) == 0)
            ;
        __threadfence_block(); /* the value is read after the flag */
        data[0] = value;
    }
}

CORRECT(flag_between_warps, 1, 9, flag_between_warps<<<1, 64>>>(data))

/* This does the same with volatile variables, polled by a thread that may well run first. */
__global__ void volatile_between_warps(int *data)
{
    __shared__ volatile int value, flag;
    if (threadIdx.x == 0)
        flag = 0;
    __syncthreads(); /* flag is down */
    if (threadIdx.x == 0) {
        value = 9;
        __threadfence_block(); /* the value is visible before the flag */
        flag = 1;
    }
    if (threadIdx.x == 32) {
        while (flag == 0)
            ;
        __threadfence_block(); /* the value is read after the flag */
        data[0] = value;
    }
}

CORRECT(volatile_between_warps, 1, 9, volatile_between_warps<<<1, 64>>>(data))

/* ---- global memory ---- */

/* In three launches, different threads and blocks touch the same places. */
__global__ void reverse(const int *from, int *to, int n)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    to[n - 1 - x] = from[x] + 1;
}

CHECK_PROGRAM(correct_programs, launches_in_a_row)
{
    int *other = data + 1024;
    reverse<<<4, 64>>>(data, other, 256);
    reverse<<<2, 128>>>(other, data, 256);
    reverse<<<8, 32>>>(data, other, 256);
    reverse<<<1, 256>>>(other, data, 256);
    return compare(data, 256, [](int) { return 4; });
}

__global__ void grid_steps(int *data, int n)
{
    cg::grid_group grid = cg::this_grid();
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int *from = data, *to = data + n;
    from[x] = x;
    for (int step = 0; step < 4; step++) {
        grid.sync(); /* `from` is complete, and no thread reads `to` any more */
        to[x] = from[(x + 1) % n];
        int *last = from;
        from = to;
        to = last;
    }
}

CHECK_PROGRAM(correct_programs, grid_steps)
{
    int n = 128;
    void *arguments[] = {&data, &n};
    cudaLaunchCooperativeKernel((const void *)grid_steps, dim3(4), dim3(32), arguments, 0, 0);
    return compare(data, n, [n](int i) { return (i + 4) % n; });
}

/* Different blocks write the two halves of a word. */
__global__ void halves_of_words(__half *data)
{
    data[2 * threadIdx.x + blockIdx.x] = __float2half((float)blockIdx.x);
}

CORRECT(halves_of_words, 32, 0x3c000000 /* 1 above 0 */, halves_of_words<<<2, 32>>>((__half *)data))

__constant__ int constants[4];
__device__ int counter;

__global__ void program_variables(int *data)
{
    static const int powers[4] = {1, 10, 100, 1000};
    atomicAdd(&counter, 1);
    data[threadIdx.x] = constants[threadIdx.x % 4] * powers[threadIdx.x % 4];
}

CHECK_PROGRAM(correct_programs, program_variables)
{
    static const int values[4] = {1, 2, 3, 4}, expected[4] = {1, 20, 300, 4000}, zero = 0;
    cudaMemcpyToSymbol(constants, values, sizeof values);
    cudaMemcpyToSymbol(counter, &zero, sizeof zero);
    program_variables<<<1, 64>>>(data);
    int counted = 0;
    cudaMemcpyFromSymbol(&counted, counter, sizeof counted);
    return counted != 64 ? cudaErrorUnknown
                         : compare(data, 64, [](int i) { return expected[i % 4]; });
}

__global__ void increment(int *to, const int *from)
{
    to[threadIdx.x] = from[threadIdx.x] + 1;
}

/* Host and kernels share memory: the host touches it between launches. */
CHECK_PROGRAM(correct_programs, shared_with_host)
{
    int *managed, *pinned;
    cudaMallocManaged((void **)&managed, 32 * sizeof *managed);
    cudaMallocHost((void **)&pinned, 32 * sizeof *pinned);
    for (int i = 0; i < 32; i++)
        managed[i] = i;
    increment<<<1, 32>>>(pinned, managed);
    cudaDeviceSynchronize();
    for (int i = 0; i < 32; i++)
        pinned[i] += 1;
    increment<<<1, 32>>>(data, pinned);
    cudaError_t error = compare(data, 32, [](int i) { return i + 3; });
    cudaFree(managed);
    cudaFreeHost(pinned);
    return error;
}

/*
 * Blocks of a cluster pass data round, in shared and in global memory. The second warp stores for
 * the first, which has waited for the other blocks to begin; the block's barrier orders the two
 * warps.
 */
__global__ void cluster_ring(int *out)
{
    __shared__ float2 box[64];
    __shared__ int own;
    const int rank = cluster_rank(), blocks = cluster_blocks(), next = (rank + 1) % blocks;
    const int cluster = 4 * (blockIdx.y / 2), block = cluster + rank;
    cluster_arrive_relaxed();
    own = 7; /* all threads store the same value, in their own block's variable */
    if (threadIdx.x < 32)
        cluster_wait();
    __syncthreads(); /* the second warp knows that the first has waited */
    if (threadIdx.x >= 32)
        for (int i = threadIdx.x - 32; i < 64; i += 32)
            cluster_store(cluster_address(shared_address(&box[i]), next),
                          make_float2((float)(64 * rank + i), (float)own));
    out[1024 + 64 * block + threadIdx.x] = 10 * block;
    if (threadIdx.x >= 32)
        cluster_wait();
    cluster_arrive();
    cluster_wait(); /* all have stored, in both memories */
    const int before = (rank + blocks - 1) % blocks;
    out[64 * block + threadIdx.x] = (int)box[63 - threadIdx.x].x + (int)box[threadIdx.x].y +
                                    out[1024 + 64 * (cluster + before) + 63 - threadIdx.x];

    /* The cluster does it once more with the same boxes: no block stores before the last phase's
     * reads. */
    cluster_arrive();
    cluster_wait(); /* all blocks have read their boxes */
    cluster_store(cluster_address(shared_address(&box[threadIdx.x]), next),
                  make_float2(0.0f, 1.0f));
    cluster_arrive();
    cluster_wait(); /* all boxes are full, and no block ends while another stores */
    out[64 * block + threadIdx.x] += (int)box[63 - threadIdx.x].y;
}

CHECK_PROGRAM(correct_programs, cluster_ring)
{
    enum { BLOCKS = 12, SIZE = 4 };
    launch_in_clusters(dim3(2, 2), dim3(2, 2 * BLOCKS / SIZE), 64, 0, NULL, cluster_ring, data);
    return compare(data, 64 * BLOCKS, [](int i) {
        const int block = i / 64, before = (block + SIZE - 1) % SIZE;
        return 64 * before + 63 - i % 64 + 7 + 10 * (block - block % SIZE + before) + 1;
    });
}

/* All threads of one block poll for what the other block does. */
__global__ void cluster_flag(int *data)
{
    if (cluster_rank() == 0) {
        while (atomicAdd(&data[64], 0) == 0) {
        }
        __threadfence();
        data[threadIdx.x] = data[65] + (int)threadIdx.x;
    } else if (threadIdx.x == 0) {
        data[65] = 5;
        __threadfence();
        atomicExch(&data[64], 1);
    }
}

CORRECT(cluster_flag, 64, 5 + i, launch_in_clusters(2, 2, 64, 0, NULL, cluster_flag, data))

/* The Programming Guide has this loop: the plain read is a guess, which the compare-and-swap
 * confirms. */
__device__ unsigned add_by_swap(unsigned *address, unsigned value)
{
    unsigned old = *address, assumed;
    do {
        assumed = old;
        old = atomicCAS(address, assumed, assumed + value);
    } while (assumed != old);
    return old;
}

__device__ double add_doubles(double *address, double value)
{
    unsigned long long *words = (unsigned long long *)address, old = *words, assumed;
    do {
        assumed = old;
        old = atomicCAS(words, assumed,
                        __double_as_longlong(value + __longlong_as_double((long long)assumed)));
    } while (assumed != old);
    return __longlong_as_double((long long)old);
}

__global__ void guess_and_swap(int *data)
{
    __shared__ unsigned sum;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads(); /* sum is zero */
    add_by_swap(&sum, 1);
    add_by_swap((unsigned *)&data[0], threadIdx.x);
    add_doubles((double *)&data[4], 1);
    __syncthreads(); /* sum is complete */
    if (threadIdx.x == 0)
        atomicAdd(&data[1], (int)sum);
}

CORRECT(guess_and_swap, 2, i == 0 ? 6 * 63 * 32 : 6 * 64, guess_and_swap<<<6, 64>>>(data))

/* All bits that are read are ones, as in new memory, but they were written: by the host in pieces,
 * by a fill, and by a kernel byte by byte. */
__global__ void write_ones(signed char *bytes)
{
    bytes[threadIdx.x] = -1;
}

__global__ void add_ones(const int *host, const int *fill, const int *kernel, int *data)
{
    data[threadIdx.x] = host[threadIdx.x] + fill[threadIdx.x] + kernel[threadIdx.x];
}

CHECK_PROGRAM(correct_programs, ones_in_new_memory)
{
    static const int minus_one = -1;
    int *memory;
    cudaMalloc(&memory, 96);
    for (int i : {3, 0, 6, 2, 5, 1, 7, 4})
        cudaMemcpy(memory + i, &minus_one, 4, cudaMemcpyHostToDevice);
    cudaMemset(memory + 8, 0xff, 32);
    write_ones<<<1, 32>>>((signed char *)(memory + 16));
    add_ones<<<1, 8>>>(memory, memory + 8, memory + 16, data);
    cudaError_t error = compare(data, 8, [](int) { return -3; });
    cudaFree(memory);
    return error;
}

/* A function and the kernel that calls it use this shared variable of the file. */
__shared__ int of_the_file[64];

__device__ void fill_file_variable(int value)
{
    of_the_file[threadIdx.x] = value;
    __syncthreads(); /* it is full */
}

__global__ void file_variable(int *data)
{
    fill_file_variable((int)threadIdx.x);
    data[threadIdx.x] = of_the_file[63 - threadIdx.x];
}

CORRECT(file_variable, 64, 63 - i, file_variable<<<1, 64>>>(data))

/* In halves 2^20 would be infinite. */
__global__ void bfloat16_fragments(int *data)
{
    using namespace nvcuda;
    __shared__ __nv_bfloat16 A[256], B[256];
    __shared__ float D[256];
    for (int i = threadIdx.x; i < 256; i += 32) {
        A[i] = __float2bfloat16(i / 16 == i % 16 ? 1 << 20 : 0);
        B[i] = __float2bfloat16(i / 16 + 2 * (i % 16));
    }
    __syncwarp(); /* A and B are complete */
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> d;
    wmma::load_matrix_sync(a, A, 16);
    wmma::load_matrix_sync(b, B, 16);
    wmma::fill_fragment(d, 0.0f);
    wmma::mma_sync(d, a, b, d);
    wmma::store_matrix_sync(D, d, 16, wmma::mem_row_major);
    __syncwarp(); /* D is complete */
    for (int i = threadIdx.x; i < 256; i += 32)
        data[i] = (int)D[i];
}

CORRECT(bfloat16_fragments, 256, (i / 16 + 2 * (i % 16)) << 20, bfloat16_fragments<<<1, 32>>>(data))

/* Structs with padding are copied whole: the padding is never written. */
struct padded {
    double value;
    int index;
};

__global__ void fill_padded(struct padded *all)
{
    all[threadIdx.x].value = threadIdx.x;
    all[threadIdx.x].index = 2 * (int)threadIdx.x;
}

__global__ void copy_padded(const struct padded *all, struct padded *other, int *data)
{
    __shared__ struct padded s[64];
    s[threadIdx.x].value = all[threadIdx.x].value;
    s[threadIdx.x].index = all[threadIdx.x].index;
    __syncthreads(); /* s is complete */
    const struct padded theirs = s[63 - threadIdx.x];
    other[threadIdx.x] = all[threadIdx.x];
    other[64 + threadIdx.x] = theirs;
    data[threadIdx.x] = theirs.index + other[threadIdx.x].index;
}

CHECK_PROGRAM(correct_programs, padding_in_new_memory)
{
    struct padded *all;
    cudaMalloc(&all, 3 * 64 * sizeof *all);
    fill_padded<<<1, 64>>>(all);
    copy_padded<<<1, 64>>>(all, all + 64, data);
    cudaError_t error = compare(data, 64, [](int) { return 126; });
    cudaFree(all);
    return error;
}
