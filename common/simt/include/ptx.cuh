/* The PTX instructions of common/device/gpu/ptx.cuh, which documents them. Those of one line are
 * here, the others in common/simt/instructions/. What the hardware would silently do wrong is
 * reported, and asynchronous instructions complete as late as the rules allow: INSTRUCTIONS.md. */
#ifndef COMMON_PTX_CUH
#define COMMON_PTX_CUH

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

/* The functions are the program's only where it includes this file. */
/* clang-format off */
namespace ptx
{

/* Products take two element types. */
template <typename T> constexpr bool is_bfloat16 = std::is_same_v<T, __nv_bfloat16>;

__forceinline__ uint32_t shared_address(const void *shared) { return simt_shared_address(shared); }

/* These stay where they stand. */
__forceinline__ float4 volatile_load(const float *shared) { return *(const float4 *)shared; }
__forceinline__ float2 volatile_load_2(const float *shared) { return *(const float2 *)shared; }
__forceinline__ int volatile_lane(void) { return (int)(threadIdx.x % 32); }

/* ---- asynchronous copies by every thread: copy_async.cpp, and cuda_pipeline.h ---- */

__forceinline__ void cp_async_4(uint32_t shared, const void *global, SIMT_CALL_SITE) { cp_async(shared, global, 4, 4, site); }
__forceinline__ void cp_async_4_zero_fill(uint32_t shared, const void *global, int source_bytes, SIMT_CALL_SITE) { cp_async(shared, global, 4, source_bytes, site); }
__forceinline__ void cp_async_16(uint32_t shared, const void *global, SIMT_CALL_SITE) { cp_async(shared, global, 16, 16, site); }
__forceinline__ void cp_async_16_zero_fill(uint32_t shared, const void *global, int source_bytes, SIMT_CALL_SITE) { cp_async(shared, global, 16, source_bytes, site); }
template <int PENDING> __forceinline__ void cp_async_wait(void) { cp_async_wait(PENDING); }

/* ---- matrices in a warp's registers: matrix.cpp ---- */

void move_matrices(uint32_t r[4], uint32_t address, bool to_memory, bool transposed, simt::Site);
uint32_t movmatrix_transposed(uint32_t r, SIMT_CALL_SITE);

__forceinline__ void ldmatrix_x4(uint32_t r[4], uint32_t row_address, SIMT_CALL_SITE) { move_matrices(r, row_address, false, false, site); }
__forceinline__ void ldmatrix_x4_transposed(uint32_t r[4], uint32_t row_address, SIMT_CALL_SITE) { move_matrices(r, row_address, false, true, site); }
__forceinline__ void stmatrix_x4(uint32_t row_address, const uint32_t r[4], SIMT_CALL_SITE) { move_matrices(const_cast<uint32_t *>(r), row_address, true, false, site); }
template <typename T = __half> __forceinline__ void mma_m16n8k16(float d[4], const uint32_t a[4], const uint32_t b[2], SIMT_CALL_SITE) { simt::multiply_fragments(d, a, b, d, 8, is_bfloat16<T>, site); }

/* ---- arithmetic ---- */

/* Flushes results below the smallest normal float to 0, as the instruction does. */
__forceinline__ float exp2_approximate(float x) { return x < -126.0f ? 0.0f : exp2f(x); }
__forceinline__ float multiply_unless_one(float x, float factor) { return x * factor; }

/* Here is nothing to order. */
__forceinline__ void scheduling_border(bool) {}

/* ---- barriers that count arrivals and bytes: mbarrier.cpp ---- */

void mbarrier_init(uint64_t *barrier, int arrivals, SIMT_CALL_SITE);
void mbarrier_init_fence(void);
void mbarrier_arrive(uint64_t *barrier, SIMT_CALL_SITE);
void mbarrier_arrive_expect(uint64_t *barrier, int bytes, SIMT_CALL_SITE);
bool mbarrier_wait(uint64_t *barrier, int parity, bool may_give_up, simt::Site site);

__forceinline__ bool mbarrier_try_wait(uint64_t *barrier, int parity, SIMT_CALL_SITE) { return mbarrier_wait(barrier, parity, true, site); }
__forceinline__ void mbarrier_wait(uint64_t *barrier, int parity, SIMT_CALL_SITE) { mbarrier_wait(barrier, parity, false, site); }

/* ---- barriers among some warps of a block: threads/barrier.cpp ---- */

void named_barrier_sync(int barrier, int threads, SIMT_CALL_SITE);
void named_barrier_arrive(int barrier, int threads, SIMT_CALL_SITE);

/* ---- clusters: cluster.cpp; arrivals mbarrier.cpp, asynchronous stores tensor_copy.cpp ---- */

int cluster_rank(void);
int cluster_blocks(void);
void cluster_arrive(bool relaxed, simt::Site site);
void cluster_wait(SIMT_CALL_SITE);
uint32_t cluster_address(uint32_t shared, int rank, SIMT_CALL_SITE);
void cluster_store(uint32_t address, const void *value, unsigned bytes, simt::Site site);
void cluster_mbarrier_arrive(uint32_t address, SIMT_CALL_SITE);
void cluster_store_async(uint32_t address, int value, uint32_t barrier_address, SIMT_CALL_SITE);

__forceinline__ void cluster_arrive(SIMT_CALL_SITE) { cluster_arrive(false, site); }
__forceinline__ void cluster_arrive_relaxed(SIMT_CALL_SITE) { cluster_arrive(true, site); }
__forceinline__ void cluster_store(uint32_t address, float2 value, SIMT_CALL_SITE) { cluster_store(address, &value, sizeof value, site); }
__forceinline__ void cluster_store(uint32_t address, float4 value, SIMT_CALL_SITE) { cluster_store(address, &value, sizeof value, site); }

/* ---- bulk tensor copies, and additions to memory: tensor_copy.cpp ---- */

void tma_load(uint32_t shared, const CUtensorMap *map, int x, int y, int z, uint64_t *barrier,
              SIMT_CALL_SITE);
void tma_load_multicast(uint32_t shared, const CUtensorMap *map, int x, int y, int z,
                        uint64_t *barrier, uint16_t ranks, SIMT_CALL_SITE);
void tma_store(const CUtensorMap *map, int x, int y, int z, uint32_t shared, SIMT_CALL_SITE);
void red_add_4(float *global, float4 value, SIMT_CALL_SITE);
void bulk_add(float *global, uint32_t shared, int bytes, SIMT_CALL_SITE);
void tma_store_commit(void);
void tma_store_wait(unsigned pending, bool only_read);
void tma_prefetch_map(const CUtensorMap *map, SIMT_CALL_SITE);
void async_proxy_fence(void);

template <int PENDING> __forceinline__ void tma_store_wait_read(void) { tma_store_wait(PENDING, true); }
template <int PENDING> __forceinline__ void tma_store_wait(void) { tma_store_wait(PENDING, false); }

/* ---- registers moved between warpgroups: registers.cpp ---- */

void move_registers(unsigned per_thread, bool increase, simt::Site site);

template <int REGISTERS, bool INCREASE> __forceinline__ void move_registers(simt::Site site)
{
    static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256, "a multiple of 8");
    move_registers(REGISTERS, INCREASE, site);
}

template <int REGISTERS> __forceinline__ void registers_decrease(SIMT_CALL_SITE) { move_registers<REGISTERS, false>(site); }
template <int REGISTERS> __forceinline__ void registers_increase(SIMT_CALL_SITE) { move_registers<REGISTERS, true>(site); }

/* ---- matrix product by a warpgroup: wgmma.cpp ---- */

/* d has n / 2 elements. A is in the registers a or, when a is null, behind its descriptor. With
 * n_along, n and m run along the rows of what is in shared memory, otherwise k. */
void wgmma(float *d, unsigned n, const uint32_t *a, uint64_t a_descriptor, uint64_t b_descriptor,
           bool n_along, int accumulate, bool bfloat16, simt::Site site);
void wgmma_fence(void);
void wgmma_commit(void);
void wgmma_wait(unsigned pending, simt::Site site);

template <int PENDING> __forceinline__ void wgmma_wait(SIMT_CALL_SITE) { wgmma_wait(PENDING, site); }
/* The runtime writes d through a pointer: the compiler cannot keep its elements anywhere else. */
template <class T, int COUNT> __forceinline__ void wgmma_hold(T (&)[COUNT]) {}
/* clang-format on */

/* The address may need more than the hardware's 18 bits, because all kernels' shared variables
 * lie side by side. The rest goes to bits from 52 on, where the hardware has nothing. */
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

template <int N, typename T = __half> __forceinline__ void
wgmma_shared(float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate, SIMT_CALL_SITE)
{
    static_assert(N % 8 == 0 && N >= 8 && N <= 256, "a multiple of 8 up to 256");
    wgmma(d, N, nullptr, a, b, false, accumulate, is_bfloat16<T>, site);
}

template <int N, typename T = __half> __forceinline__ void
wgmma_shared_transposed(float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate, SIMT_CALL_SITE)
{
    static_assert(N % 8 == 0 && N >= 8 && N <= 256, "a multiple of 8 up to 256");
    wgmma(d, N, nullptr, a, b, true, accumulate, is_bfloat16<T>, site);
}

template <int N, typename T = __half> __forceinline__ void
wgmma_registers(float (&d)[N / 2], const uint32_t a[4], uint64_t b, int accumulate, SIMT_CALL_SITE)
{
    static_assert(N % 8 == 0 && N >= 8 && N <= 256, "a multiple of 8 up to 256");
    wgmma(d, N, a, 0, b, true, accumulate, is_bfloat16<T>, site);
}

} /* namespace ptx */

using namespace ptx;

#endif
