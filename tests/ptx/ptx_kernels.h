/*
 * There is one kernel for each instruction of common/device/gpu/ptx.cuh, and for wmma. A kernel
 * reads words, executes the instruction and writes the resulting words; test_ptx.c knows what they
 * must be. Pointers are to device memory. Every function waits for the device and returns its
 * error.
 */
#ifndef TESTS_PTX_KERNELS_H
#define TESTS_PTX_KERNELS_H

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef cudaError_t ptx_kernel(const uint32_t *in, uint32_t *out);

/* copy_async.cu: [128] 16-byte copies with 4 * (i % 5) source bytes, [32] 4-byte copies of every
 * other word, [128] 16-byte copies in reverse, [32] 4-byte copies */
enum { COPY_ASYNC_WORDS = 320 };
ptx_kernel ptx_copy_async;

/* ldmatrix.cu: 32 rows of 4 words, row i at place MATRIX_PLACE(i) of shared memory -> r[4] of each
 * lane, plain, then transposed. stmatrix.cu: r[4] of each lane -> what lies at place 0, 1, ... */
#define MATRIX_PLACE(row) (((row)*5 + 3) % 32)
ptx_kernel ptx_ldmatrix;
ptx_kernel ptx_stmatrix;

/* movmatrix.cu: a word of each lane -> transposed, then transposed again */
ptx_kernel ptx_movmatrix;

/* red_add.cu: four floats of each of 64 threads, then 32 that they are added to -> these 32 */
ptx_kernel ptx_red_add;

/* bulk_add.cu: 64 floats of each of 4 blocks, then 64 that they are added to -> these 64 */
ptx_kernel ptx_bulk_add;

/* mma.cu: a[4], b[2], d[4] of each lane -> d[4] of each lane; factors are halves or bfloat16 */
ptx_kernel ptx_mma;
ptx_kernel ptx_mma_bfloat16;

/* wmma.cu: halves A [16][16] and B [16][16] (as they lie in memory), floats C and F [16][16] -> (A
 * * B + C) element by element times F; A and B taken row- or column-major as the number's bits 0
 * and 1 say, C and F row-major, the result stored column-major where bit 2 is set */
enum { WMMA_VARIANTS = 8, WMMA_IN = 128 + 128 + 256 + 256, WMMA_OUT = 256 * WMMA_VARIANTS };
ptx_kernel ptx_wmma;

/* arithmetic.cu: 2^x of EXP2_COUNT floats; the products of half as many pairs */
enum { EXP2_COUNT = 1024 };
ptx_kernel ptx_exp2, ptx_multiply_unless_one;

/* mbarrier.cu: HANDSHAKES times 32 words go from one warp to another through two places -> the
 * words, each plus its round. named_barrier.cu: 32 words go through three warps, each adds 1. */
enum { HANDSHAKES = 9 };
ptx_kernel ptx_mbarrier;
ptx_kernel ptx_named_barrier;

/* cluster.cu: CLUSTERS clusters of CLUSTER_BLOCKS warps, two words for each thread -> for each
 * block the words of each block of its cluster, lanes backwards, the rank of the receiver added to
 * the second; then its rank and the number of blocks */
enum { CLUSTERS = 3, CLUSTER_BLOCKS = 4, CLUSTER_OUT = 64 * CLUSTER_BLOCKS + 2 };
ptx_kernel ptx_cluster;

/* lane.cu: 32 words -> what thread i, of three warps, reads: word i % 32 */
ptx_kernel ptx_lane;

/* registers.cu: three warpgroups move registers between them; thread i of the first two sums words
 * i, i + 1, ... of 64 -> 256 sums */
ptx_kernel ptx_registers;

/* tma.cu: the box at (x, y, z), of `bytes` bytes, as it lies in shared memory; and back */
cudaError_t ptx_tma_load(const CUtensorMap *map, int x, int y, int z, int bytes, uint32_t *out);
cudaError_t ptx_tma_store(const CUtensorMap *map, int x, int y, int z, int bytes,
                          const uint32_t *in);

/* cluster.cu: MULTICAST_ROUNDS times 64 rows of 64 halves, in boxes of 32 -> for each round what
 * lay in each of two blocks, the second with 7 + round added to its words */
enum { MULTICAST_ROUNDS = 3, MULTICAST_WORDS = 64 * 32 };
cudaError_t ptx_tma_load_multicast(const CUtensorMap *map, uint32_t *out);

/*
 * wgmma.cu: `in` is WGMMA_IMAGE bytes of shared memory, then what each of 128 threads has in
 * registers: A's [steps][4] words, if A is in registers, and D's [n / 2] floats. -> D after `steps`
 * products, of which the first starts from D when accumulate is not 0 and from zero otherwise; from
 * one to the next the descriptors move by a_step and b_step bytes.
 */
enum { WGMMA_IMAGE = 40960, WGMMA_STEPS = 2 };
enum wgmma_form { WGMMA_SHARED, WGMMA_SHARED_TRANSPOSED, WGMMA_REGISTERS };
struct wgmma_layout {
    int n;                /* 128 or 64 */
    enum wgmma_form form; /* where A is; B is in shared memory */
    int swizzle;          /* bits 62 and 63 of both descriptors */
    int a_begin, a_leading, a_stride, a_step;
    int b_begin, b_leading, b_stride, b_step;
    int accumulate;
    int bfloat16; /* the factors are bfloat16; otherwise they are halves */
};
cudaError_t ptx_wgmma(const uint32_t *in, uint32_t *out, struct wgmma_layout layout);

/*
 * broken.cu: kernels that move 64 rows of 32 words, each with one mistake, or without it when
 * `correct`. `load` and `store` describe the words at `in` and `out` as [1, 64, 64] halves, in one
 * box, swizzled in 128 bytes.
 */
enum { BROKEN_WORDS = 64 * 32 };
enum mistake {
    NO_MISTAKE,
#define MISTAKE(name, fast, checked) name,
#include "mistakes.def"
#undef MISTAKE
    MISTAKES
};
cudaError_t ptx_broken(enum mistake mistake, bool correct, const CUtensorMap *load,
                       const CUtensorMap *store, const uint32_t *in, uint32_t *out);

#ifdef __cplusplus
}
#endif

#endif
