/*
 * These are the PTX instructions that the kernels use, one small function for each.
 *
 * PTX is the GPU's portable assembly. Some of what the hardware can do has no name in CUDA C++:
 * matrix products on registers, asynchronous copies, barriers that count bytes. Every such
 * instruction is here, with its operands, its shapes and which lane holds what; kernels call these
 * functions and contain no assembly themselves. Each comment names the instruction as the PTX ISA
 * manual does, chapter "Instruction Set"; sm_XX is the first architecture that has it.
 *
 * Addresses in shared memory are 32-bit numbers, made by shared_address(). A fragment is a matrix
 * spread over the lanes of a warp; its elements are halves, two to a 32-bit register (the lower
 * half first), or floats.
 *
 * The CPU backend has a file of the same name that does the same work in plain C.
 */
#ifndef COMMON_PTX_CUH
#define COMMON_PTX_CUH

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* Products take two element types: __half and __nv_bfloat16. */
template <typename T>
constexpr bool is_bfloat16 = false;
template <>
constexpr bool is_bfloat16<__nv_bfloat16> = true;

/* ---- addresses ---- */

/*
 * Returns an address in shared memory as the instructions below want it: 32 bits, counted from the
 * start of the block's shared window (cvta).
 */
__device__ __forceinline__ uint32_t shared_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

/* ---- loads and reads that the compiler does not move ---- */

/*
 * Loads 16 bytes from shared memory, aligned to 16 (ld.volatile.shared). An ordinary load returns
 * the same value, but the compiler may move it down to just before its first use to save registers,
 * and then the value arrives too late. This load keeps its place in program order among the other
 * volatile accesses, copies and barriers.
 */
__device__ __forceinline__ float4 volatile_load(const float *shared)
{
    float4 value;
    asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "r"(shared_address(shared)));
    return value;
}

/* Does the same for 8 bytes, aligned to 8. */
__device__ __forceinline__ float2 volatile_load_2(const float *shared)
{
    float2 value;
    asm volatile("ld.volatile.shared.v2.f32 {%0, %1}, [%2];"
                 : "=f"(value.x), "=f"(value.y)
                 : "r"(shared_address(shared)));
    return value;
}

/*
 * The lane's number, in blocks of one dimension threadIdx.x % 32 (%laneid). Where registers are few
 * the compiler reads threadIdx.x anew in every turn of a loop, as early as it can; the read queues
 * behind stores and additions to memory (S2R), and what needs it waits. This read stays where it
 * stands.
 */
__device__ __forceinline__ int volatile_lane(void)
{
    int lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

/* ---- asynchronous copies by every thread ---- */

/*
 * Copies 4 or 16 bytes from global to shared memory without passing through registers, sm_80
 * (cp.async). Both addresses are aligned to the size. The data has arrived only after a
 * cp_async_wait() that covers the copy, and at first only this thread sees the data: a barrier
 * makes it visible to the others. The 16-byte copy skips the L1 cache.
 *
 * With _zero_fill the copy reads only the first `source_bytes` bytes (a multiple of 4; at 0 it
 * reads nothing and ignores `global`). The rest of the destination becomes zero, as rows of a tile
 * past the end of the array need.
 *
 * sm_75 has no such instruction. There the copy is a load and a store that are done when the
 * function returns, and commit and wait do nothing.
 */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800

__device__ __forceinline__ void cp_async_4_zero_fill(uint32_t shared, const void *global,
                                                     int source_bytes)
{
    *(uint32_t *)__cvta_shared_to_generic(shared) =
        source_bytes == 4 ? *(const uint32_t *)global : 0;
}

__device__ __forceinline__ void cp_async_4(uint32_t shared, const void *global)
{
    cp_async_4_zero_fill(shared, global, 4);
}

__device__ __forceinline__ void cp_async_16(uint32_t shared, const void *global)
{
    *(uint4 *)__cvta_shared_to_generic(shared) = *(const uint4 *)global;
}

__device__ __forceinline__ void cp_async_16_zero_fill(uint32_t shared, const void *global,
                                                      int source_bytes)
{
    if (source_bytes == 16) {
        cp_async_16(shared, global);
    } else {
        for (int byte = 0; byte < 16; byte += 4)
            cp_async_4_zero_fill(shared + byte, (const char *)global + byte,
                                 byte < source_bytes ? 4 : 0);
    }
}

__device__ __forceinline__ void cp_async_commit(void)
{
}

template <int PENDING>
__device__ __forceinline__ void cp_async_wait(void)
{
}

#else

__device__ __forceinline__ void cp_async_4(uint32_t shared, const void *global)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(global) : "memory");
}

__device__ __forceinline__ void cp_async_4_zero_fill(uint32_t shared, const void *global,
                                                     int source_bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global),
                 "r"(source_bytes)
                 : "memory");
}

__device__ __forceinline__ void cp_async_16(uint32_t shared, const void *global)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

__device__ __forceinline__ void cp_async_16_zero_fill(uint32_t shared, const void *global,
                                                      int source_bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
                 "r"(source_bytes)
                 : "memory");
}

/* Closes this thread's current group of copies, even an empty one (cp.async.commit_group). */
__device__ __forceinline__ void cp_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most the PENDING newest groups of this thread are still in flight
 * (cp.async.wait_group). */
template <int PENDING>
__device__ __forceinline__ void cp_async_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

#endif

/* ---- matrices between shared memory and registers ---- */

/*
 * Loads four 8 x 8 matrices of halves, sm_75 (ldmatrix). Executed by the whole warp. A matrix is
 * eight rows of 16 bytes anywhere in shared memory, each aligned to 16: lane i passes the address
 * of row i % 8 of matrix i / 8, and register r[j] receives two elements of matrix j: row lane / 4,
 * columns 2 * (lane % 4) and the one after it.
 *
 *     matrix j     columns 0 1     2 3     4 5     6 7
 *     row 0        lane 0          1       2       3
 *     row 1        lane 4          5       6       7
 *     ...
 *     row 7        lane 28         29      30      31
 *
 * With _transposed the lane holds rows 2 * (lane % 4) and the one after it of column lane / 4
 * instead.
 */
__device__ __forceinline__ void ldmatrix_x4(uint32_t r[4], uint32_t row_address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row_address)
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_x4_transposed(uint32_t r[4], uint32_t row_address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row_address)
                 : "memory");
}

/*
 * Stores four 8 x 8 matrices of halves, sm_90 (stmatrix). Lane i passes the address of row i % 8 of
 * matrix i / 8, and r[j] holds this lane's two elements of matrix j, as in the table above.
 */
__device__ __forceinline__ void stmatrix_x4(uint32_t row_address, const uint32_t r[4])
{
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row_address),
        "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
        : "memory");
}

/*
 * Transposes one 8 x 8 matrix of halves within the warp's registers, sm_75 (movmatrix). Executed by
 * the whole warp. Each lane passes its two elements, as ldmatrix_x4 leaves them, and receives the
 * two that ldmatrix_x4_transposed would have left.
 */
__device__ __forceinline__ uint32_t movmatrix_transposed(uint32_t r)
{
    uint32_t transposed;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(r));
    return transposed;
}

/* ---- additions to memory ---- */

/*
 * Adds four floats to four neighbouring ones in global memory, each atomically: one request where
 * there were four, sm_90 (red.v4.f32). Older devices add one after the other. The address is a
 * multiple of 16.
 */
__device__ __forceinline__ void red_add_4(float *global, float4 value)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(
                     __cvta_generic_to_global(global)),
                 "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
                 : "memory");
#else
    atomicAdd(&global[0], value.x);
    atomicAdd(&global[1], value.y);
    atomicAdd(&global[2], value.z);
    atomicAdd(&global[3], value.w);
#endif
}

/* ---- matrix product by a warp ---- */

/*
 * Computes D += A * B on the tensor cores, with inputs of type T and float sums, sm_80 (mma.sync,
 * shape m16n8k16). Executed by the whole warp. A is 16 x 16, B is 16 x 8, D is 16 x 8. With g =
 * lane / 4 and t = lane % 4 a lane holds
 *
 *     a[0]: row g,     columns 2t, 2t + 1          b[0]: rows 2t, 2t + 1,         column g
 *     a[1]: row g + 8, columns 2t, 2t + 1          b[1]: rows 2t + 8, 2t + 9,     column g
 *     a[2]: row g,     columns 2t + 8, 2t + 9
 *     a[3]: row g + 8, columns 2t + 8, 2t + 9      d[0], d[1]: row g,     columns 2t, 2t + 1
 *                                                  d[2], d[3]: row g + 8, columns 2t, 2t + 1
 *
 * Two D tiles side by side have the layout of one A. So a product's result can be packed to T in
 * place and multiplied again.
 */
#define PTX_MMA(TYPE)                                                                              \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE                            \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"            \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

template <typename T = __half>
__device__ __forceinline__ void mma_m16n8k16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    if constexpr (is_bfloat16<T>)
        PTX_MMA("bf16");
    else
        PTX_MMA("f16");
}

#undef PTX_MMA

/* ---- arithmetic ---- */

/*
 * Computes 2 to the power x in the special function unit, with a relative error below 2^-22. The
 * result is 0 for -inf, and where it would be below the smallest normal float (ex2.approx.ftz).
 */
__device__ __forceinline__ float exp2_approximate(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/*
 * Computes x · factor by an instruction that a predicate turns off where factor is 1. The
 * instruction keeps its place in the schedule and saves its energy (@p mul.f32).
 */
__device__ __forceinline__ float multiply_unless_one(float x, float factor)
{
    asm("{\n"
        ".reg .pred p;\n"
        "setp.neu.f32 p, %1, 0f3F800000;\n"
        "@p mul.f32 %0, %0, %1;\n"
        "}"
        : "+f"(x)
        : "f"(factor));
    return x;
}

/*
 * Ends a basic block by a branch. ptxas orders instructions only within basic blocks, so nothing
 * below this call starts before what is above it has started. `never` is false for all sensible
 * inputs, but the compiler must not know that; where it is true, the thread only sleeps for a
 * moment.
 */
__device__ __forceinline__ void scheduling_border(bool never)
{
    if (never)
        asm volatile("nanosleep.u32 1;");
}

/* ---- barriers that count arrivals and bytes ---- */

/*
 * An mbarrier is 8 bytes of shared memory, sm_90 in this use (mbarrier). It runs through phases. A
 * phase ends when `arrivals` threads have arrived and every announced byte has been written; the
 * next phase then starts by itself. A phase's parity tells it from its neighbours: the first has 0,
 * the next 1, then 0 again. Waiting for a parity returns once the phase of that parity is over, so
 * on a new barrier a wait for parity 1 returns at once: "the phase before the first" counts as
 * over.
 *
 *     mbarrier_init    by one thread, then mbarrier_init_fence() by it, then a barrier of the block
 *     mbarrier_arrive  one arrival; makes what this thread did before visible to those that wait
 *                      for the phase
 *     mbarrier_arrive_expect  one arrival that announces `bytes` to be written by asynchronous
 *                             copies
 *     mbarrier_wait     until the phase of this parity is over (mbarrier.try_wait.parity in a loop)
 */
__device__ __forceinline__ void mbarrier_init(uint64_t *barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(arrivals)
                 : "memory");
}

/* Makes initialised barriers visible to the copy engine (fence.mbarrier_init). */
__device__ __forceinline__ void mbarrier_init_fence(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                 : "memory");
}

__device__ __forceinline__ void mbarrier_arrive_expect(uint64_t *barrier, int bytes)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
}

/* Returns whether the phase is over. The hardware may suspend the thread for a while before it
 * answers no. */
__device__ __forceinline__ bool mbarrier_try_wait(uint64_t *barrier, int parity)
{
    uint32_t over;
    asm volatile("{ .reg .pred over;"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;"
                 "selp.b32 %0, 1, 0, over; }"
                 : "=r"(over)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
    return over != 0;
}

__device__ __forceinline__ void mbarrier_wait(uint64_t *barrier, int parity)
{
    while (!mbarrier_try_wait(barrier, parity)) {
    }
}

/* ---- barriers among some warps of a block ---- */

/*
 * Named barriers (bar.sync, bar.arrive) have numbers: `barrier` is 1 .. 15 (__syncthreads uses 0),
 * and `threads` is a multiple of 32. A barrier opens when that many threads have reached it,
 * whichever of the two functions they called; sync waits for the opening, arrive does not.
 */
__device__ __forceinline__ void named_barrier_sync(int barrier, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void named_barrier_arrive(int barrier, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/* ---- clusters: blocks that run together and reach into each other's shared memory ---- */

/*
 * A launch may join neighbouring blocks into clusters of up to 8, sm_90, all of which run at the
 * same time (cudaLaunchKernelEx with cudaLaunchAttributeClusterDimension). These return a block's
 * number in its cluster and the number of blocks in the cluster (%cluster_ctarank,
 * %cluster_nctarank); 0 and 1 in a launch without clusters.
 */
__device__ __forceinline__ int cluster_rank(void)
{
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return (int)rank;
}

__device__ __forceinline__ int cluster_blocks(void)
{
    uint32_t blocks;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    return (int)blocks;
}

/*
 * The cluster's barrier has two halves, sm_90 (barrier.cluster). Whole warps execute it. Every
 * thread of every block arrives once and then waits once; the wait ends when all threads of the
 * cluster have arrived or returned. Between the two a thread may do anything that does not depend
 * on the others.
 *
 *     cluster_arrive()           makes what this thread did visible to those that wait (.release)
 *     cluster_arrive_relaxed()   only says that this thread has come this far (.relaxed)
 *     cluster_wait()             (.acquire)
 *
 * The shared memory of another block may be accessed only after that block has begun and before it
 * ends. So there is a barrier before the first access, where a relaxed arrival is enough, and one
 * after the last.
 */
__device__ __forceinline__ void cluster_arrive(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_arrive_relaxed(void)
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait(void)
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/*
 * Returns the address of the same place in the shared memory of the cluster's block `rank`, sm_90
 * (mapa). It is for the functions below and for no others in this file.
 */
__device__ __forceinline__ uint32_t cluster_address(uint32_t shared, int rank)
{
    uint32_t address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(rank));
    return address;
}

/* Stores 8 or 16 bytes, aligned to their size, at such an address, sm_90 (st.shared::cluster). */
__device__ __forceinline__ void cluster_store(uint32_t address, float2 value)
{
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(value.x),
                 "f"(value.y)
                 : "memory");
}

__device__ __forceinline__ void cluster_store(uint32_t address, float4 value)
{
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(value.x),
                 "f"(value.y), "f"(value.z), "f"(value.w)
                 : "memory");
}

/*
 * Arrives once at an mbarrier at such an address, sm_90 (mbarrier.arrive.shared::cluster). That
 * block waits with mbarrier_wait. The arrival orders what the copy engine and wgmma do, which is
 * enough for a producer's ring of tiles. Ordinary stores would need .release.cluster, whose fence
 * takes longer than a block of keys.
 */
__device__ __forceinline__ void cluster_mbarrier_arrive(uint32_t address)
{
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address) : "memory");
}

/*
 * Stores 4 bytes at such an address and then counts them on an mbarrier of the same block, sm_90
 * (st.async). Threads that wait for the mbarrier see them. The block announces the bytes with
 * mbarrier_arrive_expect.
 */
__device__ __forceinline__ void cluster_store_async(uint32_t address, int value,
                                                    uint32_t barrier_address)
{
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];" ::"r"(address),
        "r"(value), "r"(barrier_address)
        : "memory");
}

/* ---- bulk tensor copies ---- */

/*
 * The tensor memory accelerator (TMA) copies a box out of a three-dimensional array, sm_90
 * (cp.async.bulk.tensor). One thread starts the copy. A tensor map, made on the host
 * (tensor_map.h), describes the array and the box. x, y and z are the box's first column, row and
 * matrix, which may lie outside the array: elements there are read as zero and not written.
 *
 * In shared memory the box lies row after row, 128 bytes a row, in a place aligned to 1024 bytes,
 * and SWIZZLED: in row r the eight 16-byte chunks are stored in the order chunk ^ (r % 8), so that
 * the same chunk of eight rows fills all 32 banks:
 *
 *     row 0     0 1 2 3 4 5 6 7          row 2     2 3 0 1 6 7 4 5
 *     row 1     1 0 3 2 5 4 7 6          row 3     3 2 1 0 7 6 5 4          ... row 8 as row 0
 *
 * A load ends by counting its bytes, including those outside the array, on the mbarrier.
 */
__device__ __forceinline__ void tma_load(uint32_t shared, const CUtensorMap *map, int x, int y,
                                         int z, uint64_t *barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier))
                 : "memory");
}

/*
 * Reads the box once and copies it into several blocks of the cluster, those whose rank's bit is
 * set in `ranks` (.multicast::cluster). It arrives at the same place in the shared memory of each,
 * and its bytes count on the mbarrier at the same place in each.
 */
__device__ __forceinline__ void tma_load_multicast(uint32_t shared, const CUtensorMap *map, int x,
                                                   int y, int z, uint64_t *barrier, uint16_t ranks)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier)), "h"(ranks)
                 : "memory");
}

/*
 * Stores a box from shared memory to the array. The thread that started stores waits for them in
 * groups: tma_store_wait_read waits until at most PENDING groups still read shared memory, which
 * may then be overwritten; tma_store_wait waits until at most PENDING are incomplete.
 */
__device__ __forceinline__ void tma_store(const CUtensorMap *map, int x, int y, int z,
                                          uint32_t shared)
{
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::
            "l"(map),
        "r"(x), "r"(y), "r"(z), "r"(shared)
        : "memory");
}

/*
 * Adds floats from shared memory to as many in global memory, each atomically, sm_90
 * (cp.reduce.async.bulk). Both addresses and the number of bytes are multiples of 16. It is waited
 * for as tma_store is, and in the same groups.
 */
__device__ __forceinline__ void bulk_add(float *global, uint32_t shared, int bytes)
{
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(global),
        "r"(shared), "r"(bytes)
        : "memory");
}

__device__ __forceinline__ void tma_store_commit(void)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

template <int PENDING>
__device__ __forceinline__ void tma_store_wait_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

template <int PENDING>
__device__ __forceinline__ void tma_store_wait(void)
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* Fetches a tensor map into the cache before its first use (prefetch.tensormap). */
__device__ __forceinline__ void tma_prefetch_map(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/*
 * The copy engine and the tensor cores access shared memory through the asynchronous proxy. They
 * see what this thread stored by ordinary instructions, including stmatrix, only after this fence
 * (fence.proxy.async).
 */
__device__ __forceinline__ void async_proxy_fence(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- matrix product by a warpgroup ---- */

/*
 * Four warps, the first of which has a number that is a multiple of four, multiply together and
 * asynchronously, sm_90a (wgmma.mma_async). They compute D += A * B, or D = A * B when accumulate
 * is 0, with inputs of type T and float sums; A is 64 x 16, B is 16 x N, D is 64 x N. All 128
 * threads execute it. Warp w of the four holds rows 16w .. 16w + 15 of D, and of A when A is in
 * registers. With g = lane / 4 and t = lane % 4, element i of d is
 *
 *     row 16w + g + 8 * ((i / 2) % 2),  column 8 * (i / 4) + 2t + i % 2
 *
 * That is, d[8k] .. d[8k + 7] are two D tiles of mma_m16n8k16 side by side, columns 16k .. 16k +
 * 15, and the registers a[0] .. a[3] hold 16 columns of A in the layout of mma_m16n8k16.
 *
 * wgmma_shared takes A and B from shared memory, both with k along the row: A as 64 rows, B as N
 * rows (B is transposed, like the keys of Q·Kᵀ). wgmma_registers takes A from registers and B from
 * shared memory with n along the row: 16 rows of N (B is not transposed, like the values of P·V).
 * wgmma_shared_transposed takes A and B from shared memory, with m and n along the row: A as 16
 * rows of 64 (it is transposed, like the keys' rows of dS in dS·K), B as 16 rows of N. All read
 * shared memory through descriptors.
 *
 * Every thread of the warpgroup calls, in this order:
 *
 *     wgmma_fence()     before the first product, and again when registers of d or a were touched
 *     wgmma_...()       any number of products, also onto the same d
 *     wgmma_commit()    closes the group
 *     wgmma_wait<n>()   until at most the n newest groups are under way: before that d must not be
 *                       read, nor a and the shared memory be overwritten
 *     wgmma_hold(d)     no instruction: keeps the compiler from moving reads of d above the wait
 */
__device__ __forceinline__ void wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int PENDING>
__device__ __forceinline__ void wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

template <int COUNT>
__device__ __forceinline__ void wgmma_hold(float (&d)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

template <int COUNT>
__device__ __forceinline__ void wgmma_hold(uint32_t (&a)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+r"(a[i])::"memory");
}

/*
 * A matrix descriptor says where a tile with 128-byte swizzled rows lies, as TMA leaves it (PTX
 * ISA, "Matrix Descriptor Format").
 *
 *     bits 0-13     address / 16
 *     bits 16-29    leading byte offset / 16: with m or n along the row, from one 64-column panel
 *                   to the next; with k along the row not used: 16 columns never leave a panel
 *     bits 32-45    stride byte offset / 16: from eight rows to the next eight, 1024 here
 *     bits 62-63    1: 128-byte swizzle
 *
 * The panel starts at a multiple of 1024 bytes. The hardware applies the swizzle to the address
 * bits. So the descriptor of a part of a tile is the tile's descriptor plus the part's unswizzled
 * byte offset, which wgmma_descriptor_at() adds.
 */
__device__ __forceinline__ uint64_t wgmma_descriptor(uint32_t address, int leading_bytes,
                                                     int stride_bytes)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(leading_bytes >> 4) << 16 |
           (uint64_t)(stride_bytes >> 4) << 32 | (uint64_t)1 << 62;
}

__device__ __forceinline__ uint64_t wgmma_descriptor_at(uint64_t descriptor, int byte_offset)
{
    return descriptor + (byte_offset >> 4);
}

/* An asm statement takes operands only one by one: these are d[first] and those after it. */
#define PTX_FLOATS_8(d, first)                                                                     \
    "+f"(d[(first)]), "+f"(d[(first) + 1]), "+f"(d[(first) + 2]), "+f"(d[(first) + 3]),            \
        "+f"(d[(first) + 4]), "+f"(d[(first) + 5]), "+f"(d[(first) + 6]), "+f"(d[(first) + 7])
#define PTX_FLOATS_32(d, first)                                                                    \
    PTX_FLOATS_8(d, first), PTX_FLOATS_8(d, (first) + 8), PTX_FLOATS_8(d, (first) + 16),           \
        PTX_FLOATS_8(d, (first) + 24)
#define PTX_FLOATS_40(d, first) PTX_FLOATS_32(d, first), PTX_FLOATS_8(d, (first) + 32)
#define PTX_FLOATS_64(d, first) PTX_FLOATS_32(d, first), PTX_FLOATS_32(d, (first) + 32)

/* These are the operands' names in the text of the instruction. */
#define PTX_D_32                                                                                   \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                      \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define PTX_D_40 PTX_D_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define PTX_D_64                                                                                   \
    PTX_D_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "  \
             "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

/* The operands behind those of d have the numbers that follow. */
#define PTX_WGMMA_SHARED(N, FLOATS, A, B, ACCUMULATE, TURN, TYPE)                                  \
    asm volatile("{ .reg .pred accumulate; setp.ne.b32 accumulate, " ACCUMULATE ", 0;"             \
                 "wgmma.mma_async.sync.aligned.m64n" N "k16.f32." TYPE "." TYPE " " PTX_D_##FLOATS \
                 "}, " A ", " B ", accumulate, 1, 1, " TURN ", " TURN "; }"                        \
                 : PTX_FLOATS_##FLOATS(d, 0)                                                       \
                 : "l"(a), "l"(b), "r"(accumulate), "n"(TRANSPOSED))
#define PTX_WGMMA_SHARED_64(TYPE) PTX_WGMMA_SHARED("64", 32, "%32", "%33", "%34", "%35", TYPE)
#define PTX_WGMMA_SHARED_80(TYPE) PTX_WGMMA_SHARED("80", 40, "%40", "%41", "%42", "%43", TYPE)
#define PTX_WGMMA_SHARED_128(TYPE) PTX_WGMMA_SHARED("128", 64, "%64", "%65", "%66", "%67", TYPE)

template <int TRANSPOSED, int N, typename T>
__device__ __forceinline__ void wgmma_in_shared(float (&d)[N / 2], uint64_t a, uint64_t b,
                                                int accumulate)
{
    static_assert(N == 64 || N == 80 || N == 128,
                  "add the shape that is needed: the instruction takes multiples of 8 up to 256");
    if constexpr (N == 64 && is_bfloat16<T>)
        PTX_WGMMA_SHARED_64("bf16");
    else if constexpr (N == 64)
        PTX_WGMMA_SHARED_64("f16");
    else if constexpr (N == 80 && is_bfloat16<T>)
        PTX_WGMMA_SHARED_80("bf16");
    else if constexpr (N == 80)
        PTX_WGMMA_SHARED_80("f16");
    else if constexpr (is_bfloat16<T>)
        PTX_WGMMA_SHARED_128("bf16");
    else
        PTX_WGMMA_SHARED_128("f16");
}

template <int N, typename T = __half>
__device__ __forceinline__ void wgmma_shared(float (&d)[N / 2], uint64_t a, uint64_t b,
                                             int accumulate)
{
    wgmma_in_shared<0, N, T>(d, a, b, accumulate);
}

template <int N, typename T = __half>
__device__ __forceinline__ void wgmma_shared_transposed(float (&d)[N / 2], uint64_t a, uint64_t b,
                                                        int accumulate)
{
    wgmma_in_shared<1, N, T>(d, a, b, accumulate);
}

#define PTX_WGMMA_REGISTERS_64(TYPE)                                                               \
    asm volatile("{ .reg .pred accumulate; setp.ne.b32 accumulate, %37, 0;"                        \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " " PTX_D_32          \
                 "}, {%32, %33, %34, %35}, %36, accumulate, 1, 1, 1; }"                            \
                 : PTX_FLOATS_32(d, 0)                                                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate))
#define PTX_WGMMA_REGISTERS_128(TYPE)                                                              \
    asm volatile("{ .reg .pred accumulate; setp.ne.b32 accumulate, %69, 0;"                        \
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " " PTX_D_64         \
                 "}, {%64, %65, %66, %67}, %68, accumulate, 1, 1, 1; }"                            \
                 : PTX_FLOATS_64(d, 0)                                                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate))

template <int N, typename T = __half>
__device__ __forceinline__ void wgmma_registers(float (&d)[N / 2], const uint32_t a[4], uint64_t b,
                                                int accumulate)
{
    static_assert(N == 64 || N == 128,
                  "add the shape that is needed: the instruction takes multiples of 8 up to 256");
    if constexpr (N == 64 && is_bfloat16<T>)
        PTX_WGMMA_REGISTERS_64("bf16");
    else if constexpr (N == 64)
        PTX_WGMMA_REGISTERS_64("f16");
    else if constexpr (is_bfloat16<T>)
        PTX_WGMMA_REGISTERS_128("bf16");
    else
        PTX_WGMMA_REGISTERS_128("f16");
}

#undef PTX_WGMMA_REGISTERS_128
#undef PTX_WGMMA_REGISTERS_64
#undef PTX_WGMMA_SHARED_128
#undef PTX_WGMMA_SHARED_80
#undef PTX_WGMMA_SHARED
#undef PTX_WGMMA_SHARED_64
#undef PTX_D_64
#undef PTX_D_40
#undef PTX_D_32
#undef PTX_FLOATS_8
#undef PTX_FLOATS_32
#undef PTX_FLOATS_40
#undef PTX_FLOATS_64

/* ---- registers moved between warpgroups ---- */

/*
 * Gives registers back to the block's pool, or takes them from it and waits until they are there.
 * From here on this warpgroup has REGISTERS per thread, a multiple of 8 from 24 to 256; sm_90a
 * (setmaxnreg). All warps of the warpgroup execute it. The pool is what the block got at launch.
 */
template <int REGISTERS>
__device__ __forceinline__ void registers_decrease(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS>
__device__ __forceinline__ void registers_increase(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

#endif
