/*
 * The PTX instructions that the kernels use, one small function each.
 *
 * PTX is the GPU's portable assembly. Some of what the hardware can do has no name in CUDA C++: matrix
 * instructions on registers, asynchronous copies, barriers that count bytes. Every such instruction stands
 * here, with its operands, its shapes and who holds what; kernels call these functions and hold no assembly
 * themselves. Section numbers are those of the PTX ISA manual, version 9.0; sm_XX is the first architecture
 * that has the instruction.
 *
 * Addresses in shared memory are 32-bit numbers, made by shared_address(). A fragment is a matrix spread over
 * the 32 lanes of a warp; its elements are halves, two to a 32-bit register (the lower half first), or
 * floats.
 *
 * The CPU backend has a file of the same name that does the same work in plain C.
 */
#ifndef COMMON_PTX_CUH
#define COMMON_PTX_CUH

#include <stdint.h>

/* ------------------------------------------------------------------------------------------------- addresses
 * ---- */

/* The address of something in shared memory, as the instructions below want it: 32 bits, counted from the
 * start of the block's shared window (PTX 9.7.9.22, cvta). */
__device__ __forceinline__ uint32_t shared_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

/* ------------------------------------------------------------------------- asynchronous copies by every
 * thread ---- */

/*
 * Copies 4 or 16 bytes from global to shared memory without passing through registers, sm_80 (PTX 9.7.9.25.3,
 * cp.async). Both addresses are aligned to the size. Nothing is there until a cp_async_wait() that covers the
 * copy, and then only this thread sees it: a barrier makes it visible to the others. The 16-byte copy skips
 * the L1 cache.
 *
 * With _zero_fill only the first `source_bytes` (a multiple of 4) are read (0 reads nothing, `global` is then
 * not looked at), and the rest of the destination becomes zero: what a tile's rows past the end of the array
 * want.
 *
 * sm_75 has no such instruction. There the copy is a load and a store, done when the function returns, and
 * commit and wait have nothing to do.
 */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800

__device__ __forceinline__ void cp_async_4_zero_fill(uint32_t shared, const void *global, int source_bytes)
{
    *(uint32_t *)__cvta_shared_to_generic(shared) = source_bytes == 4 ? *(const uint32_t *)global : 0;
}

__device__ __forceinline__ void cp_async_4(uint32_t shared, const void *global)
{
    cp_async_4_zero_fill(shared, global, 4);
}

__device__ __forceinline__ void cp_async_16(uint32_t shared, const void *global)
{
    *(uint4 *)__cvta_shared_to_generic(shared) = *(const uint4 *)global;
}

__device__ __forceinline__ void cp_async_16_zero_fill(uint32_t shared, const void *global, int source_bytes)
{
    if (source_bytes == 16) {
        cp_async_16(shared, global);
    } else {
        for (int byte = 0; byte < 16; byte += 4)
            cp_async_4_zero_fill(shared + byte, (const char *)global + byte, byte < source_bytes ? 4 : 0);
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

__device__ __forceinline__ void cp_async_4_zero_fill(uint32_t shared, const void *global, int source_bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global), "r"(source_bytes)
                 : "memory");
}

__device__ __forceinline__ void cp_async_16(uint32_t shared, const void *global)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

__device__ __forceinline__ void cp_async_16_zero_fill(uint32_t shared, const void *global, int source_bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(source_bytes)
                 : "memory");
}

/* Closes this thread's current group of copies, an empty one too (cp.async.commit_group). */
__device__ __forceinline__ void cp_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most the PENDING newest groups of this thread are still under way (cp.async.wait_group). */
template <int PENDING>
__device__ __forceinline__ void cp_async_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

#endif

/* ---------------------------------------------------------------- matrices between shared memory and
 * registers ---- */

/*
 * Loads four 8 x 8 matrices of halves, sm_75 (PTX 9.7.14.5.15, ldmatrix). Executed by the whole warp. A
 * matrix is eight rows of 16 bytes anywhere in shared memory, each aligned to 16: lane i passes the address
 * of row i % 8 of matrix i / 8, and register r[j] receives this lane's two elements of matrix j:
 *
 *     matrix j     col 0 1    2 3    4 5    6 7
 *     row 0        lane 0     1      2      3
 *     row 1        lane 4     5      6      7          lane holds row lane / 4, columns 2·(lane % 4) and the
 * next
 *     ...
 *     row 7        lane 28    29     30     31
 *
 * With _transposed the lane holds rows 2·(lane % 4) and the next of column lane / 4 instead.
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

/* ------------------------------------------------------------------------------------ matrix product by a
 * warp ---- */

/*
 * D += A·B on the tensor cores, half inputs and float sums, sm_80 (PTX 9.7.14.5.14, mma.sync.m16n8k16).
 * Executed by the whole warp. A is 16 x 16, B is 16 x 8, D is 16 x 8. With g = lane / 4 and t = lane % 4 a
 * lane holds
 *
 *     a[0]: row g,     columns 2t, 2t + 1          b[0]: rows 2t, 2t + 1,         column g
 *     a[1]: row g + 8, columns 2t, 2t + 1          b[1]: rows 2t + 8, 2t + 9,     column g
 *     a[2]: row g,     columns 2t + 8, 2t + 9
 *     a[3]: row g + 8, columns 2t + 8, 2t + 9      d[0], d[1]: row g,     columns 2t, 2t + 1
 *                                                  d[2], d[3]: row g + 8, columns 2t, 2t + 1
 *
 * Two neighbouring D side by side have the layout of an A: what one product made can be packed to half in
 * place and multiplied again.
 */
__device__ __forceinline__ void mma_m16n8k16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* -------------------------------------------------------------------------------------------------
 * arithmetic ---- */

/* 2 to the power x by the special function unit, relative error below 2^-22; -inf gives 0, results below the
 * smallest normal float are 0 (PTX 9.7.3.21, ex2.approx.ftz). */
__device__ __forceinline__ float exp2_approximate(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
