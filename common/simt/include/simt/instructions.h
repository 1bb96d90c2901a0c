/*
 * What ptx.cuh and mma.h call. Every function stands for one instruction and is executed by one
 * thread; those that a whole warp executes together meet inside (simt/warp.h). `line` and `file`
 * are the kernel's, for reports.
 */
#ifndef SIMT_INSTRUCTIONS_H
#define SIMT_INSTRUCTIONS_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Matrices between shared memory and registers, and products of a warp: instructions/matrix.cpp */
void simt_ldmatrix(uint32_t *r, uint32_t row_address, int transposed, int line, const char *file);
void simt_stmatrix(const uint32_t *r, uint32_t row_address, int line, const char *file);
void simt_mma_m16n8k16(float *d, const uint32_t *a, const uint32_t *b, int line, const char *file);

/*
 * Fragments of wmma, 16 x 16: eight elements per lane, as in mma_m16n8k16's A (factors) and two of
 * its D side by side (sums). A factor `of_rows` has its rows along memory.
 */
enum simt_wmma_kind { simt_wmma_halves, simt_wmma_floats };
void simt_wmma_load(void *fragment, const void *matrix, unsigned pitch, int kind, int by_rows,
                    int line, const char *file);
void simt_wmma_store(const void *fragment, void *matrix, unsigned pitch, int kind, int by_rows,
                     int line, const char *file);
void simt_wmma_multiply(float *d, const uint16_t *a, const uint16_t *b, const float *c, int line,
                        const char *file);

/* Asynchronous copies by every thread: instructions/copy_async.cpp */
void simt_cp_async(uint32_t shared, const void *global, unsigned bytes, unsigned source_bytes,
                   int line, const char *file);
void simt_cp_async_commit(void);
void simt_cp_async_wait(unsigned pending);

/* Barriers that count arrivals and bytes: instructions/mbarrier.cpp */
void simt_mbarrier_init(uint64_t *barrier, int arrivals, int line, const char *file);
void simt_mbarrier_init_fence(void);
void simt_mbarrier_arrive(uint64_t *barrier, int bytes, int line, const char *file);
int simt_mbarrier_try_wait(uint64_t *barrier, int parity, int line, const char *file);
void simt_mbarrier_wait(uint64_t *barrier, int parity, int line, const char *file);

/* Bulk tensor copies: instructions/tensor_copy.cpp. coordinates[0] is the column. */
void simt_tensor_load(uint32_t shared, const CUtensorMap *map, const int *coordinates,
                      unsigned rank, uint64_t *barrier, int line, const char *file);
void simt_tensor_store(const CUtensorMap *map, const int *coordinates, unsigned rank,
                       uint32_t shared, int line, const char *file);
void simt_tensor_store_commit(void);
void simt_tensor_store_wait(unsigned pending, int only_read);
void simt_tensor_prefetch_map(const CUtensorMap *map, int line, const char *file);
void simt_async_proxy_fence(void);

/* Matrix products of a warpgroup: instructions/wgmma.cpp. `a` in registers, or null and `a_descriptor`. */
void simt_wgmma(float *d, unsigned n, const uint32_t *a, uint64_t a_descriptor,
                uint64_t b_descriptor, int b_along_n, int accumulate, int line, const char *file);
void simt_wgmma_fence(void);
void simt_wgmma_commit(void);
void simt_wgmma_wait(unsigned pending, int line, const char *file);

/* Clusters: run/cluster.cpp */
int simt_cluster_rank(void);
int simt_cluster_blocks(void);
void simt_cluster_arrive(int relaxed, int line, const char *file);
void simt_cluster_wait(int line, const char *file);
uint32_t simt_cluster_address(uint32_t shared, int rank, int line, const char *file);
void simt_cluster_store(uint32_t address, const void *value, unsigned bytes, int line,
                        const char *file);

/* Registers that move between warpgroups: instructions/registers.cpp */
void simt_registers(unsigned per_thread, int increase, int line, const char *file);

#ifdef __cplusplus
}
#endif

#endif
