/*
 * The PTX instructions that the kernels use, in plain C: the CPU backend's text of common/ptx.cuh,
 * which documents them.
 *
 * Each function checks what the hardware would silently do wrong: alignment, addresses outside of
 * shared memory, warps that do not come together, barriers that were not initialised. Asynchronous
 * instructions complete as late as the rules allow.
 */
#ifndef COMMON_PTX_CUH
#define COMMON_PTX_CUH

#include <cuda.h>
#include <simt/instructions.h>
#include <simt/warp.h>
#include <stdint.h>

#define SIMT_CALL_SITE int line = __builtin_LINE(), const char *file = __builtin_FILE()

/* ---- addresses ---- */

__forceinline__ uint32_t shared_address(const void *shared)
{
    return simt_shared_address(shared);
}

/* ---- loads that stay where they stand ---- */

__forceinline__ float4 volatile_load(const float *shared)
{
    return *(const float4 *)shared;
}

/* ---- asynchronous copies by every thread ---- */

__forceinline__ void cp_async_4(uint32_t shared, const void *global, SIMT_CALL_SITE)
{
    simt_cp_async(shared, global, 4, 4, line, file);
}

__forceinline__ void cp_async_4_zero_fill(uint32_t shared, const void *global, int source_bytes,
                                          SIMT_CALL_SITE)
{
    simt_cp_async(shared, global, 4, source_bytes, line, file);
}

__forceinline__ void cp_async_16(uint32_t shared, const void *global, SIMT_CALL_SITE)
{
    simt_cp_async(shared, global, 16, 16, line, file);
}

__forceinline__ void cp_async_16_zero_fill(uint32_t shared, const void *global, int source_bytes,
                                           SIMT_CALL_SITE)
{
    simt_cp_async(shared, global, 16, source_bytes, line, file);
}

__forceinline__ void cp_async_commit(void)
{
    simt_cp_async_commit();
}

template <int PENDING>
__forceinline__ void cp_async_wait(void)
{
    simt_cp_async_wait(PENDING);
}

/* ---- matrices between shared memory and registers ---- */

__forceinline__ void ldmatrix_x4(uint32_t r[4], uint32_t row_address, SIMT_CALL_SITE)
{
    simt_ldmatrix(r, row_address, 0, line, file);
}

__forceinline__ void ldmatrix_x4_transposed(uint32_t r[4], uint32_t row_address, SIMT_CALL_SITE)
{
    simt_ldmatrix(r, row_address, 1, line, file);
}

__forceinline__ void stmatrix_x4(uint32_t row_address, const uint32_t r[4], SIMT_CALL_SITE)
{
    simt_stmatrix(r, row_address, line, file);
}

/* ---- matrix product by a warp ---- */

__forceinline__ void mma_m16n8k16(float d[4], const uint32_t a[4], const uint32_t b[2],
                                  SIMT_CALL_SITE)
{
    simt_mma_m16n8k16(d, a, b, line, file);
}

/* ---- arithmetic ---- */

/* Flushes results below the smallest normal float to 0, as the instruction does. */
__forceinline__ float exp2_approximate(float x)
{
    return x < -126.0f ? 0.0f : exp2f(x);
}

/* ---- barriers that count arrivals and bytes ---- */

__forceinline__ void mbarrier_init(uint64_t *barrier, int arrivals, SIMT_CALL_SITE)
{
    simt_mbarrier_init(barrier, arrivals, line, file);
}

__forceinline__ void mbarrier_init_fence(void)
{
    simt_mbarrier_init_fence();
}

__forceinline__ void mbarrier_arrive(uint64_t *barrier, SIMT_CALL_SITE)
{
    simt_mbarrier_arrive(barrier, 0, line, file);
}

__forceinline__ void mbarrier_arrive_expect(uint64_t *barrier, int bytes, SIMT_CALL_SITE)
{
    simt_mbarrier_arrive(barrier, bytes, line, file);
}

__forceinline__ bool mbarrier_try_wait(uint64_t *barrier, int parity, SIMT_CALL_SITE)
{
    return simt_mbarrier_try_wait(barrier, parity, line, file) != 0;
}

__forceinline__ void mbarrier_wait(uint64_t *barrier, int parity, SIMT_CALL_SITE)
{
    simt_mbarrier_wait(barrier, parity, line, file);
}

/* ---- barriers among some warps of a block ---- */

__forceinline__ void named_barrier_sync(int barrier, int threads, SIMT_CALL_SITE)
{
    simt_barrier_sync(barrier, threads, line, file);
}

__forceinline__ void named_barrier_arrive(int barrier, int threads, SIMT_CALL_SITE)
{
    simt_barrier_arrive(barrier, threads, line, file);
}

/* ---- clusters: blocks that run together and reach into each other's shared memory ---- */

__forceinline__ int cluster_rank(void)
{
    return simt_cluster_rank();
}

__forceinline__ int cluster_blocks(void)
{
    return simt_cluster_blocks();
}

__forceinline__ void cluster_arrive(SIMT_CALL_SITE)
{
    simt_cluster_arrive(0, line, file);
}

__forceinline__ void cluster_arrive_relaxed(SIMT_CALL_SITE)
{
    simt_cluster_arrive(1, line, file);
}

__forceinline__ void cluster_wait(SIMT_CALL_SITE)
{
    simt_cluster_wait(line, file);
}

__forceinline__ uint32_t cluster_address(uint32_t shared, int rank, SIMT_CALL_SITE)
{
    return simt_cluster_address(shared, rank, line, file);
}

__forceinline__ void cluster_store(uint32_t address, float2 value, SIMT_CALL_SITE)
{
    simt_cluster_store(address, &value, sizeof value, line, file);
}

__forceinline__ void cluster_store(uint32_t address, float4 value, SIMT_CALL_SITE)
{
    simt_cluster_store(address, &value, sizeof value, line, file);
}

/* ---- bulk tensor copies ---- */

__forceinline__ void tma_load(uint32_t shared, const CUtensorMap *map, int x, int y, int z,
                              uint64_t *barrier, SIMT_CALL_SITE)
{
    const int coordinates[3] = {x, y, z};
    simt_tensor_load(shared, map, coordinates, 3, barrier, line, file);
}

__forceinline__ void tma_store(const CUtensorMap *map, int x, int y, int z, uint32_t shared,
                               SIMT_CALL_SITE)
{
    const int coordinates[3] = {x, y, z};
    simt_tensor_store(map, coordinates, 3, shared, line, file);
}

__forceinline__ void tma_store_commit(void)
{
    simt_tensor_store_commit();
}

template <int PENDING>
__forceinline__ void tma_store_wait_read(void)
{
    simt_tensor_store_wait(PENDING, 1);
}

template <int PENDING>
__forceinline__ void tma_store_wait(void)
{
    simt_tensor_store_wait(PENDING, 0);
}

__forceinline__ void tma_prefetch_map(const CUtensorMap *map, SIMT_CALL_SITE)
{
    simt_tensor_prefetch_map(map, line, file);
}

__forceinline__ void async_proxy_fence(void)
{
    simt_async_proxy_fence();
}

/* ---- matrix product by a warpgroup ---- */

__forceinline__ void wgmma_fence(void)
{
    simt_wgmma_fence();
}

__forceinline__ void wgmma_commit(void)
{
    simt_wgmma_commit();
}

template <int PENDING>
__forceinline__ void wgmma_wait(SIMT_CALL_SITE)
{
    simt_wgmma_wait(PENDING, line, file);
}

/* The runtime writes d through a pointer: the compiler cannot keep its elements anywhere else. */
template <int COUNT>
__forceinline__ void wgmma_hold(float (&)[COUNT])
{
}

/*
 * The address may need more than the 18 bits that the hardware has, because here a program's shared
 * variables lie beside each other, those of all kernels. The rest goes where the hardware has
 * nothing, from bit 52 on.
 */
__forceinline__ uint64_t wgmma_descriptor(uint32_t address, int leading_bytes, int stride_bytes)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(leading_bytes >> 4) << 16 |
           (uint64_t)(stride_bytes >> 4) << 32 | (uint64_t)(address >> 18) << 52 |
           (uint64_t)1 << 62;
}

__forceinline__ uint64_t wgmma_descriptor_at(uint64_t descriptor, int byte_offset)
{
    return descriptor + (byte_offset >> 4);
}

template <int N>
__forceinline__ void wgmma_shared(float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate,
                                  SIMT_CALL_SITE)
{
    static_assert(N % 8 == 0 && N >= 8 && N <= 256,
                  "the instruction takes multiples of 8 up to 256");
    simt_wgmma(d, N, nullptr, a, b, 0, accumulate, line, file);
}

template <int N>
__forceinline__ void wgmma_registers(float (&d)[N / 2], const uint32_t a[4], uint64_t b,
                                     int accumulate, SIMT_CALL_SITE)
{
    static_assert(N % 8 == 0 && N >= 8 && N <= 256,
                  "the instruction takes multiples of 8 up to 256");
    simt_wgmma(d, N, a, 0, b, 1, accumulate, line, file);
}

/* ---- registers moved between warpgroups ---- */

template <int REGISTERS>
__forceinline__ void registers_decrease(SIMT_CALL_SITE)
{
    static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256,
                  "24 to 256, a multiple of 8");
    simt_registers(REGISTERS, 0, line, file);
}

template <int REGISTERS>
__forceinline__ void registers_increase(SIMT_CALL_SITE)
{
    static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256,
                  "24 to 256, a multiple of 8");
    simt_registers(REGISTERS, 1, line, file);
}

#undef SIMT_CALL_SITE

#endif
